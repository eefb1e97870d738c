package build

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestSetDepth: stacks are cut only where all of them together have far more frames than the tree has calls.
func TestSetDepth(t *testing.T) {
	chain := func(n int) []lifetime.Stack {
		stacks := make([]lifetime.Stack, n+1)
		for i := range n {
			stacks[i+1] = lifetime.Stack{Frame: 1, Caller: lifetime.StackID(i)}
		}
		return stacks
	}
	each := func(n int) (sites []lifetime.Site) {
		for i := range n {
			sites = append(sites, lifetime.Site{Stack: lifetime.StackID(i + 1)})
		}
		return sites
	}
	const ofPython = 1000
	for _, test := range []struct {
		name  string
		t     lifetime.Tables
		depth int
		cut   int64
	}{
		{"no stack", lifetime.Tables{Stacks: chain(0), Sites: each(0)}, ofPython, 0},
		{"one stack deeper than Python's", lifetime.Tables{Stacks: chain(1200), Sites: []lifetime.Site{{}, {Stack: 1200}}}, ofPython, 1},
		{"a site at each of 400 calls", lifetime.Tables{Stacks: chain(400), Sites: each(400)}, ofPython, 0},
		{"a site at each of 800 calls", lifetime.Tables{Stacks: chain(800), Sites: each(800)}, (100_000 + 16*801) / 800, 800 - 141},
		{"a site at each of 10,000 calls", lifetime.Tables{Stacks: chain(10_000), Sites: each(10_000)}, 100, 9900},
		{"an instruction at each of 800 calls", lifetime.Tables{Stacks: chain(800), Sites: func() []lifetime.Site {
			sites := each(800)
			for i := range sites {
				sites[i] = lifetime.Site{Source: sites[i].Stack}
			}
			return sites
		}()}, 100, 700},
		{"many sites of one stack of 100", lifetime.Tables{Stacks: chain(100), Sites: append(make([]lifetime.Site, 100_000), lifetime.Site{Stack: 100})}, ofPython, 0},
	} {
		if cut := setDepth(&test.t); cut != test.cut || test.t.Depth != test.depth {
			t.Errorf("%s: %d stacks are cut to %d calls, want %d to %d", test.name, cut, test.t.Depth, test.cut, test.depth)
		}
		for i := range test.t.Sites {
			frames, cut := test.t.Innermost(nil, test.t.Sites[i].Stack)
			if want := int(test.t.Sites[i].Stack); len(frames) != min(want, test.depth) || cut != (want > test.depth) {
				t.Errorf("%s: %d frames of a stack of %d calls, cut: %v", test.name, len(frames), want, cut)
			}
		}
	}
}
