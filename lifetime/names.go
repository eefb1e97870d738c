package lifetime

import (
	"slices"
	"strings"
)

// String returns the names of the edges joined by "+", or "-", as in native text.
func (e Edge) String() string {
	if e == 0 {
		return "-"
	}
	return strings.Join(setNames(edgeNames[:], e), "+")
}

// Names returns the names of the uses in a fixed order, as in native text.
func (u Uses) Names() []string { return setNames(useNames[:], u) }

// String returns the name used in native text.
func (m Measure) String() string { return measureNames[m] }

// setNames returns the names of the bits of a set.
func setNames[T ~uint8](names []string, set T) []string {
	in := []string{}
	for i, n := range names {
		if set&(1<<i) != 0 {
			in = append(in, n)
		}
	}
	return in
}

// Parse is the inverse of String, and for Facts and Uses the inverse of Names joined by
// ",". ok is false for unknown text.
func Parse[T Axis | Edge | Facts | HolderKind | Kind | MarkKind | Measure | Uses](text string) (v T, ok bool) {
	names, separator, none := []string(nil), "", ""
	switch any(v).(type) {
	case Axis:
		names = axisNames[:]
	case Edge:
		names, separator, none = edgeNames[:], "+", "-"
	case Facts:
		names, separator = factNames[:], ","
	case HolderKind:
		names = holderNames[:]
	case Kind:
		names = kindNames[:FromBase]
	case MarkKind:
		names = markNames[:]
	case Measure:
		names = measureNames[:]
	case Uses:
		names, separator = useNames[:], ","
	}
	if separator == "" {
		i := slices.Index(names, text)
		return T(max(i, 0)), i >= 0
	}
	if text == none {
		return 0, true
	}
	for word := range strings.SplitSeq(text, separator) {
		i := slices.Index(names, word)
		if i < 0 {
			return 0, false
		}
		v |= 1 << i
	}
	return v, true
}
