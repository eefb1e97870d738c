package nativetest

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Message checks the message of an error of a reader: one line without control characters,
// of at most longest characters, so that it does not copy the input.
func Message(t testing.TB, err error, longest int) {
	t.Helper()
	msg := err.Error()
	if strings.ContainsAny(msg, "\n\r\x1b\x00") || utf8.RuneCountInString(msg) > longest {
		t.Errorf("message %.1000q", msg)
	}
}
