package nativetest

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Message holds an error to what every error of a reader must be: one line that
// a terminal shows as it is, of at most longest characters, so no copy of the input.
func Message(t testing.TB, err error, longest int) {
	t.Helper()
	msg := err.Error()
	if strings.ContainsAny(msg, "\n\r\x1b\x00") || utf8.RuneCountInString(msg) > longest {
		t.Errorf("message %.1000q", msg)
	}
}
