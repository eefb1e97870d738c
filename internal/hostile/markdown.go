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

// ofReports are the kinds of Markdown that reports are made of: none links, shows a
// picture, is HTML, or sets text as code.
var ofReports = []ast.NodeKind{
	ast.KindDocument, ast.KindHeading, ast.KindParagraph, ast.KindTextBlock, ast.KindText, ast.KindString, ast.KindList, ast.KindListItem, ast.KindEmphasis,
	extensions.KindTable, extensions.KindTableHeader, extensions.KindTableRow, extensions.KindTableCell,
}

// Outline returns the kinds of blocks of Markdown, and the text of it all.
func Outline(t testing.TB, markdown string) (blocks, words string) {
	t.Helper()
	var kinds, all strings.Builder
	source := []byte(markdown)
	// As GitHub has it: tables, addresses, strikes, tasks and footnotes.
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser()
	err := ast.Walk(parser.Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if !slices.Contains(ofReports, n.Kind()) {
			t.Errorf("there is a %s in\n%s", n.Kind(), markdown)
			return ast.WalkStop, nil
		}
		if n.Kind() != ast.KindText && n.Kind() != ast.KindString { // of which it depends on the text how many there are
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
