package build

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestCallsFollowTheirSpace: calls and samples keep their space when spaces are sorted and
// left out.
func TestCallsFollowTheirSpace(t *testing.T) {
	b := New(Everything)
	b.Source(lifetime.Source{})
	late, nameless, early := b.Space(), b.Space(), b.Space()
	b.Describe(late, lifetime.SpaceInfo{Device: "cuda:1"})
	b.Describe(early, lifetime.SpaceInfo{Device: "cuda:0"})
	for i, space := range []SpaceRef{late, nameless, early, late} {
		b.FunctionCall(space, lifetime.Call{Seconds: float64(i)})
		b.Sample(space, lifetime.Sample{T: int64(i)})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	want := []struct {
		device string
		number int
	}{{"cuda:1", 0}, {"cuda:0", 2}, {"cuda:1", 3}}
	if len(c.Calls) != len(want) || len(c.Samples) != len(want) {
		t.Fatalf("%d calls, %d samples", len(c.Calls), len(c.Samples))
	}
	for i, w := range want {
		if have := c.Calls[i]; c.Spaces[have.Space].Device != w.device || have.Seconds != float64(w.number) {
			t.Errorf("call %d: %+v, want %v", i, have, w)
		}
		if have := c.Samples[i]; c.Spaces[have.Space].Device != w.device || have.T != int64(w.number) {
			t.Errorf("sample %d: %+v, want %v", i, have, w)
		}
	}
}

// TestChange: Change saturates.
func TestChange(t *testing.T) {
	for _, c := range []struct{ before, after, want int64 }{
		{10, 30, 20}, {30, 10, -20}, {-1 << 63, 1<<63 - 1, 1<<63 - 1}, {-1 << 63, 0, 1<<63 - 1}, {-1 << 63, -1, 1<<63 - 1}, {5, 1<<63 - 1, 1<<63 - 6},
	} {
		if have := (&lifetime.Call{Before: c.before, After: c.after}).Change(); have != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.before, c.after, have, c.want)
		}
	}
}
