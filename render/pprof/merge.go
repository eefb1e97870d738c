package pprof

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/purpose"
)

// maxCells bounds the samples of one site. Four keep four sizes apart, or two sizes of short- and long-lived
// buffers. Each additional sample costs time in the library that writes the profile and in pprof that reads it.
const maxCells = 4

// exact, as the width of a class, gives every value its own class.
const exact = 255

// ladder lists the widths of the classes of sizes and lifetimes, finest first: a class of width w covers 2^w
// powers of two. Each site uses the first step that gives it at most maxCells cells. Lifetimes are coarsened
// first: they vary with every run, while the exact size of a buffer identifies its tensor.
//
// Each step joins whole classes of the previous step. A site can therefore climb while its buffers arrive, and
// reaches the same step in any order of buffers. The last step has at most maxCells classes.
var ladder = [...]struct{ size, life uint8 }{
	{exact, 0}, {exact, 2}, {exact, 3}, {exact, 5}, {exact, 6},
	{0, 6}, {1, 6}, {2, 6}, {3, 6}, {4, 6},
}

// class returns the class of a size or lifetime.
func class(v int64, width uint8) int64 {
	if width == exact {
		return v
	}
	return int64(bits.Len64(uint64(v)) >> width)
}

// values are the values of a sample, in the order of the sample types.
type values [5]int64

const (
	allocObjects = iota
	allocSpace
	inuseObjects
	inuseSpace
	leakedSpace
)

// cell is a future sample: the buffers of a site in one class.
type cell struct {
	size, life   int64 // of its first buffer; all are in the same class
	count        uint64
	sizes, lifes total
	values       values
}

func (c *cell) merge(o *cell) {
	c.count += o.count
	c.sizes.add(o.sizes)
	c.lifes.add(o.lifes)
	for i, v := range o.values {
		c.values[i] = units.AddSat(c.values[i], v)
	}
}

// key is the class of size and lifetime of a cell, on the step of its site.
type key struct{ size, life int64 }

// siteCells are the cells of one site, kind, purpose and holder. Keys and cells are separate slices, because every
// buffer is looked up among the keys.
type siteCells struct {
	site    lifetime.SiteID
	kind    lifetime.Kind
	purpose lifetime.PurposeID
	holder  lifetime.HolderID
	next    uint32 // index + 1 of the cells of the same site and kind with another purpose
	step    int    // of ladder
	keys    []key
	cells   []cell
}

func (g *siteCells) key(c *cell) key {
	w := ladder[g.step]
	return key{class(c.size, w.size), class(c.life, w.life)}
}

// add adds the buffers of c to the site.
func (g *siteCells) add(c *cell) {
	for {
		k := g.key(c)
		if i := slices.Index(g.keys, k); i >= 0 {
			g.cells[i].merge(c)
			return
		}
		if len(g.cells) < maxCells {
			g.keys, g.cells = append(g.keys, k), append(g.cells, *c)
			return
		}
		g.climb()
	}
}

// climb moves the site to the next step and joins the cells that are now in one class. Writing in place is
// safe: it never writes more cells than it has read.
func (g *siteCells) climb() {
	old := g.cells
	g.step++
	g.keys, g.cells = g.keys[:0], old[:0]
	for _, c := range old {
		g.add(&c)
	}
}

// sort orders the cells by class, which does not depend on the order of the buffers. No buffers may be added
// afterwards.
func (g *siteCells) sort() {
	slices.SortFunc(g.cells, func(a, b cell) int {
		x, y := g.key(&a), g.key(&b)
		return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.life, y.life))
	})
}

// kinds is the number of kinds of buffers.
const kinds = int(lifetime.ThreadLocal) + 1

// heldCells tells the cells of buffers with a holder apart. A site may have many holders, but few purposes.
type heldCells struct {
	slot    int
	purpose lifetime.PurposeID
	holder  lifetime.HolderID
}

