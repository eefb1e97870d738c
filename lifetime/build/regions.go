package build

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
	"github.com/memlane/memlane/lifetime/loss"
)

// regionPairing turns Reserve and Release events and the regions of the end
// state into regions. Ranges split and join: one release may cover three
// reservations, or part of one.
type regionPairing struct {
	log     *spaceLog
	regions []lifetime.Region
	held    spans.Map[int]   // index into regions
	ended   spans.Map[int64] // when a region last ended at an address
	lost    counted
}

// event takes the next event.
func (p *regionPairing) event(e *event) {
	hi := spans.End(e.addr, e.size)
	if e.op == opReserve {
		p.lose(p.close(e.t, p.held.Cut(e.addr, hi), lifetime.EndInferred))
		p.reserve(e.addr, hi, lifetime.Region{Begin: e.t, Site: e.site})
		return
	}
	p.fillUnseen(e.addr, hi, lifetime.Region{Begin: p.log.begin})
	p.close(e.t, p.held.Cut(e.addr, hi), 0)
}

// lose counts releases that were not recorded.
func (p *regionPairing) lose(pieces []spans.Span[int]) {
	for _, piece := range pieces {
		p.lost.add(piece.Size(), func() string { return fmt.Sprintf("segment at %#x", piece.Lo) })
	}
}

// finish hands the regions to the space, whose window is known.
func (p *regionPairing) finish(s *lifetime.Space) {
	p.endState(s)
	p.lost.report(p.log.b, loss.LostFree, s)
	slices.SortStableFunc(p.regions, func(x, y lifetime.Region) int {
		return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr), cmp.Compare(x.End, y.End))
	})
	s.Regions = p.regions
}

func (p *regionPairing) reserve(lo, hi uint64, r lifetime.Region) {
	if lo >= hi {
		return
	}
	r.Addr, r.Size = lo, spans.Span[int]{Lo: lo, Hi: hi}.Size()
	p.held.Set(lo, hi, len(p.regions))
	p.regions = append(p.regions, r)
}

// close ends the given pieces at t. A region that was released in part only is
// split: the pieces share its beginning.
func (p *regionPairing) close(t int64, pieces []spans.Span[int], edge lifetime.Edge) []spans.Span[int] {
	for _, piece := range pieces {
		r := p.regions[piece.Val]
		whole := piece.Lo == r.Addr && piece.Hi == spans.End(r.Addr, r.Size)
		r.Addr, r.Size, r.End = piece.Lo, piece.Size(), t
		r.Edge |= edge
		p.ended.Set(piece.Lo, piece.Hi, t)
		if whole {
			p.regions[piece.Val] = r
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
func (p *regionPairing) shrink(piece spans.Span[int]) {
	r := p.regions[piece.Val]
	hi := spans.End(r.Addr, r.Size)
	if piece.Lo > r.Addr {
		p.regions[piece.Val].Size = int64(piece.Lo - r.Addr)
		p.reserve(piece.Hi, hi, r)
		return
	}
	p.regions[piece.Val].Addr, p.regions[piece.Val].Size = piece.Hi, int64(hi-piece.Hi)
}

// fillUnseen adds regions for the parts of [lo, hi) that nothing holds: older
// than the window, or than the last region that ended there.
func (p *regionPairing) fillUnseen(lo, hi uint64, like lifetime.Region) {
	like.Edge |= lifetime.BeginUnseen
	for _, g := range p.held.Gaps(lo, hi) {
		r := like
		for last := range p.ended.Overlapping(g.Lo, g.Hi) {
			r.Begin = max(r.Begin, last.Val)
		}
		p.reserve(g.Lo, g.Hi, r)
	}
}

// endState holds the regions against the end state: what it does not know was
// released unseen, what only it knows is older than the window.
func (p *regionPairing) endState(s *lifetime.Space) {
	live := p.log.liveRegions
	if !p.log.cut {
		var known spans.Map[bool]
		for _, r := range live {
			hi := spans.End(r.Addr, r.Size)
			known.Set(r.Addr, hi, true)
			p.fillUnseen(r.Addr, hi, lifetime.Region{Begin: s.Begin, Site: r.Site})
		}
		if s.Facts&lifetime.EndState != 0 {
			p.releaseUnknown(s, &known)
		}
	}
	for at := range p.held.All() {
		r := &p.regions[at.Val]
		r.End, r.Edge = s.End, r.Edge|lifetime.EndOpen
	}
	for _, r := range live {
		for at := range p.held.Overlapping(r.Addr, spans.End(r.Addr, r.Size)) {
			held := &p.regions[at.Val]
			held.Kind, held.Stream, held.Pool = r.Kind, r.Stream, r.Pool
			if held.Site == 0 {
				held.Site = r.Site
			}
		}
	}
}

// releaseUnknown ends what is held outside the known ranges.
func (p *regionPairing) releaseUnknown(s *lifetime.Space, known *spans.Map[bool]) {
	var lost []spans.Span[bool]
	for h := range p.held.All() {
		lost = append(lost, known.Gaps(h.Lo, h.Hi)...)
	}
	for _, l := range lost {
		p.lose(p.close(s.End, p.held.Cut(l.Lo, l.Hi), lifetime.EndInferred))
	}
}
