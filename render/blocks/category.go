package blocks

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// category is what memory is for: the kind of the buffers of a compiled program,
// or else what the allocator was told.
type category struct {
	name  string
	bytes int64 // alive at the peak
	kinds []lifetime.Kind
	sites []lifetime.SiteID
}

const noCategory = "no category recorded"

// addCategories adds a class for each of the categories with the most bytes at
// the peak, and one for the rest.
func (p *picture) addCategories(sites []usage, room int) {
	list := p.categories(sites)
	own := ownRows(len(list), len(plot.Palette), room)
	for i := range list {
		k := len(p.classes)
		switch {
		case i < own:
			look := canvas.Look{RGB: plot.Palette[i]}
			switch {
			case len(list[i].kinds) > 0:
				look = plot.KindLook(list[i].kinds[0])
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
		for _, kind := range list[i].kinds {
			p.ofKind[kind] = uint8(k)
		}
		for _, id := range list[i].sites {
			p.ofSite[id] = uint8(k)
		}
	}
}

// categories sums the buffers of the given sites up, most bytes at the peak first.
func (p *picture) categories(sites []usage) []category {
	wanted := make([]bool, len(p.c.Sites))
	for _, u := range sites {
		for _, id := range u.sites {
			wanted[id] = true
		}
	}
	// A site may hold buffers of several kinds; those without a kind are told
	// apart by their site.
	kinds := make([]category, lifetime.ThreadLocal+1)
	seen := make([]bool, len(kinds))
	regions := map[string]*category{}
	bySite := make([]*category, len(p.c.Sites))
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if !p.cols.holds(b) || !wanted[b.Site] {
			continue
		}
		c := &kinds[b.Kind]
		if b.Kind == lifetime.Plain {
			if c = bySite[b.Site]; c == nil {
				name := cmp.Or(p.c.Sites[b.Site].Region, noCategory)
				if c = regions[name]; c == nil {
					c = &category{name: name}
					regions[name] = c
				}
				c.sites = append(c.sites, b.Site)
				bySite[b.Site] = c
			}
		}
		seen[b.Kind] = true
		if aliveAt(b, p.peak.At) {
			c.bytes += b.Size
		}
	}
	var list []category
	for kind := lifetime.Plain + 1; int(kind) < len(kinds); kind++ {
		if seen[kind] {
			list = append(list, category{kind.String(), kinds[kind].bytes, []lifetime.Kind{kind}, nil})
		}
	}
	for _, c := range regions {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b category) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	return list
}
