package plot

import (
	"cmp"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// Palette has hues that people with any of the common colour blindnesses tell
// apart, and lightnesses that differ in a grey print; a test of package blocks
// measures both. They are calm, so that what is hatched stands out, and stand on a
// light and on a dark page.
var Palette = [...]canvas.RGB{0x699bdd, 0xeac971, 0x1a8071, 0xb2afd9, 0xcaebf0, 0x8b8a3d, 0xc39da7, 0x546081}

// KindLook returns the look of a kind of buffers of a compiled program: the same in
// every picture, so that they can be compared.
func KindLook(k lifetime.Kind) canvas.Look {
	return canvas.Look{RGB: Palette[[...]int{0, 0, 1, 2, 5, 7}[k]]}
}

// Device returns what people call a space: its device, or else its whole ID.
func Device(s *lifetime.Space) string {
	return canvas.Cut(cmp.Or(s.Device, s.ID(), "memory"), 60)
}

// Unknown is what a site is called of which nothing is known.
const Unknown = "unknown site"

// Name names a site of a space by its innermost user frame, else by its operation
// and what that ran in.
func Name(c *lifetime.Capture, s *lifetime.Space, id lifetime.SiteID) (name, place string) {
	site := &c.Sites[id]
	if f, ok := c.UserFrame(id); ok {
		name, place = f.Function, f.Place()
		if stack := c.Stacks[site.Stack]; f.Kind == lifetime.Scope && len(stack) > 1 && s.Axis != lifetime.ProgramOrder {
			place = c.Frames[stack[1]].Function // "aten::empty" alone tells little
		}
	} else {
		name, place = cmp.Or(site.Op, site.Instr), cmp.Or(site.Module, site.Shape)
	}
	return cmp.Or(name, Unknown), place
}
