package selection_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestDeepStacks checks that stacks deeper than outputs show are one group if all calls shown are the same, and that the name of
// the group says that calls were left out.
func TestDeepStacks(t *testing.T) {
	b := build.New(build.Everything)
	if err := native.Read("", strings.NewReader(`memlane native 2
source format="f" producer="p"
space source=0 device="cuda:0" axis="time" begin=0 end=+100 facts="history"
frame 1 user "inner" "main.py" 1
frame 2 user "middle" "main.py" 2
frame 3 user "a" "main.py" 3
frame 4 user "b" "main.py" 4
stack 1 1 2 3
stack 2 1 2 4
stack 3 1 2
site 1 stack=1 op="" module=""
site 2 stack=2 op="" module=""
site 3 stack=3 op="" module=""
buffer +1 +9 0x200 512 512 site=1
buffer +2 +9 0x400 512 512 site=2
buffer +3 +9 0x600 512 512 site=3
`), b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	for depth, want := range map[int][]string{
		2: {"inner (main.py:1) ← middle (main.py:2) ← " + frame.OuterCalls, "inner (main.py:1) ← middle (main.py:2) ← " + frame.OuterCalls, "inner (main.py:1) ← middle (main.py:2)"},
		3: {"inner (main.py:1) ← middle (main.py:2) ← a (main.py:3)", "inner (main.py:1) ← middle (main.py:2) ← b (main.py:4)", "inner (main.py:1) ← middle (main.py:2)"},
	} {
		c.Depth = depth
		grouped, err := selection.GroupBy(c, selection.ByStack)
		if err != nil {
			t.Fatal(err)
		}
		buffers := grouped.Spaces[0].Buffers
		for i := range buffers {
			if got := grouped.Sites[buffers[i].Site].Op; got != want[i] {
				t.Errorf("depth %d, buffer %d: %q, want %q", depth, i, got, want[i])
			}
		}
		if same := buffers[0].Site == buffers[1].Site; same != (depth == 2) {
			t.Errorf("depth %d: stacks that differ in the outermost call are one group: %v", depth, same)
		}
	}
}
