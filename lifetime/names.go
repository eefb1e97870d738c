package lifetime

import "strings"

// String returns the edges joined by "+", "-" for none, as in native text.
func (e Edge) String() string {
	if e == 0 {
		return "-"
	}
	return strings.Join(setNames(edgeNames[:], e), "+")
}

// Names lists the uses in a fixed order, as in native text.
func (u Uses) Names() []string { return setNames(useNames[:], u) }

// setNames is the inverse of parseSet.
func setNames[T ~uint8](names []string, set T) []string {
	in := []string{}
	for i, n := range names {
		if set&(1<<i) != 0 {
			in = append(in, n)
		}
	}
	return in
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
func ParseFacts(s string) (Facts, bool) { return parseList[Facts](factNames[:], s) }

// ParseUses reads the names of uses, joined by ",".
func ParseUses(s string) (Uses, bool) { return parseList[Uses](useNames[:], s) }

func parseList[T ~uint8](names []string, s string) (T, bool) {
	if s == "" {
		return 0, true
	}
	return parseSet[T](names, strings.Split(s, ","))
}

// ParseKind is the inverse of Kind.String.
func ParseKind(s string) (Kind, bool) { return parse[Kind](kindNames[:], s) }

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
