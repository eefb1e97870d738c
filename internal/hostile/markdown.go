package hostile

import (
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensions "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// ofReports are the kinds of Markdown in reports: no links, pictures, HTML or code.
var ofReports = []ast.NodeKind{
	ast.KindDocument, ast.KindHeading, ast.KindParagraph, ast.KindTextBlock, ast.KindText, ast.KindString, ast.KindList, ast.KindListItem, ast.KindEmphasis,
	extensions.KindTable, extensions.KindTableHeader, extensions.KindTableRow, extensions.KindTableCell,
}

// Outline returns the kinds of blocks of Markdown, and its text.
func Outline(t testing.TB, markdown string) (blocks, words string) {
	t.Helper()
	var kinds, all strings.Builder
	source := []byte(markdown)
	// GitHub's dialect: tables, addresses, strikes, tasks and footnotes.
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser()
	err := ast.Walk(parser.Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if !slices.Contains(ofReports, n.Kind()) {
			t.Errorf("unexpected %s in\n%s", n.Kind(), markdown)
			return ast.WalkStop, nil
		}
		if n.Kind() != ast.KindText && n.Kind() != ast.KindString { // their number depends on the text
			kinds.WriteString(n.Kind().String() + " ")
		}
		if words, ok := n.(*ast.Text); ok {
			all.Write(words.Value(source))
			all.WriteByte('\n')
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds.String(), all.String()
}
