package plot

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// Palette has colours that people with common colour blindnesses can distinguish.
// Their lightness differs too, for grey prints; a test of package blocks measures
// both. They are muted, so that hatched shapes stand out on light and dark pages.
var Palette = [...]canvas.RGB{0x699bdd, 0xeac971, 0x1a8071, 0xb2afd9, 0xcaebf0, 0x8b8a3d, 0xc39da7, 0x546081}

// KindLook returns the look of a kind of buffer of a compiled program. It is the same
// in all pictures.
func KindLook(k lifetime.Kind) canvas.Look {
	return canvas.Look{RGB: Palette[[...]int{0, 0, 1, 2, 5, 7}[k]]}
}

// BaseLook is the look of bytes that were allocated before the window.
var BaseLook = canvas.Look{RGB: 0x8b949e}

// BaseRow returns the legend row of the bytes that were allocated before the window.
func BaseRow(s *lifetime.Space) Row {
	return Row{Look: BaseLook, Name: "before the window", Below: units.Bytes(s.Base) + ", without events"}
}

// Words returns the words for the requested bytes of a space's buffers, and for the
// difference between occupied and requested bytes.
func Words(s *lifetime.Space) (requested, padding string) {
	if s.Axis == lifetime.ProgramOrder {
		return "unpadded", "padding"
	}
	return "requested", "rounding"
}

// Device returns the display name of a space: its device, or its whole ID if the
// device is not known.
func Device(s *lifetime.Space) string {
	return canvas.Cut(cmp.Or(s.Device, s.ID(), "memory"), 60)
}

// Unknown is the name of a site without a recorded function or operation.
const Unknown = "unknown site"

// Name returns the name of a site and where that is, as lifetime.Place does. Without a stack these are its operation and
// module.
func Name(c *lifetime.Capture, s *lifetime.Space, id lifetime.SiteID) (name, place string) {
	site := &c.Sites[id]
	if f, ok := c.FrameOf(id); ok && f.Kind == lifetime.Scope {
		name, place = f.Function, f.Place()
		if caller := c.Stacks[site.Stack].Caller; caller != 0 && s.Axis != lifetime.ProgramOrder {
			place = c.Frames[c.Stacks[caller].Frame].Function // all operators call "aten::empty"
		}
		return name, place
	}
	switch p := c.PlaceOf(id); {
	case p.Unseen:
		name = p.String()
	case p.Node != "":
		name, place = p.Node, "backward"
		if _, forward := p.Parts(); forward != "" {
			place += " of " + forward
		}
	case site.Stack != 0:
		name, place = p.Parts()
	default:
		name, place = cmp.Or(site.Op, site.Instr), cmp.Or(site.Module, site.Shape)
	}
	return cmp.Or(name, Unknown), place
}

// Apart returns short names for files that are shown side by side: the last parts of
// their paths. If two of these are equal, it returns the paths without their common
// folder.
func Apart(files []string) []string {
	var paths [][]string
	var last []string
	for _, file := range files {
		path := strings.FieldsFunc(file, func(r rune) bool { return r == '/' || r == '\\' })
		path = slices.DeleteFunc(path, func(part string) bool { return part == "." })
		if len(path) == 0 {
			path = []string{file}
		}
		paths, last = append(paths, path), append(last, path[len(path)-1])
	}
	if sorted := slices.Sorted(slices.Values(last)); len(slices.Compact(sorted)) == len(files) {
		return last
	}
	for !slices.ContainsFunc(paths, func(path []string) bool { return len(path) < 2 || path[0] != paths[0][0] }) {
		for i := range paths {
			paths[i] = paths[i][1:]
		}
	}
	for i := range paths {
		last[i] = strings.Join(paths[i], "/")
	}
	return last
}
