package blocks

import (
	"slices"

	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// stack puts the buffers on top of each other in order of their allocation. Buffers
// without a separate shape are at the top.
//
// In order of allocation, blocks move rarely: most lifetimes are nested, and a block moves
// only when an older one below it ends. Small buffers at the bottom would move everything
// in every column.
func (p *picture) stack() layout {
	height := p.height()
	all, small := p.sort(height)
	own := largest(all, p.o.MaxBlocks)
	var l layout
	var together *bands
	var floors []int64
	for {
		together = small.with(p, all[len(own):])
		floors = together.below(p)
		// The number of steps is only known after the layout.
		l = p.slide(inOrder(own), height, floors)
		n := p.affordable(own, 4*len(l.steps))
		if n == len(own) {
			break
		}
		own = own[:n]
	}
	// tops sums bytes, not heights of outlines, because rounding errors would add up.
	tops := make([]int64, len(p.cols.at)+1)
	for i := range own {
		size := p.s.Buffers[own[i].buffer].Size
		tops[own[i].k0] += size
		tops[own[i].k1] -= size
	}
	accumulate(tops)
	for k := range floors {
		tops[k] += floors[k]
	}
	together.draw(p, &l, tops, height)
	return l
}

// sort separates the buffers that are large enough for a shape from the others.
func (p *picture) sort(height plot.Scale) ([]candidate, *bands) {
	var all []candidate
	bands := &bands{bytes: make([][]int64, len(p.classes)), rest: make([]amount, len(p.classes))}
	for i := range bands.bytes {
		bands.bytes[i] = make([]int64, len(p.cols.at)+1)
	}
	p.each(func(i int, class uint8) {
		b := &p.s.Buffers[i]
		k0, k1 := p.cols.ofBuffer(b)
		c := candidate{p.area(b), i, int32(k0), int32(k1), class}
		if k0 < k1 && height.At(uint64(b.Size)) >= smallest {
			all = append(all, c)
		} else {
			bands.add(p, &c)
		}
	})
	return all, bands
}

// slide lays out blocks in order of allocation, on floors. A block gets a new step in
// every column in which its height changes. A column has room for few blocks, so it is
// cheap to visit all live ones at every change.
func (p *picture) slide(own []candidate, height plot.Scale, floors []int64) layout {
	var moves []move
	q := pile{own: own}
	last := make([]step, len(own)) // no block is zero
	for k := range p.cols.at {
		if !q.advance(k) && k > 0 && floors[k] == floors[k-1] {
			continue
		}
		x := p.columnX(k)
		offset := floors[k]
		lo := height.At(uint64(offset))
		for _, i := range p.upwards(&q) {
			offset += p.s.Buffers[own[i].buffer].Size
			// The rounded upper edge is also the lower edge of the next block, so that
			// there is no gap between them.
			hi := height.At(uint64(offset))
			if last[i].lo != lo || last[i].hi != hi {
				last[i] = step{x, lo, hi}
				moves = append(moves, move{i, last[i]})
			}
			lo = hi
		}
	}
	return p.gather(own, moves)
}

// upwards returns the live blocks of a pile, lowest first: in order of allocation. In a
// picture of leaks, these are at the bottom, so that they form one shape that other
// buffers do not move.
func (p *picture) upwards(q *pile) []int {
	if p.o.Color != ByLeak {
		return q.live
	}
	isLeak := func(i int) bool { return int(q.own[i].class) < p.leaks }
	others := slices.DeleteFunc(slices.Clone(q.live), isLeak)
	return append(slices.DeleteFunc(slices.Clone(q.live), func(i int) bool { return !isLeak(i) }), others...)
}

// move is a step of one of the blocks being laid out.
type move struct {
	block int
	step
}

// pile holds the blocks that are alive in a column, lowest first.
type pile struct {
	own  []candidate
	live []int // indexes of own
	next int   // first of own that has not begun
}

// advance moves to column k and reports whether the pile changed.
func (q *pile) advance(k int) bool {
	before := len(q.live)
	q.live = slices.DeleteFunc(q.live, func(i int) bool { return int(q.own[i].k1) <= k })
	changed := len(q.live) < before
	// own is in order of allocation, and therefore also of k0.
	for ; q.next < len(q.own) && int(q.own[q.next].k0) <= k; q.next++ {
		q.live = append(q.live, q.next)
		changed = true
	}
	return changed
}

// gather groups moves, which are in order of columns, by block.
func (p *picture) gather(own []candidate, moves []move) layout {
	l := layout{shapes: make([]shape, len(own)), steps: make([]step, len(moves))}
	for _, m := range moves {
		l.shapes[m.block].n++
	}
	at := 0
	for i := range own {
		n := l.shapes[i].n
		l.shapes[i] = shape{own[i].buffer, own[i].class, at, 0, p.columnX(int(own[i].k1))}
		at += n
	}
	for _, m := range moves {
		sh := &l.shapes[m.block]
		l.steps[sh.first+sh.n] = m.step
		sh.n++
	}
	return l
}

// height returns the scale that maps bytes in use to the plot.
func (p *picture) height() plot.Scale {
	return plot.Scale{From: p.ceiling, To: uint64(p.Bottom - p.Top)}
}

// columnX returns the x coordinate of column k.
func (p *picture) columnX(k int) point { return p.Left + point(k)*columnWidth }

// bands has the bytes of the buffers that are drawn together, by class and column.
type bands struct {
	bytes [][]int64 // by class; differences between columns until accumulated
	rest  []amount
}

func (b *bands) add(p *picture, c *candidate) {
	buf := &p.s.Buffers[c.buffer]
	b.bytes[c.class][c.k0] += buf.Size
	b.bytes[c.class][c.k1] -= buf.Size
	b.rest[c.class].add(buf, p.peak.At)
}

// with returns a copy of the bands with more buffers, and with accumulated bytes.
func (b *bands) with(p *picture, more []candidate) *bands {
	all := &bands{rest: slices.Clone(b.rest)}
	for _, bytes := range b.bytes {
		all.bytes = append(all.bytes, slices.Clone(bytes))
	}
	for i := range more {
		all.add(p, &more[i])
	}
	for _, bytes := range all.bytes {
		accumulate(bytes)
	}
	return all
}

// below returns the bytes below the blocks: the floors, and in a picture of leaks the
// bands of leaks.
func (b *bands) below(p *picture) []int64 {
	floors := slices.Clone(p.floors)
	if p.o.Color == ByLeak {
		for _, bytes := range b.bytes[:p.leaks] {
			for k := range floors {
				floors[k] += bytes[k]
			}
		}
	}
	return floors
}

// draw puts the bands on top of the blocks, or below them if they are leaks at the bottom.
func (b *bands) draw(p *picture, l *layout, tops []int64, height plot.Scale) {
	low := slices.Clone(p.floors)
	for class, bytes := range b.bytes {
		l.rest.count += b.rest[class].count
		l.rest.bytes += b.rest[class].bytes
		from := &tops
		if p.o.Color == ByLeak && class < p.leaks {
			from = &low
		}
		top := slices.Clone(*from)
		for k := range p.cols.at {
			top[k] += bytes[k]
		}
		if band := p.band(*from, top, height); !band.Empty() {
			l.merged = append(l.merged, mergedPath{uint8(class), band, b.rest[class]})
		}
		*from = top
	}
}

// band returns the outline of the area between two levels per column. A band with height
// 0 in some columns has several outlines.
func (p *picture) band(low, high []int64, height plot.Scale) *canvas.Path {
	var path canvas.Path
	var run []step
	flush := func(end point) {
		if len(run) > 0 {
			outline(&path, run, end, p.Bottom)
			run = run[:0]
		}
	}
	for k := range p.cols.at {
		lo, hi := height.At(uint64(low[k])), height.At(uint64(high[k]))
		x := p.columnX(k)
		switch n := len(run); {
		case lo == hi:
			flush(x)
		case n == 0 || run[n-1].lo != lo || run[n-1].hi != hi:
			run = append(run, step{x, lo, hi})
		}
	}
	flush(p.Right)
	return &path
}

// accumulate replaces differences with levels.
func accumulate(a []int64) {
	for k := 1; k < len(a); k++ {
		a[k] += a[k-1]
	}
}
