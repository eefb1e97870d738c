package lifetime

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// granularity is what PyTorch's caching allocators round small requests to
// (kMinBlockSize in c10/cuda/CUDACachingAllocator.cpp).
const granularity = 512

// notRequested marks an open buffer whose free was not asked for.
const notRequested = math.MinInt64

// openBuffer is a buffer whose end has not been seen yet.
type openBuffer struct {
	index     int
	requested int64 // when its free was asked for, or notRequested
}

// pairing turns the ordered events of one space into buffers. What was recorded
// is believed; rules fill the gaps, and live here and nowhere else:
//
//   - a free whose allocation was not recorded is a buffer that is older than
//     the window (BeginUnseen), or than the last buffer that ended there;
//   - an allocation at the address of a live buffer means that a free was lost:
//     the older buffer ended when its free was asked for, else here
//     (EndInferred);
//   - a block of the end state without allocation is older than the window;
//   - what is alive by the events but not in a complete end state lost its
//     free: it ended when its free was asked for, else when its memory was used
//     again, else before the end.
type pairing struct {
	b    *Builder
	s    *Space
	log  *spaceLog
	bufs chunked[Buffer]
	open map[uint64]openBuffer // by address
	ends []uint32              // buffers that ended, in order of their end

	freeSites chunked[SiteID] // beside bufs: who freed it, where that differs from who allocated it
	notes     map[int]NoteID
	sitesSame bool // every paired free so far repeated its allocation's stack
	unseen    []int
	lost      []int // without a recorded end
}

// pair fills the buffers of s from the events of log, whose window is known.
func pair(b *Builder, s *Space, log *spaceLog) {
	p := &pairing{b: b, s: s, log: log, sitesSame: true, open: map[uint64]openBuffer{}, notes: map[int]NoteID{}}
	p.run()
	p.reconcile()
	p.settleEnds()
	p.settleBegins()
	p.store()
	older, bytes := int64(0), int64(0)
	for i := range s.Buffers {
		if s.Buffers[i].Edge&BeginUnseen != 0 {
			older++
			bytes = addSat(bytes, s.Buffers[i].Size)
		}
	}
	switch {
	case older == 0 || log.noHistory:
	case log.ringFull:
		b.Lose(RingOverflow, older, bytes, s.ID())
	default:
		b.Lose(BeforeWindow, older, bytes, s.ID())
	}
}

// run pairs the events.
func (p *pairing) run() {
	i := -1
	for e := range p.log.events.all() {
		i++
		switch e.op {
		case opAlloc:
			p.s.Allocations++
			if o, ok := p.open[e.addr]; ok {
				p.loseFree(o, e.t)
			}
			b := Buffer{Begin: e.t, Addr: e.addr, Requested: e.size, Site: e.site}
			b.Size, b.Edge = occupiedSize(e.size, p.log.occupied[i])
			p.begin(b)
		case opFreeRequested:
			if o := p.find(e); o.requested == notRequested {
				o.requested = e.t
				p.open[e.addr] = o
				p.freedBy(o.index, e.site)
			}
		case opFree:
			p.s.Frees++
			o := p.find(e)
			if o.requested == notRequested {
				p.freedBy(o.index, e.site)
			}
			p.close(o, e.t, 0)
		case opNote:
			if o, ok := p.open[e.addr]; ok {
				p.notes[o.index] = NoteID(e.size)
			}
		}
	}
}

// occupiedSize returns the occupied size of a buffer, and whether it was
// inferred from the requested one.
func occupiedSize(requested, occupied int64) (int64, Edge) {
	if occupied > 0 {
		return occupied, 0
	}
	if requested > math.MaxInt64-granularity {
		return requested, SizeInferred
	}
	return max(granularity, (requested+granularity-1)/granularity*granularity), SizeInferred
}

// begin opens a buffer.
func (p *pairing) begin(b Buffer) openBuffer {
	o := openBuffer{p.bufs.n, notRequested}
	p.open[b.Addr] = o
	p.bufs.add(b)
	p.freeSites.add(0)
	return o
}

// find returns the open buffer that a free speaks of: when none was seen, a new
// one that is older than the window.
func (p *pairing) find(e *event) openBuffer {
	if o, ok := p.open[e.addr]; ok {
		return o
	}
	b := Buffer{Begin: p.s.Begin, Addr: e.addr, Requested: e.size}
	b.Size, b.Edge = occupiedSize(e.size, 0)
	b.Edge |= BeginUnseen
	p.unseen = append(p.unseen, p.bufs.n)
	return p.begin(b)
}

// freedBy notes who freed a buffer. Some recording modes repeat the
// allocation's stack on the free, others give the place of the free.
func (p *pairing) freedBy(i int, site SiteID) {
	if site == 0 {
		return
	}
	b := p.bufs.at(i)
	if b.Edge&BeginUnseen == 0 {
		if b.Site == site {
			return
		}
		p.sitesSame = false
	}
	*p.freeSites.at(i) = site
}

