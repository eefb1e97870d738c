package build

import (
	"math"

	"github.com/memlane/memlane/lifetime"
)

// Stacks of this depth are never cut. Stacks of all call sites may have this many frames, and more if they share few callers.
const (
	everyDepth  = 100
	fewFrames   = 100_000
	framesACall = 16
)

// setDepth sets Depth to the limit of Python or, if the stacks of all call sites would then have far more frames than the tree has
// calls, to less. It returns the number of call sites whose stacks are deeper.
func setDepth(t *lifetime.Tables) (cut int64) {
	t.Depth = 0
	limit := t.MaxDepth()
	t.Depth = limit
	if len(t.Stacks) <= everyDepth {
		return 0
	}
	depths := make([]uint16, len(t.Stacks)) // saturated
	for i := range t.Stacks[1:] {
		depths[i+1] = min(depths[t.Stacks[i+1].Caller], math.MaxUint16-1) + 1
	}
	frames, lists, most := 0, len(t.Sites), fewFrames+framesACall*len(t.Stacks)
	for i := range t.Sites {
		s := &t.Sites[i]
		frames += min(int(depths[s.Stack]), limit) + min(int(depths[s.Source]), limit)
		if s.Source != 0 {
			lists++
		}
	}
	if frames > most {
		t.Depth = max(everyDepth, most/lists)
	}
	for i := range t.Sites {
		if max(int(depths[t.Sites[i].Stack]), int(depths[t.Sites[i].Source])) > t.Depth {
			cut++
		}
	}
	return cut
}
