package blocks

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// class is a set of buffers of one colour: a row of the legend.
type class struct {
	name, place string
	leak        string // the leak of these sites, "" if they do not leak
	look        canvas.Look
	bytes       int64 // alive at the peak
	hidden      bool  // has no buffers
}

// shades are the classes of size, from small to large.
var shades = [...]canvas.RGB{0xdcebf7, 0x97c4e0, 0x5a9fcd, 0x3574b0, 0x1c4780}

// hatches are the colours below the stripes of leaks; the last one is for all others.
var hatches = [...]canvas.RGB{0xd1495b, 0xe08e2b, 0x9a3a86, 0x6e3f12, 0x4a3a42}

var stackLook = canvas.Look{RGB: 0xa8a29a}

// sizeLimits are the ends of the size classes. PyTorch's caching allocators change from
// the small to the large pool at 1 MiB.
var sizeLimits = [...]int64{64 << 10, 1 << 20, 16 << 20, 256 << 20}

var sizeNames = [...]string{"up to 64 KiB", "64 KiB to 1 MiB", "1 MiB to 16 MiB", "16 MiB to 256 MiB", "over 256 MiB"}

// label is the text of a site in the legend. Sites with the same label are one row.
type label struct{ name, place, leak string }

// usage is the sum of the buffers of one label.
type usage struct {
	label
	atPeak int64   // bytes
	most   int64   // bytes at any time
	area   float64 // size times lifetime
	parts  []int   // of sites, see partOf
}

// classify assigns the classes and counts the buffers: first leaks, then the classes of Color.
func (p *picture) classify() {
	p.leaking = make([]bool, len(p.s.Buffers))
	for _, i := range p.o.Marks.Leaking(p.s) {
		p.leaking[i] = true
	}
	p.ofPart = make([]uint8, 2*len(p.c.Sites))
	sites := p.usages()
	n := 0
	for n < len(sites) && sites[n].leak != "" {
		n++
	}
	leaks, others := sites[:n], sites[n:]
	room := int((point(p.o.Height-30)*10-p.Top)/plot.RowHeight) - len(p.RefusedRows())
	if p.m != nil {
		room-- // for free memory
	}
	if p.base() > 0 {
		room--
	}
	if len(p.s.Stack) > 0 {
		room--
	}
	// One row stays free for buffers that do not leak, for comparison.
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
	case ByCategory, ByLayer, ByOperation, ByShape:
		p.unmark(others)
		p.addGroups(room - p.leaks)
	case ByLeak:
		p.classes = append(p.classes,
			class{name: "alive at the end", look: canvas.Look{Role: canvas.Stays}, hidden: true},
			class{name: "freed", look: canvas.Look{Role: canvas.Passes}, hidden: true})
		p.count(others)
	}
}

// ownRows returns how many of n sites get a separate class. If some do not, the last row is for these.
func ownRows(n, colours, room int) int {
	if n <= min(colours, room) {
		return n
	}
	return max(min(colours, room-1), 0)
}

func hatch(i int) canvas.Look { return canvas.Look{RGB: hatches[i], Hatched: true} }

// addSites adds a class for each site with the most bytes at any time, those with the most at the peak first, and one for the rest.
func (p *picture) addSites(sites []usage, room int) {
	own := ownRows(len(sites), len(plot.Palette), room)
	for _, i := range byPeak(own, func(i int) int64 { return sites[i].atPeak }) { // a colour stays, however much room a picture has
		look := canvas.Look{RGB: plot.Palette[i]}
		if unknown(sites[i].name) {
			look = plot.UnknownLook
		}
		p.addClass(class{name: sites[i].name, place: sites[i].place, look: look}, sites[i:i+1])
	}
	if more := len(sites) - own; more > 0 {
		p.addClass(class{name: "other sites (" + strconv.Itoa(more) + ")", look: plot.OtherLook}, sites[own:])
	}
}

// byPeak returns the indices below n, those with the most bytes at the peak first.
func byPeak(n int, bytes func(i int) int64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bytes(b), bytes(a)) })
	return order
}

// unknown reports whether the name of a site says nothing about it.
func unknown(name string) bool { return name == plot.Unknown || name == lifetime.BeforeWindow }

// addClass adds the class of the given sites.
func (p *picture) addClass(c class, sites []usage) {
	for _, u := range sites {
		c.bytes += u.atPeak
		for _, part := range u.parts {
			p.ofPart[part] = uint8(len(p.classes))
		}
	}
	p.classes = append(p.classes, c)
}