func (p *pairing) close(o openBuffer, t int64, edge Edge) {
	b := p.bufs.at(o.index)
	b.End = t
	b.Edge |= edge
	delete(p.open, b.Addr)
	p.ends = append(p.ends, uint32(o.index))
}

// loseFree ends a buffer whose free was not recorded: when the free was asked
// for, else at t.
func (p *pairing) loseFree(o openBuffer, t int64) {
	if o.requested != notRequested {
		t = o.requested
	}
	p.countLost(o.index)
	p.close(o, t, EndInferred)
}

func (p *pairing) countLost(i int) {
	b := p.bufs.at(i)
	p.b.Lose(LostFree, 1, b.Size, p.at(b.Addr))
}

// at names an address for a loss.
func (p *pairing) at(addr uint64) string { return fmt.Sprintf("%s: address %#x", p.s.ID(), addr) }

// reconcile holds the open buffers against the end state.
func (p *pairing) reconcile() {
	for _, l := range p.log.live {
		p.reconcileLive(l)
	}
	complete := p.s.Facts&EndState != 0 && !p.log.cut
	for _, o := range p.open {
		b := p.bufs.at(o.index)
		switch {
		case b.Edge&EndOpen != 0: // confirmed by the end state
		case complete && o.requested != notRequested:
			p.loseFree(o, 0)
		case complete:
			p.lost = append(p.lost, o.index)
		default:
			b.End, b.Edge = p.s.End, b.Edge|EndOpen
			if o.requested != notRequested {
				b.Edge |= Pending
			}
		}
	}
	slices.Sort(p.lost) // the walk over the map has no order
}

// reconcileLive holds one block of the end state against the history.
func (p *pairing) reconcileLive(l LiveBlock) {
	size, edge := occupiedSize(l.Requested, l.Occupied)
	edge |= EndOpen
	if l.Pending {
		edge |= Pending
	}
	o, ok := p.open[l.Addr]
	switch {
	case ok && p.bufs.at(o.index).Edge&EndOpen != 0:
		p.b.Lose(StateMismatch, 1, size, p.at(l.Addr)+" stands twice in the end state")
		return
	case ok && p.bufs.at(o.index).Requested == l.Requested:
		b := p.bufs.at(o.index)
		b.End, b.Size = p.s.End, size
		b.Edge = b.Edge&^SizeInferred | edge
		if b.Site == 0 {
			b.Site = l.Site
		}
		return
	case p.log.cut:
		p.b.Lose(EndStateAfterCut, 1, size, p.at(l.Addr))
		return
	case ok:
		p.b.Lose(StateMismatch, 1, size, p.at(l.Addr)+" has another size in the end state")
		p.lost = append(p.lost, o.index)
	}
	p.unseen = append(p.unseen, p.bufs.n)
	p.begin(Buffer{Begin: p.s.Begin, End: p.s.End, Addr: l.Addr, Size: size, Requested: l.Requested, Site: l.Site, Edge: edge | BeginUnseen})
}

// extent returns the addresses that b asked for, at least one. Occupied sizes
// are partly inferred and prove nothing.
func (b *Buffer) extent() (lo, hi uint64) {
	lo, hi = b.Addr, endOf(b.Addr, max(b.Requested, 1))
	if lo == hi { // at the very top of the address space
		lo--
	}
	return lo, hi
}

// settleEnds ends buffers whose free was lost where their memory was used
// again. Where it was not, they ended before the last instant, at which the
// end state holds.
func (p *pairing) settleEnds() {
	if len(p.lost) == 0 {
		return
	}
	for _, i := range p.lost {
		b := p.bufs.at(i)
		b.End, b.Edge = max(p.s.AtEnd(), b.Begin+1), b.Edge|EndInferred
		p.ends = append(p.ends, uint32(i))
		p.countLost(i)
	}
	isLost := map[int]bool{}
	for _, i := range p.lost {
		isLost[i] = true
	}
	// Back in time, used holds the begin of the next buffer at each address.
	var used spanMap[int64]
	for _, i := range p.near(p.lost, func(b *Buffer) int64 { return -b.Begin }) {
		b := p.bufs.at(i)
		lo, hi := b.extent()
		if isLost[i] {
			for sp := range used.overlapping(lo, hi) {
				if sp.val > b.Begin {
					b.End = min(b.End, sp.val)
				}
			}
		}
		used.set(lo, hi, b.Begin)
	}
}

