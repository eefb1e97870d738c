package build

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
	"github.com/memlane/memlane/lifetime/loss"
)

// regionPairing turns Reserve and Release events and the regions of the end state into regions. Ranges split and join:
// a release may cover three reservations, or a part of one.
type regionPairing struct {
	log     *spaceLog
	regions []lifetime.Region
	open    spans.Map[int]   // index into regions
	ended   spans.Map[int64] // end of the last region at an address
	lost    counted

	// classes are the distinct values of Kind, Small, Stream, Pool and PoolUnknown of events.
	classes []lifetime.Region
	classOf map[lifetime.Region]int64
}

func (p *regionPairing) class(r *lifetime.Region) int64 {
	class := lifetime.Region{Kind: r.Kind, Small: r.Small, Stream: r.Stream, Pool: r.Pool, Edge: r.Edge & lifetime.PoolUnknown}
	i, ok := p.classOf[class]
	if ok {
		return i
	}
	if p.classOf == nil {
		p.classOf = map[lifetime.Region]int64{}
	}
	i = int64(len(p.classes))
	p.classOf[class] = i
	p.classes = append(p.classes, class)
	return i
}

func (p *regionPairing) event(e *event) {
	hi := spans.End(e.addr, e.size)
	r := p.classes[e.occupied]
	if e.op == opReserve {
		p.lose(p.close(e.t, p.open.Cut(e.addr, hi), lifetime.EndInferred))
		r.Begin, r.Site = e.t, e.site
		p.reserve(e.addr, hi, r)
		return
	}
	r.Begin = p.log.begin
	p.fillUnseen(e.addr, hi, r)
	p.close(e.t, p.open.Cut(e.addr, hi), 0)
}

// lose counts missing releases.
func (p *regionPairing) lose(pieces []spans.Span[int]) {
	for _, piece := range pieces {
		p.lost.add(piece.Size(), func() string { return fmt.Sprintf("segment at %#x", piece.Lo) })
	}
}

// finish stores the regions in the space. Its window must be known.
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
	p.open.Set(lo, hi, len(p.regions))
	p.regions = append(p.regions, r)
}

// close ends pieces of regions at t and returns them. A partly released region is split
// into regions with the same Begin.
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

// shrink removes a piece from its region. The region keeps the part below, a new region gets the part above.
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

// fillUnseen adds regions for the parts of [lo, hi) without an open region. They begin
// before the window, or where the last region there ended.
func (p *regionPairing) fillUnseen(lo, hi uint64, like lifetime.Region) {
	like.Edge |= lifetime.BeginUnseen
	for _, g := range p.open.Gaps(lo, hi) {
		r := like
		for last := range p.ended.Overlapping(g.Lo, g.Hi) {
			r.Begin = max(r.Begin, last.Val)
		}
		p.reserve(g.Lo, g.Hi, r)
	}
}

// endState reconciles the regions with the end state. Regions that are not in it lost
// their release; regions that are only in it are older than the window.
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
	for at := range p.open.All() {
		r := &p.regions[at.Val]
		r.End, r.Edge = s.End, r.Edge|lifetime.EndOpen
	}
	for _, r := range live {
		for at := range p.open.Overlapping(r.Addr, spans.End(r.Addr, r.Size)) {
			region := &p.regions[at.Val]
			region.Kind, region.Small, region.Stream, region.Pool = r.Kind, r.Small, r.Stream, r.Pool
			region.Edge = region.Edge&^lifetime.PoolUnknown | r.Edge&lifetime.PoolUnknown
			if region.Site == 0 {
				region.Site = r.Site
			}
		}
	}
}

// releaseUnknown ends open regions outside the known ranges.
func (p *regionPairing) releaseUnknown(s *lifetime.Space, known *spans.Map[bool]) {
	var lost []spans.Span[bool]
	for h := range p.open.All() {
		lost = append(lost, known.Gaps(h.Lo, h.Hi)...)
	}
	for _, l := range lost {
		p.lose(p.close(s.End, p.open.Cut(l.Lo, l.Hi), lifetime.EndInferred))
	}
}
