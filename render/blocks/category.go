package blocks

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// category is what memory is for.
type category struct {
	name  string
	bytes int64          // alive at the peak
	area  float64        // size times lifetime
	rows  []lifetime.Row // without amounts
}

const noCategory = "no category recorded"

// addCategories adds a class for each category with the largest area in view, and one for the rest.
func (p *picture) addCategories(room int) {
	list := p.categories()
	own := ownRows(len(list), len(list), room)
	for i := range list {
		k := len(p.classes)
		switch {
		case i < own:
			p.classes = append(p.classes, class{name: list[i].name, look: list[i].look()})
		case i == own:
			p.classes = append(p.classes, class{name: "other categories (" + strconv.Itoa(len(list)-own) + ")", look: plot.OtherLook})
		default:
			k--
		}
		p.classes[k].bytes += list[i].bytes
		for _, r := range list[i].rows {
			p.ofRow[r] = uint8(k)
		}
	}
}

func (c *category) look() canvas.Look {
	if c.name == noCategory {
		return plot.UnknownLook
	}
	return plot.CategoryLook(c.name)
}

// rowOf returns what the category of a buffer depends on.
func rowOf(s *lifetime.Space, i int) lifetime.Row {
	return lifetime.Row{Site: s.Buffers[i].Site, Kind: s.Buffers[i].Kind, Purpose: s.PurposeOf(i)}
}

// categories sums the buffers that do not leak, the largest area in view first.
func (p *picture) categories() (list []*category) {
	p.ofRow = map[lifetime.Row]uint8{}
	byRow := map[lifetime.Row]*category{}
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if !p.cols.overlaps(b) || p.still[i] || int(p.ofSite[b.Site]) < p.leaks {
			continue
		}
		row := rowOf(p.s, i)
		c := byRow[row]
		if c == nil {
			name := cmp.Or(p.c.Category(&p.s.SpaceInfo, b.Kind, b.Site, row.Purpose), noCategory)
			at := slices.IndexFunc(list, func(c *category) bool { return c.name == name })
			if at < 0 {
				at, list = len(list), append(list, &category{name: name})
			}
			c = list[at]
			c.rows = append(c.rows, row)
			byRow[row] = c
		}
		c.area += p.area(b)
		if aliveAt(b, p.peak.At) {
			c.bytes += b.Size
		}
	}
	slices.SortFunc(list, func(a, b *category) int {
		return cmp.Or(cmp.Compare(b.area, a.area), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	return list
}
