package memlane_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render"
)

const module = "github.com/memlane/memlane"

// allowed says which packages of the module each folder may import, and whether
// it may import other modules: the direction of CONTRIBUTING.md.
var allowed = []struct {
	folder  string
	imports []string
	others  bool
}{
	{"lifetime/internal", nil, false},
	{"lifetime/loss", []string{"internal/units"}, false},
	{"lifetime/frame", nil, false},
	{"lifetime/purpose", nil, false},
	{"lifetime/failure", nil, false},
	{"lifetime/holder", []string{"lifetime/purpose"}, false},
	{"lifetime/compiled", []string{"lifetime/internal/", "internal/units"}, false},
	{"lifetime/region", []string{"lifetime", "lifetime/compiled", "lifetime/internal/", "internal/keyed", "internal/units"}, false},
	{"lifetime/outline", []string{"lifetime", "lifetime/region", "internal/units"}, false},
	{"lifetime/layer", []string{"lifetime", "lifetime/frame"}, false},
	{"lifetime/selection", []string{"lifetime", "lifetime/holder", "lifetime/frame", "lifetime/layer", "lifetime/loss",
		"lifetime/outline", "lifetime/region", "internal/units"}, false},
	{"lifetime/build", []string{"lifetime", "lifetime/holder", "lifetime/loss", "lifetime/internal/",
		"lifetime/failure", "lifetime/frame", "lifetime/outline", "lifetime/purpose", "internal/chunked",
		"internal/units"}, false},
	{"lifetime/program", []string{"lifetime", "lifetime/loss", "lifetime/frame", "lifetime/purpose", "lifetime/region", "internal/units"}, false},
	{"lifetime/preset", []string{"lifetime", "lifetime/answer", "lifetime/finding", "lifetime/region", "internal/keyed", "internal/units"}, true},
	{"lifetime/judge", []string{"lifetime", "lifetime/category", "lifetime/finding", "lifetime/oom", "lifetime/outline",
		"lifetime/program", "lifetime/region", "lifetime/replay", "lifetime/whatif"}, false},
	{"lifetime/answer", []string{"lifetime", "lifetime/compiled", "lifetime/holder", "lifetime/diff", "lifetime/judge",
		"lifetime/finding", "lifetime/program", "lifetime/loss", "lifetime/internal/", "lifetime/oom",
		"lifetime/replay", "lifetime/failure", "lifetime/frame", "lifetime/layer", "lifetime/outline",
		"lifetime/purpose", "lifetime/region", "lifetime/selection", "internal/keyed", "internal/units", "lifetime/whatif"}, false},
	{"lifetime/oom", []string{"lifetime", "lifetime/compiled", "lifetime/holder", "lifetime/program", "lifetime/replay", "lifetime/failure",
		"lifetime/frame", "lifetime/purpose", "lifetime/region", "lifetime/selection", "internal/units"}, false},
	{"lifetime/diff", []string{"lifetime", "lifetime/holder", "lifetime/finding", "lifetime/judge", "lifetime/purpose",
		"lifetime/frame", "lifetime/region", "internal/keyed", "internal/units"}, false},
	{"lifetime/finding", []string{"lifetime", "lifetime/compiled", "lifetime/failure", "lifetime/holder",
		"lifetime/program", "lifetime/loss", "lifetime/oom", "lifetime/replay", "lifetime/frame", "lifetime/outline",
		"lifetime/purpose", "lifetime/region", "lifetime/selection", "internal/keyed", "internal/units"}, false},
	{"lifetime/whatif", []string{"lifetime", "lifetime/program", "lifetime/replay", "lifetime/frame", "lifetime/purpose", "internal/units"}, false},
	{"lifetime/replay", []string{"lifetime", "lifetime/region", "internal/units"}, false},
	{"lifetime/category", []string{"lifetime", "lifetime/compiled", "lifetime/program", "lifetime/internal/",
		"lifetime/frame", "lifetime/outline", "lifetime/purpose", "lifetime/region", "internal/units"}, false},
	{"lifetime/native", []string{"lifetime", "lifetime/compiled", "lifetime/holder", "lifetime/build", "lifetime/loss",
		"lifetime/failure", "lifetime/frame", "lifetime/purpose", "internal/units"}, false},
	{"lifetime", []string{"lifetime/compiled", "lifetime/holder", "lifetime/loss", "lifetime/internal/",
		"lifetime/failure", "lifetime/frame", "lifetime/purpose", "internal/chunked", "internal/units"}, false},
	{"internal/atomicfile", nil, false},
	{"internal/chunked", nil, false},
	{"internal/keyed", nil, false},
	{"internal/units", nil, true},
	{"internal/shorten", nil, false},
	{"internal/memlimit", []string{"internal/units"}, false},
	{"internal/laws", nil, false},
	{"internal/race", nil, false},
	{"internal/deep", nil, false},
	{"internal/judged", []string{"lifetime/category", "lifetime/judge", "formats"}, false},
	{"internal/pickletest", nil, false},
	{"internal/browser", []string{"internal/race"}, true},
	{"internal/hostile", []string{"lifetime", "lifetime/compiled", "lifetime/build", "lifetime/loss",
		"lifetime/failure", "lifetime/frame"}, true},
	{"internal/trainingtest", []string{"lifetime", "lifetime/build", "lifetime/frame", "internal/units"}, false},
	{"internal/nativetest", []string{"lifetime", "lifetime/build", "lifetime/native", "lifetime/loss"}, true},
	{"internal/mcptest", nil, true},
	{"internal/mutants", nil, true},
	{"formats/torchsnap/internal/pickle", nil, false},
	{"formats/torchsnap", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/failure", "lifetime/frame",
		"formats/torchsnap/internal/pickle", "formats/internal/holders", "internal/chunked"}, false},
	{"formats/chrometrace/internal/scan", nil, false},
	{"formats/chrometrace", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/frame",
		"formats/chrometrace/internal/scan", "internal/units"}, false},
	{"formats/gpumemprof", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/frame", "internal/units"}, false},
	{"formats/oomtext", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/failure", "lifetime/frame", "internal/units"},
		false},
	{"formats/jaxprof", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/frame", "formats/internal/wire",
		"formats/internal/holders"}, true},
	// Formats stand apart from each other, but for compiled programs: XProf profiles have
	// them, and so do files of their own.
	{"formats/xplane", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/frame", "formats/hlo", "internal/units"}, false},
	{"formats/internal/wire", nil, true},
	{"formats/internal/holders", []string{"lifetime", "lifetime/holder", "lifetime/build", "lifetime/loss",
		"lifetime/purpose"}, true},
	{"formats/hlo", []string{"lifetime", "lifetime/compiled", "lifetime/build", "lifetime/loss", "lifetime/frame",
		"formats/internal/wire", "internal/units"}, true},
	{"formats", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/native", "lifetime/outline", "formats/"}, true},
	{"render/canvas", []string{"internal/shorten"}, true},
	{"render/plot", []string{"lifetime", "lifetime/program", "lifetime/frame", "lifetime/purpose", "lifetime/region", "internal/keyed", "internal/units",
		"render/canvas"}, false},
	{"render/figure", []string{"lifetime", "lifetime/finding", "lifetime/judge", "lifetime/oom", "lifetime/purpose", "lifetime/region", "lifetime/selection", "internal/units", "render/blocks",
		"render/canvas", "render/chart", "render/plot"}, false}, // facts, no sentences
	{"render", []string{"lifetime", "lifetime/", "internal/keyed", "internal/shorten", "internal/units", "render/"}, true},
	{"docs", nil, true},
	{"cmd", []string{""}, true},
}

func TestImportDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Doc", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
			Doc        string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		i := slices.IndexFunc(allowed, func(a struct {
			folder  string
			imports []string
			others  bool
		}) bool {
			return folder == a.folder || a.folder != "formats" && strings.HasPrefix(folder, a.folder+"/") // each format has a row
		})
		if i < 0 {
			if folder != "" {
				t.Errorf("%s: say in allowed what it may import", folder)
			}
			continue
		}
		seen++
		if p.Doc == "" {
			t.Errorf("%s: its doc.go does not say what it is", folder)
		}
		for _, path := range p.Imports {
			inner, ours := strings.CutPrefix(path, module+"/")
			switch {
			case inner == "lifetime/preset" && folder != "cmd/memlane":
				t.Errorf("%s must not import %s: only --rules asks for it", folder, inner)
			case ours && !slices.ContainsFunc(allowed[i].imports, func(ok string) bool {
				return inner == ok || ok == "" || strings.HasSuffix(ok, "/") && strings.HasPrefix(inner, ok)
			}):
				t.Errorf("%s must not import %s", folder, inner)
			case !ours && strings.Contains(strings.Split(path, "/")[0], ".") && !allowed[i].others:
				t.Errorf("%s must not import %s: it is to stand on the standard library", folder, path)
			}
		}
	}
	if seen < len(allowed) {
		t.Errorf("only %d packages were looked at", seen)
	}
}

