package diff_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/region"
)

// TestFigured: the formatted figures and their changes.
func TestFigured(t *testing.T) {
	side := func(peak, requested, end int64, steps int, free int64) *diff.Side {
		return &diff.Side{Space: &lifetime.Space{}, Peak: peak, PeakRequested: requested, End: end, Steps: steps, Window: 6_000_000_000, Free: region.Holes{Total: free, Largest: free / 4}}
	}
	const none = 0
	for _, c := range []struct {
		name          string
		before, after *diff.Side
		want          string
	}{
		{"both", side(200, 200, 100, 3, 80), side(300, 300, 100, 2, 40),
			"peak: 200 B, 300 B, +100 B (+50.0 %); at the end: 100 B, 100 B, 0 B; reserved but free: 80 B, 40 B, -40 B (-50.0 %); its largest piece: 20 B, 10 B, -10 B (-50.0 %); allocations: 0, 0, ; frees: 0, 0, ; time per step: 2.00 s, 3.00 s, "},
		{"other sizes were requested", side(200, 200, 0, 0, none), side(300, 150, 0, 0, none),
			"peak: 200 B, 300 B, +100 B (+50.0 %); peak, requested: 200 B, 150 B, -50 B (-25.0 %); allocations: 0, 0, ; frees: 0, 0, "},
		{"before as well", side(200, 100, 0, 0, none), side(300, 300, 0, 0, none),
			"peak: 200 B, 300 B, +100 B (+50.0 %); peak, requested: 100 B, 300 B, +200 B (+200.0 %); allocations: 0, 0, ; frees: 0, 0, "},
		{"no side before", nil, side(300, 150, 100, 0, none),
			"peak: , 300 B, ; peak, requested: , 150 B, ; at the end: , 100 B, ; allocations: , 0, ; frees: , 0, "},
		{"no side after", side(200, 100, 0, 0, none), nil,
			"peak: 200 B, , ; peak, requested: 100 B, , ; allocations: 0, , ; frees: 0, , "},
		{"no side after, all requested", side(200, 200, 0, 0, none), nil, "peak: 200 B, , ; allocations: 0, , ; frees: 0, , "},
		{"no side before, all requested", nil, side(300, 300, 0, 0, none), "peak: , 300 B, ; allocations: , 0, ; frees: , 0, "},
		{"from nothing", side(0, 0, 0, 0, none), side(300, 300, 0, 0, none), "peak: 0 B, 300 B, +300 B; allocations: 0, 0, ; frees: 0, 0, "},
	} {
		var lines []string
		for _, l := range diff.Figured(&diff.Pair{Before: c.before, After: c.after}) {
			lines = append(lines, l.Name+": "+l.Before+", "+l.After+", "+l.Change)
		}
		if have := strings.Join(lines, "; "); have != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, have, c.want)
		}
	}
}

// TestAllocatedOf: allocated bytes are per step if steps are marked.
func TestAllocatedOf(t *testing.T) {
	f := &diff.Figures{Allocated: lifetime.Amount{Bytes: 30}}
	for _, c := range []struct {
		side    *diff.Side
		perStep bool
		want    float64
	}{{nil, true, 0}, {&diff.Side{Steps: 4}, true, 7.5}, {&diff.Side{Steps: 4}, false, 30}, {&diff.Side{}, true, 30}} {
		if have := diff.AllocatedOf(f, c.side, c.perStep); have != c.want {
			t.Errorf("%+v, in each step %t: %v, want %v", c.side, c.perStep, have, c.want)
		}
	}
}

// TestMainPair: the pair with the highest peak, the first on a tie; compiled programs come last.
func TestMainPair(t *testing.T) {
	of := func(axis lifetime.Axis, peak int64) diff.Pair {
		return diff.Pair{After: &diff.Side{Space: &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Axis: axis}}, Peak: peak}}
	}
	small, large, same, plan := of(lifetime.Time, 1), of(lifetime.Time, 5), of(lifetime.Time, 5), of(lifetime.ProgramOrder, 9)
	for want, pairs := range map[int][]diff.Pair{0: {large, small, same, plan}, 1: {small, large, plan}, 2: {plan, small, large, same}} {
		r := diff.Result{Pairs: pairs}
		if have := r.Main(); have != &r.Pairs[want] {
			t.Errorf("%+v, want pair %d", have, want)
		}
	}
	if r := (diff.Result{}); r.Main() != nil {
		t.Error("there is no pair")
	}
}
