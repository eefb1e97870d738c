package lifetime_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// TestPlaceOf: the place of an allocation and its text.
func TestPlaceOf(t *testing.T) {
	for _, c := range []struct {
		frame lifetime.Frame // none without a function
		site  lifetime.Site
		want  string
	}{
		{lifetime.Frame{Function: "step", File: "/x/train.py", Line: 12}, lifetime.Site{Op: "add"}, "step (train.py:12)"},
		{lifetime.Frame{Function: "step", File: "/x/train.py"}, lifetime.Site{}, "step (train.py)"},
		{lifetime.Frame{Function: "step"}, lifetime.Site{}, "step"},
		{lifetime.Frame{Function: "mlp", Kind: lifetime.Scope}, lifetime.Site{Op: "add", Shape: "f32[2]", Instr: "add.1"}, "add f32[2]"},
		{lifetime.Frame{Function: "train", Kind: lifetime.Scope}, lifetime.Site{Op: "ConcatV2", Shape: "[2,64]"}, "ConcatV2"},
		{lifetime.Frame{Function: "PjitFunction(dot)", Kind: lifetime.Scope}, lifetime.Site{}, "PjitFunction(dot)"},
		{lifetime.Frame{Function: "mlp", File: "a.py", Line: 3, Kind: lifetime.Scope}, lifetime.Site{Op: "add"}, "mlp (a.py:3)"},
		{lifetime.Frame{}, lifetime.Site{Op: "add"}, "add"},
		{lifetime.Frame{}, lifetime.Site{Shape: "f32[2]"}, "code without a recorded stack"},
		{lifetime.Frame{}, lifetime.Site{}, "code without a recorded stack"},
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

// TestUnseenNode: the node is of the free, so it follows "freed in".
func TestUnseenNode(t *testing.T) {
	p := lifetime.Place{Frame: lifetime.Frame{File: "model.py", Line: 3}, Node: "MmBackward0", Unseen: true}
	if got, want := p.String(), "allocated before the recording, freed in MmBackward0 (backward) of model.py:3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