// merge groups the buffers of a space that count in any sample type, by site, kind, purpose and the labels of holders.
// index is scratch space indexed by site and kind; it is zero before and after.
func merge(p *part, index []uint32) []siteCells {
	var sites []siteCells
	purposes := labelled[lifetime.PurposeID](p.capture.Purposes,
		func(p purpose.Purpose) any { return [3]any{p.Category, p.Phase, p.Module} })
	var holders []lifetime.HolderID
	if p.space.Holders != nil {
		holders = labelled[lifetime.HolderID](p.capture.Holders, func(h holder.Holder) any { return holderLabels(&h) })
	}
	held := map[heldCells]uint32{}
	timed := p.space.Axis == lifetime.Time
	for i := range p.space.Buffers {
		b := &p.space.Buffers[i]
		c := cell{size: b.Size, count: 1, sizes: total{lo: uint64(b.Size)}}
		if b.Edge&lifetime.BeginUnseen == 0 {
			c.values[allocObjects], c.values[allocSpace] = 1, b.Size
		}
		if p.inside && b.Begin <= p.at && (b.End > p.at || b.Edge&lifetime.EndOpen != 0) {
			c.values[inuseObjects], c.values[inuseSpace] = 1, b.Size
		}
		if p.leaked != nil && p.leaked[i] {
			c.values[leakedSpace] = b.Size
		}
		if c.values[allocObjects]+c.values[inuseObjects] == 0 {
			continue
		}
		if timed {
			c.life = length(b.Begin, b.End)
			c.lifes.lo = uint64(c.life)
		}
		slot, purpose := int(b.Site)*kinds+int(b.Kind), purposes[p.space.PurposeOf(i)]
		if holders != nil && p.space.Holders[i] != 0 {
			k := heldCells{slot, purpose, holders[p.space.Holders[i]]}
			if held[k] == 0 {
				sites = append(sites, siteCells{site: b.Site, kind: b.Kind, purpose: purpose, holder: k.holder})
				held[k] = uint32(len(sites))
			}
			sites[held[k]-1].add(&c)
			continue
		}
		at := index[slot]
		for at != 0 && sites[at-1].purpose != purpose {
			at = sites[at-1].next
		}
		if at == 0 {
			sites = append(sites, siteCells{site: b.Site, kind: b.Kind, purpose: purpose, next: index[slot]})
			at = uint32(len(sites))
			index[slot] = at
		}
		sites[at-1].add(&c)
	}
	for i := range sites {
		index[int(sites[i].site)*kinds+int(sites[i].kind)] = 0
		sites[i].sort()
	}
	slices.SortFunc(sites, func(a, b siteCells) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.kind, b.kind), cmp.Compare(a.purpose, b.purpose),
			cmp.Compare(a.holder, b.holder))
	})
	return sites
}

// labelled maps IDs of purposes or holders to the first one with the same labels. labels returns a comparable value.
func labelled[ID ~uint32, T any](all []T, labels func(T) any) []ID {
	firsts, same := map[any]ID{}, make([]ID, len(all))
	for i, one := range all {
		l, id := labels(one), ID(i)
		first, ok := firsts[l]
		if !ok || first == 0 { // 0 is for buffers without
			first, firsts[l] = id, id
		}
		same[i] = first
	}
	return same
}

// holderLabels returns the name of a buffer and what holds it as a whole, both with "*" for indexes, so that samples
// stay few.
func holderLabels(h *holder.Holder) [2]string {
	return [2]string{holder.FoldIndexes(h.Label()), holder.FoldIndexes(h.Whole())}
}

// total is a 128-bit sum, because a million lifetimes of three hours in nanoseconds overflow 64 bits.
type total struct{ hi, lo uint64 }

func (t *total) add(o total) {
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, o.lo, 0)
	t.hi += o.hi + carry
}

// mean returns the total divided by the number of its terms, rounded down.
func (t total) mean(n uint64) int64 {
	mean, _ := bits.Div64(t.hi, t.lo, n)
	return int64(mean)
}

// length returns end - begin. It saturates: windows of damaged captures may exceed an int64.
func length(begin, end int64) int64 {
	if n := end - begin; n >= 0 {
		return n
	}
	return math.MaxInt64
}
