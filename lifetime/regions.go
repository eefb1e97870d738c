package lifetime

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// regionPairing turns Reserve and Release events and the regions of the end
// state into regions. Ranges split and join: one release may cover three
// reservations, or part of one.
type regionPairing struct {
	log     *spaceLog
	regions []Region
	held    spanMap[int]   // index into regions
	ended   spanMap[int64] // when a region last ended at an address
	lost    Loss
}

// event takes the next event.
func (p *regionPairing) event(e *event) {
	hi := endOf(e.addr, e.size)
	if e.op == opReserve {
		p.lose(p.close(e.t, p.held.cut(e.addr, hi), EndInferred))
		p.reserve(e.addr, hi, Region{Begin: e.t, Site: e.site})
		return
	}
	p.fillUnseen(e.addr, hi, Region{Begin: p.log.begin})
	p.close(e.t, p.held.cut(e.addr, hi), 0)
}

// lose counts releases that were not recorded.
func (p *regionPairing) lose(pieces []span[int]) {
	for _, piece := range pieces {
		p.lost.add(sizeOf(piece.lo, piece.hi), func() string { return fmt.Sprintf("segment at %#x", piece.lo) })
	}
}

// finish hands the regions to the space, whose window is known.
func (p *regionPairing) finish(s *Space) {
	p.endState(s)
	p.lost.tell(p.log.b, LostFree, s)
	slices.SortStableFunc(p.regions, func(x, y Region) int {
		return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr), cmp.Compare(x.End, y.End))
	})
	s.Regions = p.regions
}

func (p *regionPairing) reserve(lo, hi uint64, r Region) {
	if lo >= hi {
		return
	}
	r.Addr, r.Size = lo, sizeOf(lo, hi)
	p.held.set(lo, hi, len(p.regions))
	p.regions = append(p.regions, r)
}

// close ends the given pieces at t. A region that was released in part only is
// split: the pieces share its beginning.
func (p *regionPairing) close(t int64, pieces []span[int], edge Edge) []span[int] {
	for _, piece := range pieces {
		r := p.regions[piece.val]
		whole := piece.lo == r.Addr && piece.hi == endOf(r.Addr, r.Size)
		r.Addr, r.Size, r.End = piece.lo, sizeOf(piece.lo, piece.hi), t
		r.Edge |= edge
		p.ended.set(piece.lo, piece.hi, t)
		if whole {
			p.regions[piece.val] = r
			continue
		}
		p.shrink(piece)
		if r.End > r.Begin {
			p.regions = append(p.regions, r)
		}
	}
	return pieces
}

// shrink takes a piece out of its region: the region keeps the part below it,
// a new one the part above.
func (p *regionPairing) shrink(piece span[int]) {
	r := p.regions[piece.val]
	hi := endOf(r.Addr, r.Size)
	if piece.lo > r.Addr {
		p.regions[piece.val].Size = sizeOf(r.Addr, piece.lo)
		p.reserve(piece.hi, hi, r)
		return
	}
	p.regions[piece.val].Addr, p.regions[piece.val].Size = piece.hi, sizeOf(piece.hi, hi)
}

// fillUnseen adds regions for the parts of [lo, hi) that nothing holds: older
// than the window, or than the last region that ended there.
func (p *regionPairing) fillUnseen(lo, hi uint64, like Region) {
	like.Edge |= BeginUnseen
	for _, g := range p.held.gaps(lo, hi) {
		r := like
		for last := range p.ended.overlapping(g.lo, g.hi) {
			r.Begin = max(r.Begin, last.val)
		}
		p.reserve(g.lo, g.hi, r)
	}
}

// endState holds the regions against the end state: what it does not know was
// released unseen, what only it knows is older than the window.
func (p *regionPairing) endState(s *Space) {
	live := p.log.liveRegions
	if !p.log.cut {
		var known spanMap[bool]
		for _, r := range live {
			hi := endOf(r.Addr, r.Size)
			known.set(r.Addr, hi, true)
			p.fillUnseen(r.Addr, hi, Region{Begin: s.Begin, Site: r.Site})
		}
		if s.Facts&EndState != 0 {
			p.releaseUnknown(s, &known)
		}
	}
	for at := range p.held.all() {
		r := &p.regions[at.val]
		r.End, r.Edge = s.End, r.Edge|EndOpen
	}
	for _, r := range live {
		for at := range p.held.overlapping(r.Addr, endOf(r.Addr, r.Size)) {
			held := &p.regions[at.val]
			held.Kind, held.Stream, held.Pool = r.Kind, r.Stream, r.Pool
			if held.Site == 0 {
				held.Site = r.Site
			}
		}
	}
}

// releaseUnknown ends what is held outside the known ranges.
func (p *regionPairing) releaseUnknown(s *Space, known *spanMap[bool]) {
	var lost []span[bool]
	for h := range p.held.all() {
		lost = append(lost, known.gaps(h.lo, h.hi)...)
	}
	for _, l := range lost {
		p.lose(p.close(s.End, p.held.cut(l.lo, l.hi), EndInferred))
	}
}

// sizeOf returns hi - lo as a size, saturated: no less than endOf was given.
func sizeOf(lo, hi uint64) int64 { return int64(min(hi-lo, math.MaxInt64)) }
