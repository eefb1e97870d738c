// Package nativetest contains helpers for the tests of readers: native text and its goldens,
// fuzz seeds, bounds on memory, and checks of error messages.
//
// Its place in the pipeline: none; only tests import it.
package nativetest

import (
	"flag"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
)

// Update reports whether goldens are written again.
var Update = flag.Bool("update", false, "write the goldens again")

// Text returns the native text of c.
func Text(t testing.TB, c *lifetime.Capture) string {
	t.Helper()
	var b strings.Builder
	if err := native.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Golden compares the native text of c with a file. With -update it writes the file.
func Golden(t testing.TB, c *lifetime.Capture, file string) {
	t.Helper()
	got := Text(t, c)
	if *Update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the model differs from %s; if that is intended, run go test -update and check the diff", file)
	}
}

// Message checks the message of an error of a reader: one line without control characters,
// of at most longest characters, so that it does not copy the input.
func Message(t testing.TB, err error, longest int) {
	t.Helper()
	msg := err.Error()
	if strings.ContainsAny(msg, "\n\r\x1b\x00") || utf8.RuneCountInString(msg) > longest {
		t.Errorf("message %.1000q", msg)
	}
}
