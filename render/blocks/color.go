package blocks

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// class is a set of buffers of one colour: a row of the legend.
type class struct {
	name, place string
	leak        string // what leaks, for the sites that do
	look        canvas.Look
	bytes       int64 // alive at the peak
	hidden      bool  // no buffer belongs to it
}

// shades are the classes of size, from small to large.
var shades = [...]canvas.RGB{0xdcebf7, 0x97c4e0, 0x5a9fcd, 0x3574b0, 0x1c4780}

// hatches are the colours of leaks, the last one for all further ones; stripes
// are drawn over them.
var hatches = [...]canvas.RGB{0xd1495b, 0xe08e2b, 0x9a3a86, 0x6e3f12, 0x4a3a42}

var (
	unknownLook = canvas.Look{RGB: 0x9fa8b2}
	otherLook   = canvas.Look{RGB: 0xc4cad1}
	baseLook    = canvas.Look{RGB: 0x8b949e}
	stackLook   = canvas.Look{RGB: 0xa8a29a}
)

// sizeLimits end the classes of size. 1 MiB is where PyTorch's caching
// allocators change from the small to the large pool.
var sizeLimits = [...]int64{64 << 10, 1 << 20, 16 << 20, 256 << 20}

var sizeNames = [...]string{"up to 64 KiB", "64 KiB to 1 MiB", "1 MiB to 16 MiB", "16 MiB to 256 MiB", "over 256 MiB"}

// label names a site: sites that read the same are one to a reader.
type label struct{ name, place, leak string }

// usage is what the buffers of one label come to.
type usage struct {
	label
	atPeak, all int64 // bytes
	sites       []lifetime.SiteID
}

// classify assigns the classes and counts the buffers: leaks first, then what
// Color asks for.
func (p *picture) classify() {
	sites := p.usages()
	n := 0
	for n < len(sites) && sites[n].leak != "" {
		n++
	}
	leaks, others := sites[:n], sites[n:]
	room := int((p.Bottom - p.Top) / plot.RowHeight)
	if p.s.Base > 0 {
		room--
	}
	if len(p.s.Stack) > 0 {
		room--
	}
	p.ofSite = make([]uint8, len(p.c.Sites))
	// One row is kept for what does not leak, which the leaks are held against.
	own := ownRows(len(leaks), len(hatches)-1, room-1)
	for i := range leaks[:own] {
		p.addClass(class{name: leaks[i].name, place: leaks[i].place, leak: leaks[i].leak, look: hatch(i)}, leaks[i:i+1])
	}
	if own < n {
		p.addClass(class{name: "other leaks (" + strconv.Itoa(n-own) + ")", look: hatch(own)}, leaks[own:])
		p.classes[own].leak = atPeak(p.classes[own].bytes)
	}
	p.leaks = len(p.classes)
	switch p.o.Color {
	case BySite:
		p.addSites(others, room-p.leaks)
	case BySize:
		for i, name := range sizeNames {
			p.classes = append(p.classes, class{name: name, look: canvas.Look{RGB: shades[i]}, hidden: true})
		}
		p.count(others)
	case ByCategory:
		p.addCategories(others, room-p.leaks)
	case ByLeak:
		p.classes = append(p.classes,
			class{name: "alive at the end", look: canvas.Look{Role: canvas.Stays}, hidden: true},
			class{name: "freed", look: canvas.Look{Role: canvas.Passes}, hidden: true})
		p.count(others)
	}
}

// ownRows returns how many of n sites get a class of their own. When not all
// do, the last row is for the others.
func ownRows(n, colours, room int) int {
	if n <= min(colours, room) {
		return n
	}
	return max(min(colours, room-1), 0)
}

func hatch(i int) canvas.Look { return canvas.Look{RGB: hatches[i], Hatched: true} }

// addSites adds a class for each of the sites with the most bytes at the peak,
// and one for the rest.
func (p *picture) addSites(sites []usage, room int) {
	own := ownRows(len(sites), len(plot.Palette), room)
	for i := range sites[:own] {
		look := canvas.Look{RGB: plot.Palette[i]}
		if sites[i].name == plot.Unknown {
			look = unknownLook
		}
		p.addClass(class{name: sites[i].name, place: sites[i].place, look: look}, sites[i:i+1])
	}
	if more := len(sites) - own; more > 0 {
		p.addClass(class{name: "other sites (" + strconv.Itoa(more) + ")", look: otherLook}, sites[own:])
	}
}

