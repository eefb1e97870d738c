package blocks

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// group is memory of one category, layer, operation or shape.
type group struct {
	name  string
	bytes int64          // alive at the peak
	most  int64          // alive at any time
	area  float64        // size times lifetime
	rows  []lifetime.Row // without amounts
}

// groupings have for each colour of groups what one group is, several are, and what a buffer without a group is.
var groupings = map[Color]struct{ one, several, none string }{
	ByCategory:  {"category", "categories", "no category recorded"},
	ByLayer:     {"layer", "layers", "no layer recorded"},
	ByOperation: {"operation", "operations", "no operation recorded"},
	ByShape:     {"shape", "shapes", "no shape recorded"},
}

// namer returns a function that returns the name of the group of a row; "" = not recorded.
func namer(c *lifetime.Capture, s *lifetime.Space, color Color) func(r lifetime.Row) string {
	switch color {
	case ByLayer:
		layers := layer.Of(&c.Tables)
		return func(r lifetime.Row) string { return layers.OfBuffer(r.Site, r.Purpose) }
	case ByOperation:
		return func(r lifetime.Row) string { return c.Sites[r.Site].Op }
	case ByShape:
		return func(r lifetime.Row) string { return c.Sites[r.Site].TypeAndShape() }
	case BySite:
		return func(r lifetime.Row) string {
			name, place := plot.Name(c, s, r.Site)
			if unknown(name) {
				return ""
			}
			return strings.TrimSpace(name + " " + place)
		}
	}
	return func(r lifetime.Row) string { return c.Category(&s.SpaceInfo, r.Kind, r.Site, r.Purpose) }
}

// Telling returns the colour of a picture of a space without categories that tell: by call site, unless those that have
// colours cover less than half of the bytes at the peak of which anything is known. Then it is the one of layers,
// operations and shapes that covers most, and the size if none covers half.
func Telling(c *lifetime.Capture, s *lifetime.Space) Color {
	rows := map[lifetime.Row]int64{}
	for _, i := range s.LiveAt(s.Peak(lifetime.Occupied).At) {
		rows[rowOf(s, i)] += s.Buffers[i].Size
	}
	known := map[lifetime.Row]bool{}
	covered := map[Color]int64{}
	best := BySite
	for _, color := range []Color{BySite, ByLayer, ByOperation, ByShape} {
		if covered[color] = covers(rows, known, namer(c, s, color)); covered[color] > covered[best] {
			best = color
		}
	}
	all := int64(0)
	for r := range known {
		all += rows[r]
	}
	switch {
	case all > 0 && covered[BySite] >= all/2:
		return BySite
	case all > 0 && covered[best] >= all/2:
		return best
	}
	return BySize
}

// covers returns the bytes of the largest groups with a name, as many as there are colours, and adds the rows with a
// name to known.
func covers(rows map[lifetime.Row]int64, known map[lifetime.Row]bool, name func(lifetime.Row) string) (sum int64) {
	groups := map[string]int64{}
	for r, bytes := range rows {
		if n := name(r); n != "" {
			groups[n] += bytes
			known[r] = true
		}
	}
	sizes := slices.Sorted(maps.Values(groups))
	for _, bytes := range sizes[max(len(sizes)-len(plot.Palette), 0):] {
		sum += bytes
	}
	return sum
}

// addGroups adds a class for each group with the most bytes at any time, those with the most at the peak first, and one for the rest.
func (p *picture) addGroups(room int) {
	list, words := p.groups(), groupings[p.o.Color]
	colours := len(plot.Palette)
	if p.o.Color == ByCategory {
		colours = len(list)
	}
	own := ownRows(len(list), colours, room)
	add := func(c class, of []*group) {
		for _, g := range of {
			c.bytes += g.bytes
			for _, r := range g.rows {
				p.ofRow[r] = uint8(len(p.classes))
			}
		}
		p.classes = append(p.classes, c)
	}
	for _, i := range byPeak(own, func(i int) int64 { return list[i].bytes }) {
		name := list[i].name
		if p.o.Color == ByCategory {
			name = purpose.Words(name)
		}
		add(class{name: name, look: list[i].look(p.o.Color, i)}, list[i:i+1])
	}
	if more := len(list) - own; more > 0 {
		add(class{name: "other " + words.several + " (" + strconv.Itoa(more) + ")", look: plot.OtherLook}, list[own:])
	}
}

// look returns the look of a group: that of a category is the same in every picture, others have the colour of their
// rank.
func (g *group) look(color Color, rank int) canvas.Look {
	switch {
	case g.name == groupings[color].none:
		return plot.UnknownLook
	case color == ByCategory:
		return plot.CategoryLook(g.name)
	}
	return canvas.Look{RGB: plot.Palette[rank]}
}

// rowOf returns what the group of a buffer depends on.
func rowOf(s *lifetime.Space, i int) lifetime.Row {
	return lifetime.Row{Site: s.Buffers[i].Site, Kind: s.Buffers[i].Kind, Purpose: s.PurposeOf(i)}
}

// groups sums the buffers that do not leak, most bytes at any time first.
func (p *picture) groups() (list []*group) {
	p.ofRow = map[lifetime.Row]uint8{}
	byRow := map[lifetime.Row]int{} // index of list
	byName := map[string]int{}
	name := namer(p.c, p.s, p.o.Color)
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if !p.cols.overlaps(b) || p.still[i] || int(p.ofPart[p.partOf(i)]) < p.leaks {
			continue
		}
		row := rowOf(p.s, i)
		k, ok := byRow[row]
		if !ok {
			called := cmp.Or(name(row), groupings[p.o.Color].none)
			if k, ok = byName[called]; !ok {
				k, list = len(list), append(list, &group{name: called})
				byName[called] = k
			}
			list[k].rows = append(list[k].rows, row)
			byRow[row] = k
		}
		g := list[k]
		g.area += p.area(b)
		if aliveAt(b, p.peak.At) {
			g.bytes += b.Size
		}
	}
	for k, most := range plot.Tops(p.s, len(list), p.seen(func(i int) int {
		if k, ok := byRow[rowOf(p.s, i)]; ok && int(p.ofPart[p.partOf(i)]) >= p.leaks {
			return k
		}
		return -1
	})) {
		list[k].most = most
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(b.area, a.area), cmp.Compare(a.name, b.name))
	})
	return list
}
