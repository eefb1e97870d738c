package program_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
)

// TestDone: the next program of a capture goes on with the stacks that the last one read, also for a copy of its tables, but not if the
// stacks changed.
func TestDone(t *testing.T) {
	r := record()
	r.alloc("cuda:0", "call theirs", true)
	p, space := r.program(t)
	site := space("cuda:0").Buffers[0].Site
	read := program.NewStacks(&p.Tables)
	first := read.Of(p.Sites[site].Stack)
	read.Done()
	of := func(c *lifetime.Capture) *program.Facts { return program.Of(c).At(site) }
	same := *p.Capture
	if of(&same) != first {
		t.Error("a copy of the tables reads its stacks again")
	}
	if of(&same) == first {
		t.Error("two programs share what they read")
	}
	read.Done()
	grown := *p.Capture
	grown.Frames = append(grown.Frames, frame.Frame{Function: "new"})
	grown.Stacks = append(grown.Stacks, lifetime.Stack{Frame: lifetime.FrameID(len(grown.Frames) - 1)})
	if of(&grown) == first {
		t.Error("tables with another stack have the reader of the old ones")
	}
}
