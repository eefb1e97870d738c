package blocks

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// stack puts the buffers on top of each other, in tiers. Within a tier blocks are in order of allocation, and buffers
// without a separate shape are on top of them, as one band per class.
//
// In order of allocation, blocks move rarely: most lifetimes are nested, and a block moves only when an older one below
// it ends. Small buffers at the bottom would move everything in every column.
func (p *picture) stack() layout {
	height := p.height()
	all, small := p.sort(height)
	own := largest(all, p.o.MaxBlocks)
	for {
		together := small.with(p, all[len(own):])
		// The number of steps is only known after the layout.
		l := p.slide(inOrder(own), height, together)
		together.draw(p, &l, height)
		bands := 0
		for _, m := range l.merged {
			bands += m.path.Bytes()
		}
		n := p.affordable(own, &l, bands)
		if n == len(own) {
			p.describe(&l, own)
			p.names = p.spots(&l, together, height)
			return l
		}
		own = own[:n]
	}
}

// thin is the height below which blocks look like stripes, in tenths of a pixel.
const thin = 40

// tierOf returns the tier of each class, and the number of tiers. In a picture of leaks these are at the bottom, so
// that they form one shape that other buffers do not move. In a picture by category, and if most of the picture would
// be stripes, each class has its own tier: the longer its buffers live the lower, so that they move little.
func (p *picture) tierOf(height plot.Scale) (tiers []int, n int) {
	tiers = make([]int, len(p.classes))
	if p.o.Color == ByLeak && p.leaks > 0 {
		for k := p.leaks; k < len(tiers); k++ {
			tiers[k] = 1
		}
		return tiers, 2
	}
	areas, bytes := make([]float64, len(tiers)), make([]float64, len(tiers))
	all, stripes := 0.0, 0.0
	p.each(func(i int, class uint8) {
		b := &p.s.Buffers[i]
		area := p.area(b)
		areas[class] += area
		bytes[class] += float64(b.Size)
		all += area
		if height.Above().At(uint64(b.Size)) < thin {
			stripes += area
		}
	})
	if p.o.Color == ByLeak || p.o.Color != ByCategory && stripes < all/2 {
		return tiers, 1
	}
	order := make([]int, len(tiers))
	for k := range order {
		order[k] = k
		areas[k] /= max(bytes[k], 1) // the mean lifetime
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(areas[b], areas[a]) })
	for tier, k := range order {
		tiers[k] = tier
	}
	return tiers, len(tiers)
}

// sort separates the buffers that are high enough for a shape from the others.
func (p *picture) sort(height plot.Scale) ([]candidate, *bands) {
	var all []candidate
	bands := &bands{bytes: make([][]int64, len(p.classes)), rest: make([]amount, len(p.classes))}
	bands.tierOf, bands.tiers = p.tierOf(height)
	for i := range bands.bytes {
		bands.bytes[i] = make([]int64, len(p.cols.at)+1)
	}
	p.each(func(i int, class uint8) {
		b := &p.s.Buffers[i]
		k0, k1 := p.cols.ofBuffer(b)
		c := candidate{p.area(b), i, int32(k0), int32(k1), class}
		if k0 < k1 && height.Above().At(uint64(b.Size)) >= areaBelow {
			all = append(all, c)
		} else {
			bands.add(p, &c)
		}
	})
	return all, bands
}

// slide lays out blocks and bands on the floors. A block gets a new step in every column in which its height changes. A
// column has room for few blocks, so it is cheap to visit all live ones.
func (p *picture) slide(own []candidate, height plot.Scale, b *bands) layout {
	var moves []move
	q := pile{own: own}
	last := make([]step, len(own)) // no block is zero
	for k := range p.cols.at {
		q.advance(k)
		x, offset := p.columnX(k), p.floors[k]
		lo := height.At(uint64(offset))
		for tier := range b.tiers {
			b.bottoms[tier][k] = offset
			for _, i := range q.live {
				if b.tierOf[own[i].class] != tier {
					continue
				}
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
			for class := range b.bytes {
				if b.tierOf[class] == tier {
					b.lows[class][k] = offset
					offset += b.bytes[class][k]
				}
			}
			lo = height.At(uint64(offset))
		}
		b.bottoms[b.tiers][k] = offset
	}
	return p.gather(own, moves)
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

// advance moves to column k.
func (q *pile) advance(k int) {
	q.live = slices.DeleteFunc(q.live, func(i int) bool { return int(q.own[i].k1) <= k })
	// own is in order of allocation, and therefore also of k0.
	for ; q.next < len(q.own) && int(q.own[q.next].k0) <= k; q.next++ {
		q.live = append(q.live, q.next)
	}
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
		l.shapes[i] = shape{buffer: own[i].buffer, class: own[i].class, first: at, end: p.columnX(int(own[i].k1))}
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
func (p *picture) height() plot.Scale { return p.Heights(p.ceiling) }

// columnX returns the x coordinate of column k.
func (p *picture) columnX(k int) point { return p.Left + point(k)*columnWidth }

// bands has the bytes of the buffers that are drawn together, by class and column.
type bands struct {
	bytes   [][]int64 // by class; differences between columns until accumulated
	rest    []amount
	tierOf  []int // tier by class
	tiers   int
	lows    [][]int64 // by class: bytes below the band
	bottoms [][]int64 // by tier: bytes below it; the last one is the top of all
}

func (b *bands) add(p *picture, c *candidate) {
	buf := &p.s.Buffers[c.buffer]
	b.bytes[c.class][c.k0] += buf.Size
	b.bytes[c.class][c.k1] -= buf.Size
	b.rest[c.class].add(buf, p.peak.At)
}

// with returns a copy of the bands with more buffers, and with accumulated bytes.
func (b *bands) with(p *picture, more []candidate) *bands {
	all := &bands{rest: slices.Clone(b.rest), tierOf: b.tierOf, tiers: b.tiers}
	for _, bytes := range b.bytes {
		all.bytes = append(all.bytes, slices.Clone(bytes))
		all.lows = append(all.lows, make([]int64, len(p.cols.at)))
	}
	for range b.tiers + 1 {
		all.bottoms = append(all.bottoms, make([]int64, len(p.cols.at)))
	}
	for i := range more {
		all.add(p, &more[i])
	}
	for _, bytes := range all.bytes {
		accumulate(bytes)
	}
	return all
}

// draw adds the outlines of the bands to the layout.
func (b *bands) draw(p *picture, l *layout, height plot.Scale) {
	for class, bytes := range b.bytes {
		l.rest.count += b.rest[class].count
		l.rest.bytes += b.rest[class].bytes
		top := slices.Clone(b.lows[class])
		for k := range top {
			top[k] += bytes[k]
		}
		if band := p.band(b.lows[class], top, height); !band.Empty() {
			l.merged = append(l.merged, mergedPath{uint8(class), band, b.rest[class]})
		}
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
