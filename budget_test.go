package memlane_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// budgets are the lines of Go, without tests, that each room may have: a folder with what is below it and no room itself. A change
// that needs more raises the number in its own commit, and says there what it bought. One that needs less lowers it.
var budgets = []struct {
	room    string
	lines   int
	product bool // people run it: not for measuring, building or testing
}{
	{".", 30, true},
	{"cmd/memlane", 4_770, true},
	{"cmd/memlane-bench", 2_250, false},
	{"cmd/memlane-fleet", 6_810, false},
	{"cmd/memlane-web", 450, false},
	{"docs/manual", 200, true},
	{"formats", 1_080, true},
	{"formats/chrometrace", 4_850, true},
	{"formats/gpumemprof", 470, true},
	{"formats/hlo", 4_310, true},
	{"formats/internal", 300, true},
	{"formats/jaxprof", 500, true},
	{"formats/oomtext", 3_270, true},
	{"formats/torchsnap", 2_670, true},
	{"formats/xplane", 2_810, true},
	{"internal/atomicfile", 200, true},
	{"internal/browser", 450, false},
	{"internal/chunked", 60, true},
	{"internal/deep", 30, false},
	{"internal/hostile", 250, false},
	{"internal/judged", 30, false},
	{"internal/keyed", 20, true},
	{"internal/laws", 20, false},
	{"internal/mcptest", 150, false},
	{"internal/memlimit", 250, true},
	{"internal/mutants", 470, false},
	{"internal/nativetest", 150, false},
	{"internal/pickletest", 250, false},
	{"internal/race", 20, false},
	{"internal/shorten", 350, true},
	{"internal/trainingtest", 90, false},
	{"internal/units", 170, true},
	{"lifetime", 1_660, true},
	{"lifetime/answer", 3_850, true},
	{"lifetime/build", 2_500, true},
	{"lifetime/category", 4_910, true},
	{"lifetime/compiled", 80, true},
	{"lifetime/diff", 1_300, true},
	{"lifetime/failure", 200, true},
	{"lifetime/finding", 5_737, true},
	{"lifetime/frame", 430, true},
	{"lifetime/holder", 160, true},
	{"lifetime/internal", 330, true},
	{"lifetime/judge", 210, true},
	{"lifetime/layer", 220, true},
	{"lifetime/loss", 200, true},
	{"lifetime/native", 760, true},
	{"lifetime/oom", 1_740, true},
	{"lifetime/outline", 200, true},
	{"lifetime/preset", 1_250, true},
	{"lifetime/program", 2_650, true},
	{"lifetime/purpose", 200, true},
	{"lifetime/region", 480, true},
	{"lifetime/replay", 2_950, true},
	{"lifetime/selection", 1_050, true},
	{"lifetime/whatif", 6_700, true},
	{"render", 90, true},
	{"render/benchfmt", 100, true},
	{"render/blocks", 2_530, true},
	{"render/canvas", 1_200, true},
	{"render/chart", 2_100, true},
	{"render/collapsed", 150, true},
	{"render/figure", 250, true},
	{"render/memtimeline", 100, true},
	{"render/model", 450, true},
	{"render/perfetto", 500, true},
	{"render/plot", 1_340, true},
	{"render/pprof", 1_140, true},
	{"render/report", 700, true},
	{"render/tables", 500, true},
	{"render/text", 2_650, true},
	{"render/web", 1_725, true},
	{"render/xprofjson", 1_200, true},
}

// maxProduct is how many lines the rooms of the product may have together.
const maxProduct = 81_500

// TestBudgets holds each room to its budget, and each budget to its room.
func TestBudgets(t *testing.T) {
	lines := map[string]int{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata") {
			return err
		}
		text, err := os.ReadFile(file)
		folder, room := filepath.ToSlash(filepath.Dir(file))+"/", ""
		for _, b := range budgets {
			if strings.HasPrefix(folder, b.room+"/") && len(b.room) > len(room) { // the innermost
				room = b.room
			}
		}
		if room == "" {
			t.Errorf("%s: give its folder a budget", file)
		}
		lines[room] += bytes.Count(text, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	product := 0
	for _, b := range budgets {
		n := lines[b.room]
		switch slack := max(50, b.lines/20); {
		case n > b.lines:
			t.Errorf("%s has %d lines, its budget is %d: take away what is no longer needed, or raise the budget and say what that buys", b.room, n, b.lines)
		case n < b.lines-slack:
			t.Errorf("%s has %d lines: lower its budget of %d", b.room, n, b.lines)
		}
		if b.product {
			product += n
		}
	}
	if product > maxProduct || product < maxProduct-500 {
		t.Errorf("the product has %d lines, its budget is %d", product, maxProduct)
	}
}

// maxNames is how many exported names, methods included, a package may have that many others import.
var maxNames = map[string]int{"lifetime": 128, "lifetime/answer": 122}

// TestNames holds the packages that many others import to a number of names.
func TestNames(t *testing.T) {
	for folder, most := range maxNames {
		n := 0
		files, _ := filepath.Glob(folder + "/*.go")
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				n += exported(d)
			}
		}
		if n != most {
			t.Errorf("%s has %d exported names, its budget is %d", folder, n, most)
		}
	}
}

// maxFunction is how many lines a function may have in packages whose functions are short.
var maxFunction = map[string]int{"lifetime/whatif": 59}

// TestFunctions holds functions to a number of lines.
func TestFunctions(t *testing.T) {
	for folder, most := range maxFunction {
		files, _ := filepath.Glob(folder + "/*.go")
		for _, name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				of, ok := d.(*ast.FuncDecl)
				if !ok || strings.HasSuffix(name, "_test.go") {
					continue
				}
				if n := set.Position(of.End()).Line - set.Position(of.Pos()).Line + 1; n > most {
					t.Errorf("%s: %s has %d lines, at most %d", name, of.Name.Name, n, most)
				}
			}
		}
	}
}

// exported returns the number of exported names that a declaration has.
func exported(d ast.Decl) (n int) {
	count := func(name *ast.Ident) {
		if name.IsExported() {
			n++
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		count(d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				count(spec.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					count(name)
				}
			}
		}
	}
	return n
}
