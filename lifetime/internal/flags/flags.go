// Package flags writes sets of flags as lists of names, and reads them.
package flags

import (
	"slices"
	"strings"
)

// Names returns the names of the bits of a set.
func Names[T ~uint8](names []string, set T) []string {
	in := []string{}
	for i, n := range names {
		if set&(1<<i) != 0 {
			in = append(in, n)
		}
	}
	return in
}

// Parse reads the names of a set that separator joins; none is the text of the empty set. ok is false for unknown text.
func Parse[T ~uint8](names []string, text, separator, none string) (set T, ok bool) {
	if text == none {
		return 0, true
	}
	for word := range strings.SplitSeq(text, separator) {
		i := slices.Index(names, word)
		if i < 0 {
			return 0, false
		}
		set |= 1 << i
	}
	return set, true
}
