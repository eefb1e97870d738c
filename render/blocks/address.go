package blocks

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/plot"
)

// extent is a range of addresses [lo, hi).
type extent struct{ lo, hi uint64 }

// addressMap maps addresses to the page: extents one above the other, without the gaps between them.
type addressMap struct {
	extents []extent
	below   []uint64 // bytes of the extents below each one
	bytes   uint64   // of all extents
	scale   plot.Scale
	gap     point // drawn between two extents to separate them
}

// joinShare limits the gaps that are drawn if no regions were recorded: larger gaps
// than this part of all used memory are left out.
const joinShare = 32

func (p *picture) mapAddresses() *addressMap {
	var u union
	for i := range p.s.Regions {
		u.add(p.s.Regions[i].Addr, p.s.Regions[i].Size)
	}
	u.merge()
	// Buffers outside all regions are rare, but happen: if the history has no regions,
	// only those of the end state are recorded.
	for i := range p.s.Buffers {
		if b := &p.s.Buffers[i]; p.cols.overlaps(b) {
			u.add(b.Addr, b.Size)
		}
	}
	u.merge()
	m := &addressMap{extents: u.extents}
	if len(p.s.Regions) == 0 {
		// Reserved memory was not recorded here, but small holes usually were reserved.
		m.extents = join(m.extents, bytesOf(m.extents)/joinShare)
	}
	m.bytes = bytesOf(m.extents)
	at := uint64(0)
	for _, e := range m.extents {
		m.below = append(m.below, at)
		at += e.hi - e.lo
	}
	return m
}

// fit scales the map to a height. With many regions, the gaps together take at most an eighth of it.
func (m *addressMap) fit(height point, ceiling uint64) {
	if gaps := point(len(m.extents) - 1); gaps > 0 {
		m.gap = min(30, height/8/gaps)
		height -= m.gap * gaps
	}
	m.scale = plot.Scale{From: ceiling, To: uint64(height)}
}

func bytesOf(extents []extent) (sum uint64) {
	for _, e := range extents {
		sum += e.hi - e.lo
	}
	return sum
}

// join merges sorted extents in place if they overlap or are at most gap bytes apart.
func join(sorted []extent, gap uint64) []extent {
	joined := sorted[:0]
	for _, e := range sorted {
		if n := len(joined); n > 0 && (e.lo <= joined[n-1].hi || e.lo-joined[n-1].hi <= gap) {
			joined[n-1].hi = max(joined[n-1].hi, e.hi)
			continue
		}
		joined = append(joined, e)
	}
	return joined
}

// height converts v bytes of mapped memory to a distance from the bottom.
func (m *addressMap) height(v uint64) point {
	i := len(m.below) - 1
	for i > 0 && m.below[i] > v {
		i--
	}
	return m.scale.At(v) + point(i)*m.gap
}

// span returns the distances of [addr, addr+size) from the bottom of the plot. The range is part of one extent.
func (m *addressMap) span(addr uint64, size int64) (lo, hi point) {
	i := sort.Search(len(m.extents), func(i int) bool { return m.extents[i].hi > addr })
	if i == len(m.extents) || m.extents[i].lo > addr {
		return 0, 0 // the range has size 0
	}
	at := m.below[i] + addr - m.extents[i].lo
	up := point(i) * m.gap
	return m.scale.At(at) + up, m.scale.At(at+uint64(size)) + up
}

// union collects ranges that may overlap and repeat.
type union struct {
	extents []extent // disjoint, sorted
	fresh   []extent // not merged yet
}

// freshMost is the maximum length of union.fresh. A merge visits all extents, so it must not run too often.
const freshMost = 1 << 16

func (u *union) add(addr uint64, size int64) {
	hi := max(addr+uint64(size), addr)
	if hi == addr {
		return
	}
	// Allocators reuse addresses, so most ranges are already in extents.
	i := sort.Search(len(u.extents), func(i int) bool { return u.extents[i].hi >= hi })
	if i < len(u.extents) && u.extents[i].lo <= addr {
		return
	}
	u.fresh = append(u.fresh, extent{addr, hi})
	if len(u.fresh) == freshMost {
		u.merge()
	}
}

