package plot

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/canvas"
)

// Palette has colours that people with common colour blindnesses can distinguish.
// Their lightness differs too, for grey prints; a test of package blocks measures
// both. They are muted, so that hatched shapes stand out on light and dark pages.
var Palette = [...]canvas.RGB{0x518fd5, 0xeecd73, 0x126f54, 0x9db4e0, 0xbdf8c4, 0xb09547, 0x887991, 0x475079}

// UnknownLook is the look of all buffers about which nothing is known: without a site, or without a category.
var UnknownLook = canvas.Look{RGB: 0xb9b2b4}

// OtherLook is the look of groups that are too small for a colour of their own.
var OtherLook = canvas.Look{RGB: 0xd8dce1}

// Categories are the colours of what buffers are for, by the names of purpose.Category and of the kinds of compiled
// programs. They are the same in every picture and on the page, and people with common colour blindnesses can
// distinguish them. Kinds that only compiled programs have share colours with categories that these do not have.
var Categories = map[string]canvas.RGB{
	"parameter": 0x065744, "gradient": 0x087abd, "optimizer_state": 0xebcd8e, "activation": 0xfaac55, "temporary": 0x8ea2d2,
	"buffer": 0xaae1fe, "input": 0x273044, "workspace": 0x626d28, "bucket": 0x967385, "cache": 0x5d317a,
	"leaked": 0xee686c, "output": 0x967385, "constant": 0xaae1fe, "thread-local": 0x626d28,
}

// CategoryLook returns the look of a category. Categories of the producer or of the user get a colour of Palette that
// depends only on their name.
func CategoryLook(name string) canvas.Look {
	rgb, ok := Categories[name]
	if name == "" || name == purpose.UnknownCategory.String() {
		return UnknownLook
	}
	if !ok {
		hash := uint32(0)
		for i := range len(name) {
			hash = 31*hash + uint32(name[i])
		}
		rgb = Palette[hash%uint32(len(Palette))]
	}
	return canvas.Look{RGB: rgb}
}

// BaseLook is the look of bytes that were allocated before the window.
var BaseLook = canvas.Look{RGB: 0x8b949e}

// StackName is the name of the memory outside the heap in which compiled programs have their stack.
var StackName = purpose.Words(lifetime.FromStack.String())

// BaseRow returns the legend row of the bytes that were allocated before the window. They are hatched where the axis is
// broken.
func BaseRow(bytes int64, broken bool) Row {
	look := BaseLook
	look.Hatched = broken
	return Row{Look: look, Name: purpose.Words(lifetime.FromBase.String()), Below: units.Bytes(bytes) + ", without events"}
}

// Words returns the words for the requested bytes of a space's buffers, and for the
// difference between occupied and requested bytes.
func Words(s *lifetime.Space) (requested, padding string) {
	if s.Axis == lifetime.ProgramOrder {
		return "unpadded", "padding"
	}
	return "requested", "rounding"
}

// Device returns the display name of a space: its device, or its whole ID if the device is not known.
func Device(s *lifetime.Space) string {
	return canvas.Cut(cmp.Or(s.Device, s.ID(), "memory"), 60)
}

// Unknown is the name of a site without a recorded function or operation.
const Unknown = "unknown site"

// Name returns the name of a site and where that is, as lifetime.Place does. Without a stack these are its operation
// and module.
func Name(c *lifetime.Capture, s *lifetime.Space, id lifetime.SiteID) (name, place string) {
	site := &c.Sites[id]
	if f, ok := c.FrameOf(id); ok && f.Kind == frame.Scope {
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

// Apart returns short names for files that are shown side by side: the last parts of their paths. If two of these are
// equal, it returns the paths without their common folder.
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

// Lowest returns the first recorded address of a space, the last possible one if it has none.
func Lowest(s *lifetime.Space) uint64 {
	first := uint64(math.MaxUint64)
	for i := range s.Buffers {
		first = min(first, s.Buffers[i].Addr)
	}
	for i := range s.Regions {
		first = min(first, s.Regions[i].Addr)
	}
	return first
}
