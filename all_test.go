package memlane_test

import (
	"bytes"
	"encoding/json"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
)

const module = "github.com/memlane/memlane"

// TestFormat reads every file itself: so the cache of go test knows what the
// tests here depend on.
func TestFormat(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if want, err := format.Source(have); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s: run gofmt (%v)", path, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestVet(t *testing.T) {
	if out, err := exec.Command("go", "vet", "./...").CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

// allowed says which packages of the module each folder may import, and whether
// it may import other modules: the direction of CONTRIBUTING.md.
var allowed = []struct {
	folder  string
	imports []string
	others  bool
}{
	{"lifetime/internal", nil, false},
	{"lifetime/loss", nil, false},
	{"lifetime/build", []string{"lifetime", "lifetime/loss", "lifetime/internal/"}, false},
	{"lifetime/leak/preset", []string{"lifetime"}, true},
	{"lifetime/answer", []string{"lifetime", "lifetime/diff", "lifetime/leak", "lifetime/leak/preset", "lifetime/loss", "internal/units"}, false},
	{"lifetime/diff", []string{"lifetime", "lifetime/leak", "internal/units"}, false},
	{"lifetime/leak", []string{"lifetime", "internal/units"}, false},
	{"lifetime/native", []string{"lifetime", "lifetime/build", "lifetime/loss"}, false},
	{"lifetime", []string{"lifetime/loss", "lifetime/internal/", "internal/units"}, false},
	{"internal/units", nil, true},
	{"internal/memlimit", []string{"internal/units"}, false},
	{"internal/laws", nil, false},
	{"internal/race", nil, false},
	{"internal/pickletest", nil, false},
	{"internal/browser", []string{"internal/race"}, true},
	{"internal/hostile", []string{"lifetime", "lifetime/build", "lifetime/loss"}, true},
	{"internal/trainingtest", []string{"lifetime", "lifetime/build"}, false},
	{"internal/nativetest", []string{"lifetime", "lifetime/build", "lifetime/native", "lifetime/loss"}, true},
	{"formats/torchsnap/internal/pickle", nil, false},
	{"formats/torchsnap", []string{"lifetime", "lifetime/build", "lifetime/loss", "formats/torchsnap/internal/pickle"}, false},
	{"formats/chrometrace/internal/scan", nil, false},
	{"formats/chrometrace", []string{"lifetime", "lifetime/build", "lifetime/loss", "formats/chrometrace/internal/scan"}, false},
	{"formats/gpumemprof", []string{"lifetime", "lifetime/build", "lifetime/loss"}, false},
	{"formats/jaxprof", []string{"lifetime", "lifetime/build", "lifetime/loss"}, true},
	// Formats stand apart from each other, but for compiled programs: XProf profiles have
	// them, and so do files of their own.
	{"formats/xplane", []string{"lifetime", "lifetime/build", "lifetime/loss", "formats/hlo"}, false},
	{"formats/hlo", []string{"lifetime", "lifetime/build", "lifetime/loss"}, true},
	{"formats", []string{"lifetime", "lifetime/build", "lifetime/loss", "lifetime/native", "formats/"}, true},
	{"render/canvas", nil, true},
	{"render/plot", []string{"lifetime", "internal/units", "render/canvas"}, false},
	{"render", []string{"lifetime", "lifetime/", "internal/units", "render/"}, true},
	{"docs", nil, false},
	{"cmd", []string{""}, true},
}

func TestImportDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
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
			return folder == a.folder || strings.HasPrefix(folder, a.folder+"/")
		})
		if i < 0 {
			if folder != "" {
				t.Errorf("%s: say in allowed what it may import", folder)
			}
			continue
		}
		seen++
		for _, path := range p.Imports {
			inner, ours := strings.CutPrefix(path, module+"/")
			switch {
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
			for _, f := range formats.All {
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
