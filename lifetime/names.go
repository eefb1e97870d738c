package lifetime

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/internal/flags"
)

// String returns the names of the edges joined by "+", or "-", as in native text.
func (e Edge) String() string {
	if e == 0 {
		return "-"
	}
	return strings.Join(flags.Names(edgeNames[:], e), "+")
}

// String returns the name used in native text.
func (m Measure) String() string { return measureNames[m] }

// Parse is the inverse of String, and for Facts the inverse of Names joined by ",". ok is false for unknown text.
func Parse[T Axis | Edge | Facts | Kind | MarkKind | Measure](text string) (v T, ok bool) {
	var names []string
	switch any(v).(type) {
	case Axis:
		names = axisNames[:]
	case Edge:
		return flags.Parse[T](edgeNames[:], text, "+", "-")
	case Facts:
		return flags.Parse[T](factNames[:], text, ",", "")
	case Kind:
		names = kindNames[:FromBase]
	case MarkKind:
		names = markNames[:]
	case Measure:
		names = measureNames[:]
	}
	i := slices.Index(names, text)
	return T(max(i, 0)), i >= 0
}
