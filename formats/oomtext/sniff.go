package oomtext

import (
	"bytes"
	"unicode/utf8"
)

// Sniff reports whether head is text that has the words of an out-of-memory message.
func Sniff(head []byte) bool {
	if !Text(head) {
		return false
	}
	for _, o := range openers {
		if bytes.Contains(head, []byte(o.words)) {
			return true
		}
	}
	return false
}

// Text reports whether head is the beginning of a text file. A message may stand anywhere in a log, so its first bytes
// do not tell whether Read finds one.
func Text(head []byte) bool {
	odd := 0
	for i := 0; i < len(head); {
		c, n := utf8.DecodeRune(head[i:])
		switch {
		case c == 0:
			return false
		case c == utf8.RuneError && n == 1, c < ' ' && !bytes.ContainsRune([]byte("\t\n\r\f\b\a\x1b"), c):
			odd++
		}
		i += n
	}
	return len(head) > 0 && odd <= len(head)/64+3 // the end may cut a character
}
