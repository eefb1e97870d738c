package lifetime

import (
	"slices"
	"strings"
)

// String returns the edges joined by "+", "-" for none, as in native text.
func (e Edge) String() string {
	if e == 0 {
		return "-"
	}
	return strings.Join(setNames(edgeNames[:], e), "+")
}

// Names lists the uses in a fixed order, as in native text.
func (u Uses) Names() []string { return setNames(useNames[:], u) }

// String returns the name used in native text.
func (m Measure) String() string { return measureNames[m] }

// setNames lists the names of the bits of a set.
func setNames[T ~uint8](names []string, set T) []string {
	in := []string{}
	for i, n := range names {
		if set&(1<<i) != 0 {
			in = append(in, n)
		}
	}
	return in
}

// Parse returns the value that is written as text in JSON and native text: the
// inverse of String, and for Facts and Uses of Names joined by ",".
func Parse[T Axis | Edge | Facts | FrameKind | Kind | MarkKind | Measure | OperationKind | Uses](text string) (v T, ok bool) {
	names, separator, none := []string(nil), "", ""
	switch any(v).(type) {
	case Axis:
		names = axisNames[:]
	case Edge:
		names, separator, none = edgeNames[:], "+", "-"
	case Facts:
		names, separator = factNames[:], ","
	case FrameKind:
		names = frameKindNames[:]
	case Kind:
		names = kindNames[:FromBase]
	case MarkKind:
		names = markNames[:]
	case Measure:
		names = measureNames[:]
	case OperationKind:
		names = operationNames[:]
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
