package diff_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
)

// allocation is a buffer of a line with a recorded name.
type allocation struct {
	function string
	line     int
	bytes    int64
	name     string
}

func namedCapture(t *testing.T, all ...allocation) *judge.Capture {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{Format: "simulated"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	for i, a := range all {
		at := b.Frame(frame.Frame{Function: a.function, File: "/x/" + a.function + ".py", Line: a.line})
		addr := uint64(i+1) << 20
		b.Alloc(s, int64(i+1), build.Block{Addr: addr, Requested: a.bytes, Occupied: a.bytes, Site: b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{at})})})
		if a.name != "" {
			b.Hold(s, addr, b.Holder(holder.Holder{Kind: holder.ByVariable, Name: a.name, Path: a.name, Owner: "model"}))
		}
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return judge.Of(c)
}

// TestNamed: a place is the one whose buffers have the same names, whatever its function, file and line. Names that several places
// have, or that differ, tell nothing.
func TestNamed(t *testing.T) {
	for _, c := range []struct {
		what          string
		before, after []allocation
		want          []string
	}{
		{"moved to another file", []allocation{{"init", 10, 100, "model.up.weight"}, {"init", 11, 200, "model.down.weight"}},
			[]allocation{{"build", 70, 100, "model.up.weight"}, {"build", 72, 300, "model.down.weight"}}, []string{"grew build 100"}},
		{"swapped lines of one size", []allocation{{"init", 10, 100, "model.up.weight"}, {"init", 11, 100, "model.down.weight"}},
			[]allocation{{"init", 10, 100, "model.down.weight"}, {"init", 11, 150, "model.up.weight"}}, []string{"grew init 50"}},
		{"more layers", []allocation{{"init", 10, 100, "model.0.weight"}}, []allocation{{"other", 3, 100, "model.0.weight"}, {"other", 3, 100, "model.1.weight"}},
			[]string{"grew other 100"}},
		{"other names", []allocation{{"init", 10, 100, "model.up.weight"}}, []allocation{{"build", 10, 100, "model.down.weight"}}, []string{"gone init -100", "new build 100"}},
		{"two places with one name", []allocation{{"init", 10, 100, "m.0.weight"}, {"late", 10, 100, "m.1.weight"}}, []allocation{{"build", 10, 200, "m.0.weight"}},
			[]string{"new build 200", "gone init -100", "gone late -100"}},
		{"no names", []allocation{{"init", 10, 100, ""}}, []allocation{{"build", 10, 100, "m.weight"}}, []string{"gone init -100", "new build 100"}},
	} {
		var got []string
		d := diff.Compare(judge.Of(namedCapture(t, c.before...).Capture), judge.Of(namedCapture(t, c.after...).Capture))
		for i := range d.Rows {
			got = append(got, fmt.Sprintf("%s %s %d", d.Rows[i].Status, d.Rows[i].Place().Frame.Function, d.Rows[i].DeltaEnd()))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestByName: captures that are summed up by name are compared by name.
func TestByName(t *testing.T) {
	var sides []*judge.Capture
	for _, c := range []*judge.Capture{
		namedCapture(t, allocation{"init", 10, 100, "model.0.weight"}, allocation{"init", 10, 100, "model.1.weight"}, allocation{"init", 11, 50, "model.bias"}),
		namedCapture(t, allocation{"to", 99, 150, "model.0.weight"}, allocation{"to", 99, 150, "model.1.weight"}, allocation{"to", 99, 50, "model.bias"}),
	} {
		grouped, err := selection.GroupBy(c.Capture, selection.ByName)
		if err != nil {
			t.Fatal(err)
		}
		sides = append(sides, judge.Of(grouped))
	}
	if got := words(diff.Compare(judge.Of(sides[0].Capture), judge.Of(sides[1].Capture))); !slices.Equal(got, []string{"grew model.*.weight 100 100"}) {
		t.Errorf("%q", got)
	}
}