// merge adds the fresh ranges to extents. Ranges that touch become one.
func (u *union) merge() {
	if len(u.fresh) == 0 {
		return
	}
	all := append(u.fresh, u.extents...)
	slices.SortFunc(all, func(a, b extent) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi)) })
	u.extents, u.fresh = join(all, 0), nil
}

// exact is span without rounding.
func (m *addressMap) exact(addr uint64, size int64) (lo, hi float64) {
	i := sort.Search(len(m.extents), func(i int) bool { return m.extents[i].hi > addr })
	if i == len(m.extents) || m.extents[i].lo > addr {
		return 0, 0 // the range has size 0
	}
	at, up, scale := m.below[i]+addr-m.extents[i].lo, float64(point(i)*m.gap), float64(m.scale.To)/float64(m.scale.From)
	return float64(at)*scale + up, float64(at+uint64(size))*scale + up
}

// place puts every buffer at its addresses.
func (p *picture) place(m *addressMap) layout {
	var all []candidate
	small := make([]int32, 0, p.buffers)
	p.each(func(i int, class uint8) {
		b := &p.s.Buffers[i]
		r := p.rect(m, b)
		if r.end-r.x >= smallest && r.hi-r.lo >= smallest {
			all = append(all, candidate{area: p.area(b), buffer: i, class: class})
		} else {
			small = append(small, int32(i)) // an index is small: there may be millions
		}
	})
	own := largest(all, p.o.MaxBlocks)
	var l layout
	for {
		l = layout{}
		for _, c := range inOrder(own) {
			r := p.rect(m, &p.s.Buffers[c.buffer])
			l.shapes = append(l.shapes, shape{buffer: c.buffer, class: c.class, first: len(l.steps), n: 1, end: r.end})
			l.steps = append(l.steps, r.step)
		}
		n := p.affordable(own, &l, 0)
		if n == len(own) {
			break
		}
		own = own[:n]
	}
	for _, c := range all[len(own):] {
		small = append(small, int32(c.buffer))
	}
	p.together(&l, m, small)
	p.describe(&l, own)
	return l
}

// rect is a block that stays at one height.
type rect struct {
	step
	end point
}

// rect returns the block of b. Neighbours in memory or time share a rounded edge, so
// blocks overlap only if the buffers do.
func (p *picture) rect(m *addressMap, b *lifetime.Buffer) rect {
	var r rect
	r.lo, r.hi = m.span(b.Addr, b.Size)
	r.x, r.end = p.X(b.Begin), p.Right
	if b.Edge&lifetime.EndOpen == 0 {
		r.end = p.X(b.End)
	}
	return r
}

// exact returns the block of b without rounding.
func (p *picture) exact(m *addressMap, b *lifetime.Buffer) (a area) {
	a.lo, a.hi = m.exact(b.Addr, b.Size)
	x := func(t int64) float64 {
		at := uint64(min(max(t, p.From), p.To)) - uint64(p.From) // exact, however far apart
		return float64(p.Left) + float64(at)/float64(uint64(p.To)-uint64(p.From))*float64(p.Right-p.Left)
	}
	a.x, a.end = x(b.Begin), float64(p.Right)
	if b.Edge&lifetime.EndOpen == 0 {
		a.end = x(b.End)
	}
	return a
}

// together draws small buffers on a grid, so that the area of a colour is its bytes over time.
func (p *picture) together(l *layout, m *addressMap, small []int32) {
	if len(small) == 0 {
		return
	}
	rest := make([]amount, len(p.classes))
	for _, i := range small {
		b := &p.s.Buffers[i]
		rest[p.classOf(int(i))].add(b, p.peak.At)
		l.rest.add(b, p.peak.At)
	}
	paths := p.mosaic(len(p.classes), func(g *grid) {
		for _, i := range small {
			g.add(p.exact(m, &p.s.Buffers[i]), int(p.classOf(int(i))))
		}
		for i := range l.shapes { // they hide what is below them
			g.add(p.exact(m, &p.s.Buffers[l.shapes[i].buffer]), len(p.classes))
		}
	})
	for class := range paths {
		if !paths[class].Empty() {
			l.merged = append(l.merged, mergedPath{uint8(class), &paths[class], rest[class]})
		}
	}
}