// unmark makes the class of sites that do not leak depend on their buffers.
func (p *picture) unmark(sites []usage) {
	for _, u := range sites {
		for _, part := range u.parts {
			p.ofPart[part] = uint8(p.leaks)
		}
	}
}

// count sums the buffers of the classes that do not depend on the site.
func (p *picture) count(sites []usage) {
	p.unmark(sites)
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

// usages sums the buffers by label: leaks first, by area in view, then by the most bytes at any time.
func (p *picture) usages() []usage {
	atPeak := make([]int64, len(p.ofPart))
	areas := make([]float64, len(p.ofPart))
	used := make([]bool, len(p.ofPart))
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if !p.cols.overlaps(b) || p.still[i] {
			continue
		}
		p.buffers++
		part := p.partOf(i)
		used[part] = true
		areas[part] += p.area(b)
		if aliveAt(b, p.peak.At) {
			atPeak[part] += b.Size
		}
	}
	// Parts of sites are visited in their order, so that the order of equal sums is stable.
	index := map[label]int{}
	var list []usage
	ofPart := make([]int, len(used))
	for part := range used {
		if !used[part] {
			continue
		}
		l := p.label(part)
		u := keyed.At(index, &list, l, usage{label: l})
		ofPart[part] = index[l]
		u.atPeak += atPeak[part]
		u.area += areas[part]
		u.parts = append(u.parts, part)
	}
	for i, most := range plot.Tops(p.s, len(list), p.seen(func(buffer int) int { return ofPart[p.partOf(buffer)] })) {
		list[i].most = most
	}
	slices.SortStableFunc(list, func(a, b usage) int {
		if (a.leak != "") != (b.leak != "") {
			return cmp.Compare(b.leak, a.leak) // one of them is ""
		}
		if a.leak != "" && a.area != b.area {
			return cmp.Compare(b.area, a.area)
		}
		return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(b.area, a.area), cmp.Compare(a.name, b.name),
			cmp.Compare(a.place, b.place), cmp.Compare(a.leak, b.leak))
	})
	return list
}

// seen returns of, with -1 for buffers that are not drawn.
func (p *picture) seen(of func(buffer int) int) func(buffer int) int {
	return func(i int) int {
		if !p.cols.overlaps(&p.s.Buffers[i]) || p.still[i] {
			return -1
		}
		return of(i)
	}
}

// label returns the label of a part of a site.
func (p *picture) label(part int) (l label) {
	site := lifetime.SiteID(part / 2)
	l.name, l.place = plot.Name(p.c, p.s, site)
	if part%2 == 1 {
		l.leak = p.o.Marks.At(p.s, site).Text
	}
	return l
}

// partOf returns the part of a site that a buffer belongs to: twice the site, and 1 more if it leaks.
func (p *picture) partOf(i int) int {
	part := 2 * int(p.s.Buffers[i].Site)
	if p.leaking[i] {
		part++
	}
	return part
}

// each calls f with every buffer in the visible part, and its class.
func (p *picture) each(f func(i int, class uint8)) {
	for i := range p.s.Buffers {
		if b := &p.s.Buffers[i]; p.cols.overlaps(b) && !p.still[i] {
			f(i, p.classOf(i))
		}
	}
}

func (p *picture) classOf(i int) uint8 {
	b := &p.s.Buffers[i]
	k := p.ofPart[p.partOf(i)]
	if int(k) < p.leaks {
		return k
	}
	switch p.o.Color {
	case ByCategory, ByLayer, ByOperation, ByShape:
		return p.ofRow[rowOf(p.s, i)]
	case ByLeak:
		k = uint8(p.leaks)
		if b.Edge&lifetime.EndOpen == 0 {
			k++
		}
	case BySize:
		k = uint8(p.leaks)
		for _, limit := range sizeLimits {
			if b.Size > limit {
				k++
			}
		}
	}
	return k
}

// area returns the size of b times its lifetime in the visible part.
func (p *picture) area(b *lifetime.Buffer) float64 {
	end := p.To
	if b.Edge&lifetime.EndOpen == 0 {
		end = min(end, b.End)
	}
	// The conversion keeps compilers from fusing the product with a sum, which some machines would round differently.
	return float64(float64(b.Size) * float64(uint64(end)-uint64(max(b.Begin, p.From))))
}

func (a *amount) add(b *lifetime.Buffer, peak int64) {
	a.count++
	if aliveAt(b, peak) {
		a.bytes += b.Size
	}
}
