package blocks

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// category is a purpose of memory: the kind of the buffers of a compiled program, or the
// category that the allocator recorded.
type category struct {
	kind  lifetime.Kind
	name  string
	bytes int64             // alive at the peak
	sites []lifetime.SiteID // of buffers without a kind
}

const noCategory = "no category recorded"

// addCategories adds a class for each category with the most bytes at the peak, and one
// for the rest.
func (p *picture) addCategories(sites []usage, room int) {
	list := p.categories(sites)
	own := ownRows(len(list), len(plot.Palette), room)
	for i := range list {
		k := len(p.classes)
		switch {
		case i < own:
			look := canvas.Look{RGB: plot.Palette[i]}
			switch {
			case list[i].kind != lifetime.Plain:
				look = plot.KindLook(list[i].kind)
			case list[i].name == noCategory:
				look = otherLook
			}
			p.classes = append(p.classes, class{name: list[i].name, look: look})
		case i == own:
			p.classes = append(p.classes, class{name: "other categories (" + strconv.Itoa(len(list)-own) + ")", look: otherLook})
		default:
			k--
		}
		p.classes[k].bytes += list[i].bytes
		p.ofKind[list[i].kind] = uint8(k)
		for _, id := range list[i].sites {
			p.ofSite[id] = uint8(k)
		}
	}
}

// categories sums the buffers of the given sites, most bytes at the peak first.
func (p *picture) categories(sites []usage) (list []*category) {
	included := make([]bool, len(p.c.Sites))
	for _, u := range sites {
		for _, id := range u.sites {
			included[id] = true
		}
	}
	// A site may have buffers of several kinds. Buffers without a kind have the category
	// of their site.
	bySite := make([]*category, len(p.c.Sites))
	find := func(kind lifetime.Kind, name string) *category {
		i := slices.IndexFunc(list, func(c *category) bool { return c.kind == kind && c.name == name })
		if i < 0 {
			i, list = len(list), append(list, &category{kind: kind, name: name})
		}
		return list[i]
	}
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if !p.cols.overlaps(b) || !included[b.Site] {
			continue
		}
		c := bySite[b.Site]
		switch {
		case b.Kind != lifetime.Plain:
			c = find(b.Kind, b.Kind.String())
		case c == nil:
			c = find(b.Kind, cmp.Or(p.c.Sites[b.Site].Region, noCategory))
			c.sites = append(c.sites, b.Site)
			bySite[b.Site] = c
		}
		if aliveAt(b, p.peak.At) {
			c.bytes += b.Size
		}
	}
	slices.SortFunc(list, func(a, b *category) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	return list
}
