// Package nativetest is what the tests of readers share: native text of what
// they read, and its goldens; seeds, the bound on memory, and what an error may be.
//
// Its place in the pipeline: none; only tests import it.
package nativetest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
)

var update = flag.Bool("update", false, "write the goldens again")

// Text returns the native text of c.
func Text(t testing.TB, c *lifetime.Capture) string {
	t.Helper()
	var b strings.Builder
	if err := native.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Golden holds the native text of c against a file. With -update it writes the
// file.
func Golden(t testing.TB, c *lifetime.Capture, file string) {
	t.Helper()
	got := Text(t, c)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the model is not %s; if that is right, run go test -update and read the difference", file)
	}
}
