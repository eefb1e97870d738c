package category_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
)

// opened are the captures that tests share.
var opened = map[string]*lifetime.Capture{}

// shared opens a capture once for all tests, none of which may change it.
func shared(file string) (*lifetime.Capture, error) {
	if c := opened[file]; c != nil {
		return c, nil
	}
	c, err := open(file, formats.Input{})
	if err == nil {
		opened[file] = c
	}
	return c, err
}

// open opens a capture and finds what its buffers are for.
func open(file string, in formats.Input) (*lifetime.Capture, error) {
	c, err := formats.Open(file, in)
	if err == nil {
		category.Of(c, nil)
	}
	return c, err
}

// written opens a capture that a native text describes.
func written(t *testing.T, text string) *lifetime.Capture {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.native")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
