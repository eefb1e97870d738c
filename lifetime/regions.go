package lifetime

import (
	"cmp"
	"fmt"
	"slices"
)

// regionPairing turns Reserve and Release events and the regions of the end
// state into regions. Ranges split and join: one release may cover three
// reservations, or part of one.
type regionPairing struct {
	s       *Space
	b       *Builder
	regions []Region
	held    spanMap[int] // index into regions
}

func finishRegions(b *Builder, s *Space, log *spaceLog) []Region {
	p := &regionPairing{s: s, b: b, regions: log.regions}
	for e := range log.events.all() {
		switch e.op {
		case opReserve:
			hi := endOf(e.addr, e.size)
			p.close(e.t, p.held.cut(e.addr, hi), EndInferred)
			p.reserve(e.addr, hi, Region{Begin: e.t, Site: e.site})
		case opRelease:
			hi := endOf(e.addr, e.size)
			p.fillUnseen(e.addr, hi, Region{})
			p.close(e.t, p.held.cut(e.addr, hi), 0)
		}
	}
	p.endState(log)
	slices.SortStableFunc(p.regions, func(x, y Region) int {
		return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr), cmp.Compare(x.End, y.End))
	})
	return p.regions
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
func (p *regionPairing) close(t int64, pieces []span[int], edge Edge) {
	for _, piece := range pieces {
		r := p.regions[piece.val]
		if edge&EndInferred != 0 {
			p.b.Lose(LostFree, 1, sizeOf(piece.lo, piece.hi), fmt.Sprintf("%s: segment at %#x", p.s.ID(), piece.lo))
		}
		whole := piece.lo == r.Addr && piece.hi == endOf(r.Addr, r.Size)
		r.Addr, r.Size, r.End = piece.lo, sizeOf(piece.lo, piece.hi), t
		r.Edge |= edge
		if whole {
			p.regions[piece.val] = r
			continue
		}
		p.shrink(piece)
		if r.End > r.Begin {
			p.regions = append(p.regions, r)
		}
	}
}

// shrink takes a piece out of its region: the region keeps the part below it,
// a new one the part above.
func (p *regionPairing) shrink(piece span[int]) {
	r := p.regions[piece.val]
	hi := endOf(r.Addr, r.Size)
	if piece.lo > r.Addr {
		p.regions[piece.val].Size = sizeOf(r.Addr, piece.lo)
		if piece.hi < hi {
			p.reserve(piece.hi, hi, r)
		}
		return
	}
	p.regions[piece.val].Addr, p.regions[piece.val].Size = piece.hi, sizeOf(piece.hi, hi)
}

// fillUnseen adds regions older than the window for the parts of [lo, hi) that
// nothing holds.
func (p *regionPairing) fillUnseen(lo, hi uint64, like Region) {
	like.Begin, like.Edge = p.s.Begin, like.Edge|BeginUnseen
	var gaps []span[int]
	at := lo
	for s := range p.held.overlapping(lo, hi) {
		if s.lo > at {
			gaps = append(gaps, span[int]{lo: at, hi: s.lo})
		}
		at = s.hi
	}
	if at < hi {
		gaps = append(gaps, span[int]{lo: at, hi: hi})
	}
	for _, g := range gaps {
		p.reserve(g.lo, g.hi, like)
	}
}

// endState holds the regions against the end state: what it does not know was
// released unseen, what only it knows is older than the window.
func (p *regionPairing) endState(log *spaceLog) {
	if !log.cut {
		var known spanMap[bool]
		for _, r := range log.liveRegions {
			hi := endOf(r.Addr, r.Size)
			known.set(r.Addr, hi, true)
			p.fillUnseen(r.Addr, hi, Region{Site: r.Site})
		}
		if p.s.Facts&EndState != 0 {
			p.releaseUnknown(&known)
		}
	}
	for s := range p.held.all() {
		r := &p.regions[s.val]
		r.End, r.Edge = p.s.End, r.Edge|EndOpen
	}
	for _, r := range log.liveRegions {
		for s := range p.held.overlapping(r.Addr, endOf(r.Addr, r.Size)) {
			at := &p.regions[s.val]
			at.Kind, at.Stream, at.Pool = r.Kind, r.Stream, r.Pool
			if at.Site == 0 {
				at.Site = r.Site
			}
		}
	}
}

// releaseUnknown ends what is held outside the known ranges.
func (p *regionPairing) releaseUnknown(known *spanMap[bool]) {
	var lost []span[int]
	for s := range p.held.all() {
		at := s.lo
		for k := range known.overlapping(s.lo, s.hi) {
			if k.lo > at {
				lost = append(lost, span[int]{lo: at, hi: k.lo})
			}
			at = k.hi
		}
		if at < s.hi {
			lost = append(lost, span[int]{lo: at, hi: s.hi})
		}
	}
	for _, l := range lost {
		p.close(p.s.End, p.held.cut(l.lo, l.hi), EndInferred)
	}
}

// sizeOf returns hi - lo as a size.
func sizeOf(lo, hi uint64) int64 {
	if hi-lo > 1<<62 {
		return 1 << 62
	}
	return int64(hi - lo)
}