// settleBegins moves the begin of buffers whose allocation was not recorded
// behind the last buffer that ended at their addresses. As a rule there is
// none, and they are older than the window.
func (p *pairing) settleBegins() {
	if len(p.unseen) == 0 {
		return
	}
	end := func(b *Buffer) int64 {
		if b.Edge&EndOpen != 0 {
			return math.MaxInt64
		}
		return b.End
	}
	// In order of End, used holds the end of the last buffer at each address.
	var used spanMap[int64]
	for _, i := range p.near(p.unseen, end) {
		b := p.bufs.at(i)
		lo, hi := b.extent()
		if b.Edge&BeginUnseen != 0 {
			for sp := range used.overlapping(lo, hi) {
				if sp.val < end(b) {
					b.Begin = max(b.Begin, sp.val)
				}
			}
		}
		used.set(lo, hi, end(b))
	}
}

// near returns the buffers that share addresses with any of those asked for,
// sorted by key.
func (p *pairing) near(asked []int, key func(*Buffer) int64) []int {
	var union spanMap[bool]
	for _, i := range asked {
		lo, hi := p.bufs.at(i).extent()
		union.set(lo, hi, true)
	}
	var near []int
	i := 0
	for b := range p.bufs.all() {
		if union.overlaps(b.extent()) {
			near = append(near, i)
		}
		i++
	}
	slices.SortStableFunc(near, func(x, y int) int { return cmp.Compare(key(p.bufs.at(x)), key(p.bufs.at(y))) })
	return near
}

// store hands the buffers to the space, in order of Begin, and drops those that
// nothing is left of.
func (p *pairing) store() {
	n := p.bufs.n
	order := make([]uint32, 0, n)
	fresh := make([]uint32, n) // new index by old index
	moved := len(p.unseen) > 0
	if moved {
		// Unseen buffers were appended when their free came, not when they began.
		for i := range n {
			order = append(order, uint32(i))
		}
		slices.SortStableFunc(order, func(x, y uint32) int {
			a, b := p.bufs.at(int(x)), p.bufs.at(int(y))
			return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Addr, b.Addr))
		})
	}
	s := p.s
	s.Buffers = make([]Buffer, 0, n)
	for k := range n {
		i := k
		if moved {
			i = int(order[k])
		}
		b := p.bufs.at(i)
		if b.End <= b.Begin {
			p.b.Lose(Overlap, 1, b.Size, p.at(b.Addr))
			fresh[i] = math.MaxUint32
			continue
		}
		fresh[i] = uint32(len(s.Buffers))
		s.Buffers = append(s.Buffers, *b)
	}
	ends := p.ends[:0]
	for _, i := range p.ends {
		if fresh[i] != math.MaxUint32 {
			ends = append(ends, fresh[i])
		}
	}
	p.storeColumns(fresh)
	s.sortEnds(ends)
}

// storeIntervals hands over buffers that came with both ends.
func storeIntervals(s *Space, all []interval) {
	slices.SortStableFunc(all, func(x, y interval) int {
		return cmp.Or(cmp.Compare(x.buf.Begin, y.buf.Begin), cmp.Compare(x.buf.Addr, y.buf.Addr))
	})
	for i, v := range all {
		s.Buffers = append(s.Buffers, v.buf)
		if v.freeSite != 0 && s.FreeSites == nil {
			s.FreeSites = make([]SiteID, len(all))
		}
		if v.note != 0 && s.BufNotes == nil {
			s.BufNotes = make([]NoteID, len(all))
		}
		if v.freeSite != 0 {
			s.FreeSites[i] = v.freeSite
		}
		if v.note != 0 {
			s.BufNotes[i] = v.note
		}
	}
	var ended []uint32
	for i := range s.Buffers {
		if s.Buffers[i].Edge&EndOpen == 0 {
			ended = append(ended, uint32(i))
		}
	}
	s.sortEnds(ended)
}

// storeColumns fills the optional columns.
func (p *pairing) storeColumns(fresh []uint32) {
	s := p.s
	i := -1
	for site := range p.freeSites.all() {
		i++
		if *site == 0 || fresh[i] == math.MaxUint32 {
			continue
		}
		b := &s.Buffers[fresh[i]]
		if p.sitesSame && b.Site == 0 && b.Edge&BeginUnseen != 0 {
			b.Site = *site
			b.Edge |= SiteFromFree
			continue
		}
		if s.FreeSites == nil {
			s.FreeSites = make([]SiteID, len(s.Buffers))
		}
		s.FreeSites[fresh[i]] = *site
	}
	for i, note := range p.notes {
		if fresh[i] == math.MaxUint32 {
			continue
		}
		if s.BufNotes == nil {
			s.BufNotes = make([]NoteID, len(s.Buffers))
		}
		s.BufNotes[fresh[i]] = note
	}
}

func subSat(a, b int64) int64 {
	if b == math.MinInt64 {
		return math.MaxInt64
	}
	return addSat(a, -b)
}
