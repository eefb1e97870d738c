package oomtext

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// sure are words that hardly stand in other texts.
var sure = []string{" out of memory. Tried to allocate ", " out of memory trying to allocate ", "Ran out of memory in memory space ", "Ran out of memory on HBM",
	"memory while trying to allocate ", "MPS backend out of memory", "would exceed allowed memory", "DefaultCPUAllocator: ", "OOM when allocating tensor",
	"_STATUS_ALLOC_FAILED", "Failed to CUDA calloc", "That was not possible", "Out of memory allocating ", "memory summary, device ID", statsKey}

// Sniff reports whether head is text that has the words of an out-of-memory message.
func Sniff(head []byte) bool {
	return Text(head) && slices.ContainsFunc(sure, func(words string) bool { return bytes.Contains(head, []byte(words)) })
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
