package blocks

import (
	"iter"
	"slices"

	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// stack piles the buffers up in order of their allocation, the ones without a
// shape of their own on top.
//
// Order of allocation keeps the picture calm and small: lives are nested as a
// rule (what a step allocates last it frees first), and a block moves only when
// an older one below it ends. Small buffers at the bottom would move everything
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
		// How often blocks move shows only once they are laid out.
		l = p.slide(inOrder(own), height, floors)
		n := p.affordable(own, 4*len(l.steps))
		if n == len(own) {
			break
		}
		own = own[:n]
	}
	// Summed in bytes, not taken from the outlines: rounding must not add up.
	piled := make([]int64, len(p.cols.at)+1)
	for i := range own {
		size := p.s.Buffers[own[i].buffer].Size
		piled[own[i].k0] += size
		piled[own[i].k1] -= size
	}
	accumulate(piled)
	for k := range floors {
		piled[k] += floors[k]
	}
	together.draw(p, &l, piled, height)
	return l
}

// sort tells the buffers that are large enough for a shape from the others.
func (p *picture) sort(height plot.Scale) ([]candidate, *bands) {
	var all []candidate
	bands := newBands(len(p.classes), len(p.cols.at))
	p.each(func(i int, class uint8) {
		b := &p.s.Buffers[i]
		k0, k1 := p.cols.span(b)
		c := candidate{p.area(b), i, int32(k0), int32(k1), class}
		if k0 < k1 && height.At(uint64(b.Size)) >= smallest {
			all = append(all, c)
		} else {
			bands.add(p, &c)
		}
	})
	return all, bands
}

// slide lays out blocks that stand in order of allocation, on floors. A block gets a new
// step in every column in which it lies lower than before. A column has room
// for few blocks of the smallest height, so walking over all the live ones
// where anything changes is cheap.
func (p *picture) slide(own []candidate, height plot.Scale, floors []int64) layout {
	var moves []move
	q := pile{own: own}
	last := make([]step, len(own)) // all zero, which no block is
	for k := range p.cols.at {
		if !q.advance(k) && k > 0 && floors[k] == floors[k-1] {
			continue
		}
		x := p.columnX(k)
		offset := floors[k]
		lo := height.At(uint64(offset))
		for i := range p.upwards(&q) {
			offset += p.s.Buffers[own[i].buffer].Size
			// The upper edge of a block is rounded once, and is the lower edge
			// of the next: no gap opens between them.
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

// upwards yields the live blocks of a pile, lowest first: in order of allocation.
// In a picture of leaks these lie at the bottom, where they stay: what they pile up
// to is one shape, however much comes and goes above it.
func (p *picture) upwards(q *pile) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, leaks := range [...]bool{true, false} {
			for _, i := range q.live {
				if p.o.Color == ByLeak && (int(q.own[i].class) < p.leaks) != leaks {
					continue
				}
				if !yield(i) {
					return
				}
			}
			if p.o.Color != ByLeak {
				return
			}
		}
	}
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

// advance goes on to column k and says whether the pile changed.
func (q *pile) advance(k int) bool {
	before, kept := len(q.live), q.live[:0]
	for _, i := range q.live {
		if int(q.own[i].k1) > k {
			kept = append(kept, i)
		}
	}
	changed := len(kept) < before
	q.live = kept
	// Buffers that begin later have later first columns, so own is in order
	// of those too.
	for ; q.next < len(q.own) && int(q.own[q.next].k0) <= k; q.next++ {
		q.live = append(q.live, q.next)
		changed = true
	}
	return changed
}

// gather brings moves, which stand by column, together by block.
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

// height maps bytes in use to the plot.
func (p *picture) height() plot.Scale {
	return plot.Scale{From: p.ceiling, To: uint64(p.Bottom - p.Top)}
}

// columnX returns where column k begins.
func (p *picture) columnX(k int) point { return p.Left + point(k)*columnWidth }

// bands sums up, per class, the bytes in every column of the buffers that are
// drawn together.
type bands struct {
	bytes [][]int64 // by class; differences from column to column until drawn
	rest  []amount
}

func newBands(classes, columns int) *bands {
	b := &bands{bytes: make([][]int64, classes), rest: make([]amount, classes)}
	for i := range b.bytes {
		b.bytes[i] = make([]int64, columns+1)
	}
	return b
}

func (b *bands) add(p *picture, c *candidate) {
	buf := &p.s.Buffers[c.buffer]
	b.bytes[c.class][c.k0] += buf.Size
	b.bytes[c.class][c.k1] -= buf.Size
	b.rest[c.class].add(buf, p.peak.At)
}

// with returns the bands with further buffers in them, their bytes by column.
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

// below returns what the blocks stand on: the floors, and on them the bands of
// leaks where these are to lie at the bottom.
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

// draw puts the bands below the blocks or piles them on top of what is piled up
// already.
func (b *bands) draw(p *picture, l *layout, piled []int64, height plot.Scale) {
	low := slices.Clone(p.floors)
	for class, bytes := range b.bytes {
		l.rest.count += b.rest[class].count
		l.rest.bytes += b.rest[class].bytes
		from := &piled
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

// band outlines what lies between two levels, column by column. A band that
// vanishes for a while is several outlines.
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

// accumulate turns differences into levels.
func accumulate(a []int64) {
	for k := 1; k < len(a); k++ {
		a[k] += a[k-1]
	}
}