// addClass adds the class of the given sites.
func (p *picture) addClass(c class, sites []usage) {
	for _, u := range sites {
		c.bytes += u.atPeak
		for _, id := range u.sites {
			p.ofSite[id] = uint8(len(p.classes))
		}
	}
	p.classes = append(p.classes, c)
}

// count fills the classes that no site stands for.
func (p *picture) count(sites []usage) {
	for _, u := range sites {
		for _, id := range u.sites {
			p.ofSite[id] = uint8(p.leaks)
		}
	}
	p.each(func(i int, k uint8) {
		if int(k) < p.leaks {
			return
		}
		p.classes[k].hidden = false
		if b := &p.s.Buffers[i]; aliveAt(b, p.peak.At) {
			p.classes[k].bytes += b.Size
		}
	})
}

// usages sums the buffers up by label: leaks first, then by bytes at the peak.
func (p *picture) usages() []usage {
	atPeak := make([]int64, len(p.c.Sites))
	all := make([]int64, len(p.c.Sites))
	used := make([]bool, len(p.c.Sites))
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if !p.cols.holds(b) {
			continue
		}
		p.buffers++
		used[b.Site] = true
		all[b.Site] += min(b.Size, mostBytes/int64(len(p.s.Buffers))) // only breaks ties: may not overflow
		if aliveAt(b, p.peak.At) {
			atPeak[b.Site] += b.Size
		}
	}
	// Sites are taken in their order, so that equal sums rank the same always.
	index := map[label]int{}
	var list []usage
	for id := range used {
		if !used[id] {
			continue
		}
		l := p.label(lifetime.SiteID(id))
		i, ok := index[l]
		if !ok {
			i = len(list)
			index[l] = i
			list = append(list, usage{label: l})
		}
		list[i].atPeak += atPeak[id]
		list[i].all += all[id]
		list[i].sites = append(list[i].sites, lifetime.SiteID(id))
	}
	slices.SortStableFunc(list, func(a, b usage) int {
		if (a.leak != "") != (b.leak != "") {
			return cmp.Compare(b.leak, a.leak) // one of them is ""
		}
		return cmp.Or(cmp.Compare(b.atPeak, a.atPeak), cmp.Compare(b.all, a.all), cmp.Compare(a.name, b.name),
			cmp.Compare(a.place, b.place), cmp.Compare(a.leak, b.leak))
	})
	return list
}

// label names a site.
func (p *picture) label(site lifetime.SiteID) label {
	name, place := plot.Name(p.c, p.s, site)
	return label{name, place, p.o.Marks.At(p.s, site).Text}
}

// each calls f with every buffer in the part that is drawn, and its class.
func (p *picture) each(f func(i int, class uint8)) {
	for i := range p.s.Buffers {
		if b := &p.s.Buffers[i]; p.cols.holds(b) {
			f(i, p.classOf(b))
		}
	}
}

func (p *picture) classOf(b *lifetime.Buffer) uint8 {
	k := p.ofSite[b.Site]
	if int(k) < p.leaks || p.o.Color == BySite {
		return k
	}
	if p.o.Color == ByCategory {
		if b.Kind != lifetime.Plain {
			return p.ofKind[b.Kind]
		}
		return k
	}
	k = uint8(p.leaks)
	switch {
	case p.o.Color == ByLeak:
		if b.Edge&lifetime.EndOpen == 0 {
			k++
		}
	default:
		for _, limit := range sizeLimits {
			if b.Size > limit {
				k++
			}
		}
	}
	return k
}

// area is the size of b times its lifetime in the part that is drawn.
func (p *picture) area(b *lifetime.Buffer) float64 {
	end := p.cols.to
	if b.Edge&lifetime.EndOpen == 0 {
		end = min(end, b.End)
	}
	return float64(b.Size) * float64(uint64(end)-uint64(max(b.Begin, p.cols.from)))
}

func (a *amount) add(b *lifetime.Buffer, peak int64) {
	a.count++
	if aliveAt(b, peak) {
		a.bytes += b.Size
	}
}
