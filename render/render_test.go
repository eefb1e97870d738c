package render_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render"
	_ "github.com/memlane/memlane/render/tables/parquet"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// small reads testdata/small.native, which has all features.
func small(t *testing.T) *lifetime.Capture {
	t.Helper()
	data, err := os.ReadFile("testdata/small.native")
	if err != nil {
		t.Fatal(err)
	}
	b := build.New(build.Everything)
	if err := native.Read("small.native", bytes.NewReader(data), b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ofBuffers returns the exports of the model. Tests of package xprofjson compare the other
// exports with the outputs of XProf.
func ofBuffers() []render.Export {
	return slices.DeleteFunc(slices.Clone(render.Exports), func(e render.Export) bool { return e.Needs != render.Buffers })
}

// TestExports compares the output of every such export with its golden.
func TestExports(t *testing.T) {
	for _, e := range ofBuffers() {
		var got bytes.Buffer
		if err := e.Write(&got, small(t), render.Options{}); err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		golden := filepath.Join("testdata", "small"+e.Extension)
		// The input is the golden of native: it comes back as it went in.
		if *update && e.Name != "native" {
			if err := os.WriteFile(golden, got.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: writes\n%s\nthe golden has\n%s", e.Name, got.Bytes(), want)
		}
	}
}

// full accepts n bytes, then fails.
type full struct{ n int }

var errFull = errors.New("full")

func (w *full) Write(b []byte) (int, error) {
	if len(b) > w.n {
		n := w.n
		w.n = 0
		return n, errFull
	}
	w.n -= len(b)
	return len(b), nil
}

// TestWriteErrors checks that exports return write errors.
func TestWriteErrors(t *testing.T) {
	c := small(t)
	// More than any buffer holds.
	s := c.Spaces[1]
	s.Buffers = slices.Repeat(s.Buffers, 1000)
	s.FreeSites, s.BufNotes = nil, nil
	for _, e := range ofBuffers() {
		var whole bytes.Buffer
		if err := e.Write(&whole, c, render.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 100, 10_000, 100_000} {
			if n >= whole.Len() { // of sums, which are short
				continue
			}
			if err := e.Write(&full{n}, c, render.Options{}); !errors.Is(err, errFull) {
				t.Errorf("%s: %v after %d bytes", e.Name, err, n)
			}
		}
	}
}

// TestTable checks the fields for help texts and file names.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range render.Exports {
		if e.Name == "" || e.Doc == "" || e.Write == nil || !strings.HasPrefix(e.Extension, ".") || seen[e.Name] || seen[e.Extension] {
			t.Errorf("%+v", e)
		}
		seen[e.Name], seen[e.Extension] = true, true
	}
}
