package program_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
)

// TestDeepStacks: call sites at each depth of a stack do not take the square of its depth.
func TestDeepStacks(t *testing.T) {
	read := func(n int) (calls int) {
		tables := &lifetime.Tables{Frames: []frame.Frame{{}, {Kind: frame.User, Function: "f", File: "a.py", Line: 1}}, Stacks: []lifetime.Stack{{}}}
		for i := range n {
			tables.Stacks = append(tables.Stacks, lifetime.Stack{Frame: 1, Caller: lifetime.StackID(i)})
			tables.Sites = append(tables.Sites, lifetime.Site{Stack: lifetime.StackID(i + 1)})
		}
		for _, site := range program.CallPathsOf(tables).Sites {
			calls += len(site.Calls)
		}
		return calls
	}
	if few, many := read(2000), read(4*2000); many > 6*few {
		t.Errorf("4 times the depth: %d calls, not %d", many, few)
	}
}
