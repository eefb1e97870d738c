package lifetime

import "testing"

// TestPlaceOf: who allocated, and how it is written.
func TestPlaceOf(t *testing.T) {
	for _, c := range []struct {
		frame Frame // none without a function
		site  Site
		want  string
	}{
		{Frame{Function: "step", File: "/x/train.py", Line: 12}, Site{Op: "add"}, "step (train.py:12)"},
		{Frame{Function: "step", File: "/x/train.py"}, Site{}, "step (train.py)"},
		{Frame{Function: "step"}, Site{}, "step"},
		{Frame{Function: "mlp", Kind: Scope}, Site{Op: "add", Shape: "f32[2]"}, "add f32[2]"},
		{Frame{Function: "mlp", File: "a.py", Line: 3, Kind: Scope}, Site{Op: "add"}, "mlp (a.py:3)"},
		{Frame{}, Site{Op: "add"}, "add"},
		{Frame{}, Site{Shape: "f32[2]"}, "code without a recorded stack"},
		{Frame{}, Site{}, "code without a recorded stack"},
	} {
		b := NewBuilder()
		if c.frame.Function != "" {
			c.site.Stack = b.Stack([]FrameID{b.Frame(c.frame)})
		}
		if have := b.capture.PlaceOf(b.Site(c.site)).String(); have != c.want {
			t.Errorf("%+v, %+v: %q, want %q", c.frame, c.site, have, c.want)
		}
	}
}
