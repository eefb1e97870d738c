package lifetime

import (
	"testing"
)

// TestSetDepth: stacks are cut only where all of them together have far more frames than the tree has calls.
func TestSetDepth(t *testing.T) {
	chain := func(n int) []Stack {
		stacks := make([]Stack, n+1)
		for i := range n {
			stacks[i+1] = Stack{Frame: 1, Caller: StackID(i)}
		}
		return stacks
	}
	each := func(n int) (sites []Site) {
		for i := range n {
			sites = append(sites, Site{Stack: StackID(i + 1)})
		}
		return sites
	}
	for _, test := range []struct {
		name  string
		t     Tables
		depth int
		cut   int64
	}{
		{"no stack", Tables{Stacks: chain(0), Sites: each(0)}, PythonDepth, 0},
		{"one stack deeper than Python's", Tables{Stacks: chain(1200), Sites: []Site{{}, {Stack: 1200}}}, PythonDepth, 1},
		{"a site at each of 400 calls", Tables{Stacks: chain(400), Sites: each(400)}, PythonDepth, 0},
		{"a site at each of 800 calls", Tables{Stacks: chain(800), Sites: each(800)}, (100_000 + 16*801) / 800, 800 - 141},
		{"a site at each of 10,000 calls", Tables{Stacks: chain(10_000), Sites: each(10_000)}, 100, 9900},
		{"an instruction at each of 800 calls", Tables{Stacks: chain(800), Sites: func() []Site {
			sites := each(800)
			for i := range sites {
				sites[i] = Site{Source: sites[i].Stack}
			}
			return sites
		}()}, 100, 700},
		{"many sites of one stack of 100", Tables{Stacks: chain(100), Sites: append(make([]Site, 100_000), Site{Stack: 100})}, PythonDepth, 0},
	} {
		if cut := test.t.SetDepth(); cut != test.cut || test.t.Depth != test.depth {
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
