package build

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/interned"
)

// Call interns a stack: its innermost frame, and the stack of the caller, 0 = none.
// Build a stack from its outermost call inwards.
func (b *Builder) Call(frame lifetime.FrameID, caller lifetime.StackID) lifetime.StackID {
	if frame == 0 {
		return caller
	}
	return b.stacks.nodes.ID(lifetime.Stack{Frame: frame, Caller: caller})
}

// Stack interns a call stack, innermost frame first; an empty one is 0. It does not keep frames.
func (b *Builder) Stack(frames []lifetime.FrameID) lifetime.StackID {
	if len(frames) == 0 {
		return 0
	}
	t := &b.stacks
	t.key = t.key[:0]
	for _, f := range frames {
		t.key = binary.NativeEndian.AppendUint32(t.key, uint32(f))
	}
	id, ok := t.known[string(t.key)]
	if !ok {
		id = b.calls(frames)
		if t.known == nil {
			t.known = map[string]lifetime.StackID{}
		}
		t.known[string(t.key)] = id
	}
	return id
}

// calls interns the calls of a stack. Consecutive stacks share most callers, which are not looked up again.
func (b *Builder) calls(frames []lifetime.FrameID) lifetime.StackID {
	t := &b.stacks
	outer := 0
	for n := min(len(frames), len(t.last)); outer < n && frames[len(frames)-1-outer] == t.last[outer].frame; outer++ {
	}
	t.last = t.last[:outer]
	id := lifetime.StackID(0)
	if outer > 0 {
		id = t.last[outer-1].id
	}
	for _, f := range slices.Backward(frames[:len(frames)-outer]) {
		id = b.Call(f, id)
		t.last = append(t.last, call{f, id})
	}
	return id
}

// stacks finds the ID of a stack. Most formats write a whole stack for each event.
type stacks struct {
	nodes interned.Table[lifetime.Stack, lifetime.StackID]
	last  []call // of the last stack that was interned, outermost first

	known map[string]lifetime.StackID // by the bytes of the frames
	key   []byte
}

type call struct {
	frame lifetime.FrameID
	id    lifetime.StackID
}

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
