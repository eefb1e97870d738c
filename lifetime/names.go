package lifetime

import "strings"

// String returns the edges joined by "+", "-" for none, as in native text.
func (e Edge) String() string {
	if e == 0 {
		return "-"
	}
	var names []string
	for i, n := range edgeNames {
		if e&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// String returns the name used in native text.
func (m Measure) String() string { return measureNames[m] }

// parse finds a name in a list.
func parse[T ~uint8](names []string, s string) (T, bool) {
	for i, n := range names {
		if n == s {
			return T(i), true
		}
	}
	return 0, false
}

// parseSet finds names in a list and returns their bits.
func parseSet[T ~uint8](names []string, words []string) (set T, ok bool) {
	for _, w := range words {
		i, ok := parse[T](names, w)
		if !ok {
			return 0, false
		}
		set |= 1 << i
	}
	return set, true
}

// ParseEdge is the inverse of Edge.String.
func ParseEdge(s string) (Edge, bool) {
	if s == "-" {
		return 0, true
	}
	return parseSet[Edge](edgeNames[:], strings.Split(s, "+"))
}

// ParseFacts reads the names of facts, joined by ",".
func ParseFacts(s string) (Facts, bool) {
	if s == "" {
		return 0, true
	}
	return parseSet[Facts](factNames[:], strings.Split(s, ","))
}

// ParseAxis is the inverse of Axis.String.
func ParseAxis(s string) (Axis, bool) { return parse[Axis](axisNames[:], s) }

// ParseMeasure is the inverse of Measure.String.
func ParseMeasure(s string) (Measure, bool) { return parse[Measure](measureNames[:], s) }

// ParseMarkKind is the inverse of MarkKind.String.
func ParseMarkKind(s string) (MarkKind, bool) { return parse[MarkKind](markNames[:], s) }

// ParseFrameKind is the inverse of FrameKind.String.
func ParseFrameKind(s string) (FrameKind, bool) { return parse[FrameKind](frameKindNames[:], s) }

// ParseReason is the inverse of Reason.String.
func ParseReason(s string) (Reason, bool) {
	for r := range reasons {
		if reasons[r].name == s {
			return Reason(r), true
		}
	}
	return 0, false
}
