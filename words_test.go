package memlane_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// words are the terms that texts do not use, with those that they use instead: the table "Words" of CONTRIBUTING.md.
var words = []struct {
	not *regexp.Regexp
	use string
}{
	{regexp.MustCompile("(?:^|[^-_`.\\w])(?:window|windows|Window)(?:$|[^-_`\\w])"), "recording"},
	{regexp.MustCompile(`(?i)\bmemory spaces?\b`), "memory ID"},
	{regexp.MustCompile(`(?i)\blimit of (?:the|its) device|device's limit|\b(?:above|below|within|reach|reaches) the limit\b|memory limit of the device`), "capacity"},
}

// allowedWords are texts with such a word, by the end of their file.
var allowedWords = []struct{ file, text, why string }{
	{"cmd/memlane/peak.go", "memory space", "XLA numbers the memories of a compiled program"},
	{"docs/manual/json.md", "memory space of a compiled program", "the same"},
	{"lifetime/answer/schema.json", "memory space of a compiled program", "the same"},
	{"docs/manual/numbers.md", "compiled program and memory space", "the same"},
	{"docs/manual/numbers.md", "memory space 0 is the main memory", "the same"},
	{"docs/manual/reference.md", "a memory space of a compiled program", "the same"},
	{"docs/manual/formats.md", "| `color` | memory space |", "the same"},
	{"docs/manual/formats.md", "a region of memory space 1", "the same"},
	{"docs/manual/formats.md", "Memory Space: default", "XLA prints it"},
	{"docs/manual/formats.md", "Ran out of memory in memory space", "XLA prints it"},
	{"docs/evidence/input.md", "memory spaces", "XLA numbers the memories of a compiled program"},
	{"page/select.js", "memory space", "the same"},
	{"cmd/memlane/output.go", `"windows"`, "the operating system"},
	{"cmd/memlane/serve.go", `"windows"`, "the operating system"},
}

// TestWords: texts use one word for one thing.
func TestWords(t *testing.T) {
	used, n := make([]bool, len(allowedWords)), 0
	check := func(file, where, text string) {
		n++
		for _, w := range words {
			if !w.not.MatchString(text) {
				continue
			}
			ok := false
			for i, a := range allowedWords {
				if strings.HasSuffix(file, a.file) && strings.Contains(text, a.text) {
					used[i], ok = true, true
				}
			}
			if !ok {
				t.Errorf("%s:%s: %q: use %q, or add it to allowedWords with a reason", file, where, w.not.FindString(text), w.use)
			}
		}
	}
	for _, file := range textFiles(t) {
		switch path.Ext(file) {
		case ".go":
			goTexts(t, file, check)
		case ".js":
			eachLine(t, file, func(number int, line string) {
				if !strings.HasPrefix(strings.TrimSpace(line), "//") {
					for _, text := range jsText.FindAllString(line, -1) {
						check(file, strconv.Itoa(number), text)
					}
				}
			})
		default:
			eachLine(t, file, func(number int, line string) { check(file, strconv.Itoa(number), line) })
		}
	}
	for i, a := range allowedWords {
		if !used[i] {
			t.Errorf("%s has no %q now: remove it from allowedWords", a.file, a.text)
		}
	}
	if n < 10_000 {
		t.Errorf("%d texts", n)
	}
}

// jsText matches a string of JavaScript.
var jsText = regexp.MustCompile("'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")

// textFiles returns the files with texts for people. Presets repeat what other tools say.
func textFiles(t *testing.T) (all []string) {
	t.Helper()
	for _, folder := range []string{"docs", "render", "cmd", "lifetime", "README.md"} {
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			switch file = filepath.ToSlash(file); {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "assets" || d.Name() == "node_modules" || d.Name() == "preset"):
				return fs.SkipDir
			case strings.HasSuffix(file, "_test.go"), path.Ext(file) == ".js" && path.Base(path.Dir(file)) != "page":
			case path.Ext(file) == ".md", path.Ext(file) == ".go", path.Ext(file) == ".js", d.Name() == "schema.json":
				all = append(all, file)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func eachLine(t *testing.T, file string, take func(number int, line string)) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		take(number, line)
	}
}

// goTexts yields the strings of a Go file without imports and tags.
func goTexts(t *testing.T, file string, take func(file, where, text string)) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING && !strings.HasPrefix(n.Value, "`json:") {
				take(file, strconv.Itoa(set.Position(n.Pos()).Line), n.Value)
			}
		}
		return true
	})
}