// TestFormatNames: nothing outside package formats compares the name of a format. What
// is always true of a format stands in its Traits.
func TestFormatNames(t *testing.T) {
	for _, folder := range []string{"lifetime", "render", "cmd/memlane"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, f := range formats.All() {
				if bytes.Contains(text, []byte("== "+strconv.Quote(f.Name))) || bytes.Contains(text, []byte("case "+strconv.Quote(f.Name))) {
					t.Errorf("%s compares the name of the format %s", path, f.Name)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestSourceFiles: only package program knows the files of PyTorch. What others say about a rule may name them.
func TestSourceFiles(t *testing.T) {
	for _, folder := range []string{"finding", "answer", "category", "oom", "diff", "whatif"} {
		files, _ := filepath.Glob("lifetime/" + folder + "/*.go")
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if row, ok := n.(*ast.CompositeLit); ok && row.Type == nil && strings.HasSuffix(name, "category/rules.go") {
					row.Elts = slices.DeleteFunc(row.Elts, func(e ast.Expr) bool { _, ok := e.(*ast.BasicLit); return ok }) // the source of a rule
				}
				text, ok := n.(*ast.BasicLit)
				if ok && text.Kind == token.STRING && aPath.MatchString(text.Value) {
					t.Errorf("%s: %s: ask package program", name, text.Value)
				}
				return true
			})
		}
	}
}

// TestOneJudgement: only package judge makes what is made once for all answers about a capture.
func TestOneJudgement(t *testing.T) {
	of := map[string]bool{"program.Of": true, "finding.Find": true, "oom.Of": true, "replay.Check": true, "replay.Of": true, "whatif.New": true}
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || filepath.ToSlash(name) == "lifetime/judge/judge.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && of[p.Name+"."+s.Sel.Name] {
					t.Errorf("%s: %s.%s: ask the judge.Capture", name, p.Name, s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// aPath matches a text that is a part of a path and nothing else.
var aPath = regexp.MustCompile("^[`\"](/?torch/[^ ,]*|[^ ,]*/optim/[^ ,]*|[^ =,]*\\.py)[`\"]$")

// place is a file that must mention a name, and the text it must hold.
type place struct{ file, text string }

// missing reports the places that do not hold their text.
func missing(t *testing.T, name string, places ...place) {
	t.Helper()
	for _, p := range places {
		if text, err := os.ReadFile(p.file); err != nil || !strings.Contains(string(text), p.text) {
			t.Errorf("%s: %s lacks %q (see CONTRIBUTING.md)", name, p.file, p.text)
		}
	}
}

// inTests reports whether no test of a folder holds text.
func inTests(t *testing.T, name, folder, text string) {
	t.Helper()
	tests, _ := filepath.Glob(folder + "/*_test.go")
	if !slices.ContainsFunc(tests, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(source), text)
	}) {
		t.Errorf("%s: no test in %s has %q", name, folder, text)
	}
}

// TestFormatPlaces names the places of CONTRIBUTING.md that do not have a format of the table yet.
func TestFormatPlaces(t *testing.T) {
	captures := map[string][]string{} // folders by format
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "testdata/gen/") {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		var in io.Reader = file
		if unzipped, err := gzip.NewReader(file); err == nil {
			in = unzipped
		} else if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		head, err := io.ReadAll(io.LimitReader(in, 4096))
		for _, f := range formats.All() {
			if f.Sniff(head) {
				captures[f.Name] = append(captures[f.Name], strings.Split(filepath.ToSlash(path), "/")[1])
				break
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats.All() {
		source, _, _ := strings.Cut(strings.TrimPrefix(runtime.FuncForPC(reflect.ValueOf(f.Sniff).Pointer()).Name(), module+"/"), ".")
		missing(t, f.Name, place{source + "/doc.go", "// Package " + path.Base(source)}, place{"README.md", "| `" + f.Name + "` |"}, place{"docs/manual/formats.md", "(#" + f.Name + ")"},
			place{"docs/manual/formats.md", "\n## " + f.Name + "\n"}, place{"CHANGELOG.md", f.Name})
		inTests(t, f.Name, source, "func Fuzz")
		if f.States { // its captures are the goldens of the others
			continue
		}
		inTests(t, f.Name, source, "nativetest.Golden(")
		inTests(t, f.Name, source, ".Check()")
		if len(captures[f.Name]) == 0 {
			t.Errorf("%s: Sniff recognises no capture in testdata", f.Name)
		}
		for _, folder := range captures[f.Name] {
			missing(t, f.Name, place{"testdata/README.md", "\n## " + folder + "\n"})
		}
	}
}

// TestRulePlaces: TestDocumentedRules in cmd/memlane checks the manual.
func TestRulePlaces(t *testing.T) {
	for _, r := range finding.Rules() {
		missing(t, r.Name, place{"CHANGELOG.md", r.Name})
		inTests(t, r.Name, "lifetime/finding", r.Name)
	}
}

// TestExportPlaces names the places of CONTRIBUTING.md that lack an export of the table.
func TestExportPlaces(t *testing.T) {
	for _, e := range render.Exports {
		missing(t, e.Name, place{"docs/manual/exports.md", "--to " + e.Name}, place{"docs/tasks.md", e.Name}, place{"docs/manual/commands.md", e.Name},
			place{"CHANGELOG.md", e.Name})
		if e.Needs == render.Buffers {
			missing(t, e.Name, place{"render/testdata/small" + e.Extension, ""})
		}
	}
}

// TestDependencyPlaces: docs/dependencies.md gives a reason for every direct dependency.
func TestDependencyPlaces(t *testing.T) {
	for _, file := range []string{"go.mod", "cmd/memlane-fleet/go.mod"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, version, isDependency := strings.Cut(strings.TrimSpace(line), " v")
			if isDependency && !strings.Contains(version, "// indirect") && !strings.Contains(name, module) {
				name = strings.TrimSuffix(strings.TrimPrefix(name, "github.com/"), "/"+path.Base(name))
				missing(t, name, place{"docs/dependencies.md", name})
			}
		}
	}
}
