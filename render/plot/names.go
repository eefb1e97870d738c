package plot

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// Palette has hues that people with any of the common colour blindnesses tell
// apart, and lightnesses that differ in a grey print; a test of package blocks
// measures both. They are calm, so that hatched shapes stand out, and suit light and
// dark pages.
var Palette = [...]canvas.RGB{0x699bdd, 0xeac971, 0x1a8071, 0xb2afd9, 0xcaebf0, 0x8b8a3d, 0xc39da7, 0x546081}

// KindLook returns the look of a kind of buffers of a compiled program. All pictures
// use it, so that they can be compared.
func KindLook(k lifetime.Kind) canvas.Look {
	return canvas.Look{RGB: Palette[[...]int{0, 0, 1, 2, 5, 7}[k]]}
}

// Device returns the name of a space for people: its device, or else its whole ID.
func Device(s *lifetime.Space) string {
	return canvas.Cut(cmp.Or(s.Device, s.ID(), "memory"), 60)
}

// Unknown is the name of a site whose code and operation are not known.
const Unknown = "unknown site"

// Name returns the name of a site of a space and where it is: its innermost user
// frame, or else its operation and the module that it ran in.
func Name(c *lifetime.Capture, s *lifetime.Space, id lifetime.SiteID) (name, place string) {
	site := &c.Sites[id]
	if f, ok := c.UserFrame(id); ok {
		name, place = f.Function, f.Place()
		if caller := c.Stacks[site.Stack].Caller; f.Kind == lifetime.Scope && caller != 0 && s.Axis != lifetime.ProgramOrder {
			place = c.Frames[c.Stacks[caller].Frame].Function // everything calls "aten::empty"
		}
	} else {
		name, place = cmp.Or(site.Op, site.Instr), cmp.Or(site.Module, site.Shape)
	}
	return cmp.Or(name, Unknown), place
}

// Apart returns short names for files that are shown side by side: the last parts of
// their paths or, if two of these are equal, all that follows their common folder.
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
	for shared(paths) {
		for i := range paths {
			paths[i] = paths[i][1:]
		}
	}
	for i := range paths {
		last[i] = strings.Join(paths[i], "/")
	}
	return last
}

// shared reports whether paths begin with the same folder.
func shared(paths [][]string) bool {
	for _, path := range paths {
		if len(path) < 2 || path[0] != paths[0][0] {
			return false
		}
	}
	return true
}
