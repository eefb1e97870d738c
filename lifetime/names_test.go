package lifetime

import (
	"fmt"
	"strings"
	"testing"
)

// reads verifies that Parse is the inverse of text for the first n values.
func reads[T Axis | Edge | Facts | Kind | MarkKind | Measure](t *testing.T, n int, text func(T) string) {
	t.Helper()
	for i := range n {
		if got, ok := Parse[T](text(T(i))); !ok || got != T(i) {
			t.Errorf("%T %d is written %q and read as %d", got, i, text(T(i)), got)
		}
	}
	for _, bad := range []string{"x", "end-open+", "end-open+x", "END-OPEN", "history,x", "+", ","} {
		if v, ok := Parse[T](bad); ok {
			t.Errorf("%q is a %T", bad, v)
		}
	}
}

// TestNames: Parse reads every name and no other text.
func TestNames(t *testing.T) {
	reads(t, 1<<len(edgeNames), Edge.String)
	reads(t, 1<<len(factNames), func(f Facts) string { return strings.Join(f.Names(), ",") })
	reads(t, len(axisNames), Axis.String)
	reads(t, len(measureNames), Measure.String)
	reads(t, len(markNames), MarkKind.String)
	reads(t, int(FromBase), Kind.String)
	if _, ok := Parse[Kind](fmt.Sprint(FromBase)); ok {
		t.Error("a buffer is of a kind that rows alone have")
	}
	if _, ok := Parse[Edge](""); ok {
		t.Error("no text is an edge")
	}
}
