package lifetime_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestPlaceOf: the place of an allocation and its text.
func TestPlaceOf(t *testing.T) {
	for _, c := range []struct {
		frame frame.Frame // none without a function
		site  lifetime.Site
		want  string
	}{
		{frame.Frame{Function: "step", File: "/x/train.py", Line: 12}, lifetime.Site{Op: "add"}, "step (train.py:12)"},
		{frame.Frame{Function: "step", File: "/x/train.py"}, lifetime.Site{}, "step (train.py)"},
		{frame.Frame{Function: "step"}, lifetime.Site{}, "step"},
		{frame.Frame{Function: "mlp", Kind: frame.Scope}, lifetime.Site{Op: "add", Shape: "f32[2]", Instr: "add.1"}, "add f32[2]"},
		{frame.Frame{Function: "train", Kind: frame.Scope}, lifetime.Site{Op: "ConcatV2", Shape: "[2,64]"}, "ConcatV2"},
		{frame.Frame{Function: "PjitFunction(dot)", Kind: frame.Scope}, lifetime.Site{}, "PjitFunction(dot)"},
		{frame.Frame{Function: "mlp", File: "a.py", Line: 3, Kind: frame.Scope}, lifetime.Site{Op: "add"}, "mlp (a.py:3)"},
		{frame.Frame{}, lifetime.Site{Op: "add"}, "add"},
		{frame.Frame{}, lifetime.Site{Shape: "f32[2]"}, "code without a recorded stack"},
		{frame.Frame{}, lifetime.Site{}, "code without a recorded stack"},
	} {
		b := build.New(0)
		b.Source(lifetime.Source{})
		if c.frame.Function != "" {
			c.site.Stack = b.Stack([]lifetime.FrameID{b.Frame(c.frame)})
		}
		site := b.Site(c.site)
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if have := made.PlaceOf(site).String(); have != c.want {
			t.Errorf("%+v, %+v: %q, want %q", c.frame, c.site, have, c.want)
		}
	}
}

// TestFarPlace: a place is looked for among as many calls as Python allows.
func TestFarPlace(t *testing.T) {
	for scopes, want := range map[int]string{999: "step (train.py:12)", 1000: "range"} {
		c := lifetime.Tables{Sites: make([]lifetime.Site, 2), Stacks: make([]lifetime.Stack, 1), Frames: []frame.Frame{{},
			{Function: "step", File: "/x/train.py", Line: 12}, {Function: "range", Kind: frame.Scope}}}
		for i := range scopes + 1 {
			c.Stacks = append(c.Stacks, lifetime.Stack{Frame: lifetime.FrameID(min(i+1, 2)), Caller: lifetime.StackID(i)})
		}
		c.Sites[1].Stack = lifetime.StackID(scopes + 1)
		if got := c.PlaceOf(1).String(); got != want {
			t.Errorf("%d scopes inside of a line: %q, want %q", scopes, got, want)
		}
	}
}

// TestUnseenNode: the node is of the free, so it follows "freed in".
func TestUnseenNode(t *testing.T) {
	p := lifetime.Place{Frame: frame.Frame{File: "model.py", Line: 3}, Node: "MmBackward0", Unseen: true}
	if got, want := p.String(), "allocated before the recording, freed in MmBackward0 (backward) of model.py:3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestShownOfDeepStacks: calls inside calls give no more frames than Depth, however deep they are, and a place farther out keeps its name.
func TestShownOfDeepStacks(t *testing.T) {
	const depth, calls = 100, 150
	for kind, want := range map[frame.Kind]int{frame.User: depth, frame.Framework: 0} {
		c := lifetime.Tables{Depth: depth, Sites: make([]lifetime.Site, 2), Stacks: make([]lifetime.Stack, 1), Frames: make([]frame.Frame, 1)}
		for i := range calls {
			c.Frames = append(c.Frames, frame.Frame{Function: "f", File: "/x/train.py", Line: i + 1, Kind: kind})
			c.Stacks = append(c.Stacks, lifetime.Stack{Frame: lifetime.FrameID(i + 1), Caller: lifetime.StackID(i)})
		}
		c.Frames[1].Kind = frame.User // the outermost
		c.Sites[1].Stack = calls
		ids, named, cut := c.ShownFrames(nil, 1)
		if len(ids) != want || named != (want == 0) || !cut {
			t.Errorf("%s: %d frames, named %v, cut %v; want %d frames of a deeper stack", kind, len(ids), named, cut, want)
		}
		shown, _ := c.Shown(1)
		first, last := shown[0], shown[len(shown)-1]
		if place := c.PlaceOf(1).String(); first.String() != place && first.Function != place {
			t.Errorf("%s: begins with %s, but the place is %s", kind, first.String(), place)
		}
		if last.Function != frame.OuterCalls {
			t.Errorf("%s: ends with %s", kind, last.Function)
		}
	}
}
