package lifetime

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
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
	log  *spaceLog
	s    *Space // once the history is over
	bufs chunked[Buffer]
	open addressTable

	last     openBuffer // the buffer at lastAddr, newer than its entry in open
	lastAddr uint64
	hasLast  bool

	ends []uint32 // buffers that ended, in order of their end

	allocations, frees int
	freeSites          chunked[SiteID] // beside bufs: who freed it, where that differs from who allocated it
	notes              map[int]noted
	paired, repeated   int   // frees of seen buffers with a stack; those of them that repeat the allocation's
	unseen             []int // without a recorded begin
	lost               []int // without a recorded end
	replaced           Loss  // lost frees met on the way
}

// event takes the next event. As a rule a free is completed right after it was
// asked for: what is known of it in between is kept in last.
func (p *pairing) event(e *event) {
	if p.hasLast && (e.op != opFree || e.addr != p.lastAddr) {
		p.open.put(p.lastAddr, p.last)
		p.hasLast = false
	}
	switch e.op {
	case opAlloc:
		p.allocations++
		if o := p.open.get(e.addr); o != nil {
			p.loseFree(*o, e.t)
		}
		b := Buffer{Begin: e.t, Addr: e.addr, Requested: e.size, Site: e.site}
		b.Size, b.Edge = occupiedSize(e.size, e.occupied)
		p.begin(b)
	case opFreeRequested:
		if o := p.find(e); o.requested == notRequested {
			o.requested = e.t
			p.last, p.lastAddr, p.hasLast = o, e.addr, true
			p.freedBy(o.index, e.site)
		}
	case opFree:
		p.frees++
		o := p.last
		if !p.hasLast {
			o = p.find(e)
		}
		p.hasLast = false
		if o.requested == notRequested {
			p.freedBy(o.index, e.site)
		}
		p.close(o, e.t, 0)
	case opNote:
		if o := p.open.get(e.addr); o != nil {
			n, noted := p.notes[o.index]
			if !noted {
				n.first = NoteID(e.size)
			}
			n.last = NoteID(e.size)
			p.notes[o.index] = n
		}
	}
}

// finish hands the buffers to the space, whose window is known.
func (p *pairing) finish(s *Space) {
	if p.hasLast {
		p.open.put(p.lastAddr, p.last)
	}
	p.s = s
	s.Allocations, s.Frees = p.allocations, p.frees
	p.replaced.tell(p.log.b, LostFree, s)
	p.reconcile()
	p.settleEnds()
	p.settleBegins()
	p.store()
	older, bytes := int64(0), int64(0)
	for i := range s.Buffers {
		if s.Buffers[i].Edge&BeginUnseen != 0 {
			older++
			bytes = AddSat(bytes, s.Buffers[i].Size)
		}
	}
	switch {
	case older == 0 || p.log.noHistory:
	case p.log.ringFull:
		p.log.b.Lose(RingOverflow, older, bytes, s.ID())
	default:
		p.log.b.Lose(BeforeWindow, older, bytes, s.ID())
	}
}

// occupiedSize returns the occupied size of a buffer, and whether it was
// inferred from the requested one.
func occupiedSize(requested, occupied int64) (int64, Edge) {
	switch {
	case occupied > 0:
		return occupied, 0
	case occupied == knownZero:
		return 0, 0
	}
	if requested > math.MaxInt64-granularity {
		return requested, SizeInferred
	}
	return max(granularity, (requested+granularity-1)/granularity*granularity), SizeInferred
}

// begin opens a buffer.
func (p *pairing) begin(b Buffer) openBuffer {
	o := openBuffer{p.bufs.n, notRequested}
	p.open.put(b.Addr, o)
	p.bufs.add(b)
	p.freeSites.add(0)
	return o
}

// find returns the open buffer that a free speaks of: when none was seen, a new
// one that is older than the window.
func (p *pairing) find(e *event) openBuffer {
	if o := p.open.get(e.addr); o != nil {
		return *o
	}
	b := Buffer{Begin: p.log.begin, Addr: e.addr, Requested: e.size}
	b.Size, b.Edge = occupiedSize(e.size, e.occupied)
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
		p.paired++
		if b.Site == site {
			p.repeated++
			return
		}
	}
	*p.freeSites.at(i) = site
}

func (p *pairing) close(o openBuffer, t int64, edge Edge) {
	b := p.bufs.at(o.index)
	b.End = t
	b.Edge |= edge
	p.open.remove(b.Addr)
	p.ends = append(p.ends, uint32(o.index))
}

// loseFree ends a buffer whose free was not recorded: when the free was asked
// for, else at t.
func (p *pairing) loseFree(o openBuffer, t int64) {
	if o.requested != notRequested {
		t = o.requested
	}
	b := p.bufs.at(o.index)
	p.replaced.add(b.Size, func() string { return fmt.Sprintf("address %#x", b.Addr) })
	p.close(o, t, EndInferred)
}

// at names an address for a loss.
func (p *pairing) at(addr uint64) string { return fmt.Sprintf("%s: address %#x", p.s.ID(), addr) }

// reconcile holds the open buffers against the end state.
func (p *pairing) reconcile() {
	for _, l := range p.log.live {
		p.reconcileLive(l)
	}
	complete := p.s.Facts&EndState != 0 && !p.log.cut
	inOrder := func(x, y openBuffer) int { return cmp.Compare(x.index, y.index) }
	for _, o := range slices.SortedFunc(p.open.all(), inOrder) {
		b := p.bufs.at(o.index)
		switch {
		case b.Edge&EndOpen != 0: // confirmed by the end state
		case complete:
			p.contradict(o)
		default:
			b.End, b.Edge = p.s.End, b.Edge|EndOpen
			if o.requested != notRequested {
				b.Edge |= Pending
			}
		}
	}
	slices.Sort(p.lost)
}

// contradict ends a buffer that is alive by the events and not by the end
// state: when its free was asked for, else where settleEnds finds it did.
func (p *pairing) contradict(o openBuffer) {
	if o.requested == notRequested {
		p.lost = append(p.lost, o.index)
		return
	}
	b := p.bufs.at(o.index)
	b.End, b.Edge = o.requested, b.Edge|EndInferred
	p.ends = append(p.ends, uint32(o.index))
	p.log.b.Lose(LostFree, 1, b.Size, p.at(b.Addr))
}

// reconcileLive holds one block of the end state against the history.
func (p *pairing) reconcileLive(l LiveBlock) {
	size, edge := occupiedSize(l.Requested, l.Occupied)
	edge |= EndOpen
	if l.Pending {
		edge |= Pending
	}
	o := p.open.get(l.Addr)
	switch {
	case o != nil && p.bufs.at(o.index).Edge&EndOpen != 0:
		p.log.b.Lose(StateMismatch, 1, size, p.at(l.Addr)+" stands twice in the end state")
		return
	case o != nil && p.bufs.at(o.index).Requested == l.Requested:
		b := p.bufs.at(o.index)
		b.End, b.Size = p.s.End, size
		b.Edge = b.Edge&^SizeInferred | edge
		if b.Site == 0 {
			b.Site = l.Site
		}
		return
	case p.log.cut:
		p.log.b.Lose(EndStateAfterCut, 1, size, p.at(l.Addr))
		return
	case o != nil:
		p.log.b.Lose(StateMismatch, 1, size, p.at(l.Addr)+" has another size in the end state")
		p.contradict(*o)
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
		p.log.b.Lose(LostFree, 1, b.Size, p.at(b.Addr))
	}
	isLost := map[int]bool{}
	for _, i := range p.lost {
		isLost[i] = true
	}
	// Back in time, used holds the begin of the next buffer at each address.
	var used spanMap[int64]
	for _, i := range p.near(p.lost, func(x, y *Buffer) int { return cmp.Compare(y.Begin, x.Begin) }) {
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
	// In order of End, used holds the end of the last buffer at each address. Of
	// equal ends those come first that are moved: no buffer may hide from them
	// what ended before.
	var used spanMap[int64]
	for _, i := range p.near(p.unseen, func(x, y *Buffer) int {
		return cmp.Or(cmp.Compare(end(x), end(y)), cmp.Compare(y.Edge&BeginUnseen, x.Edge&BeginUnseen))
	}) {
		b := p.bufs.at(i)
		lo, hi := b.extent()
		if b.Edge&BeginUnseen != 0 {
			for sp := range used.overlapping(lo, hi) {
				if sp.val < end(b) {
					b.Begin = max(b.Begin, sp.val)
				}
			}
		}
		if b.Edge&EndOpen == 0 {
			used.set(lo, hi, b.End)
		}
	}
}

// near returns the buffers that share addresses with any of those asked for,
// in the given order.
func (p *pairing) near(asked []int, order func(x, y *Buffer) int) []int {
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
	slices.SortStableFunc(near, func(x, y int) int { return order(p.bufs.at(x), p.bufs.at(y)) })
	return near
}

// store hands the buffers to the space, in order of Begin, and drops those that
// nothing is left of.
func (p *pairing) store() {
	s := p.s
	s.Buffers = make([]Buffer, 0, p.bufs.n)
	fresh := make([]uint32, p.bufs.n) // new index by old index
	for i, b := range p.byBegin() {
		if b.End <= b.Begin {
			p.log.b.Lose(Overlap, 1, b.Size, p.at(b.Addr))
			fresh[i] = dropped
			continue
		}
		fresh[i] = uint32(len(s.Buffers))
		s.Buffers = append(s.Buffers, *b)
	}
	p.bufs = chunked[Buffer]{} // as large as s.Buffers
	ends := p.ends[:0]
	for _, i := range p.ends {
		if fresh[i] != dropped {
			ends = append(ends, fresh[i])
		}
	}
	p.storeColumns(fresh)
	s.sortEnds(ends)
}

// dropped stands for the new index of a buffer that is not in the model.
const dropped = math.MaxUint32

// byBegin yields the buffers in order of Begin, then of address, by index, and lets
// go of them: of a long history there is then one copy and not two. They were
// added in that order but for the unseen ones, whose end came first.
func (p *pairing) byBegin() iter.Seq2[int, *Buffer] {
	type one struct {
		i int
		b Buffer
	}
	var unseen []one
	for _, i := range p.unseen {
		unseen = append(unseen, one{i, *p.bufs.at(i)})
	}
	order := func(x, y *Buffer) int { return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr)) }
	slices.SortStableFunc(unseen, func(x, y one) int { return order(&x.b, &y.b) })
	added := p.unseen // in order of index
	return func(yield func(int, *Buffer) bool) {
		for i := range p.bufs.n {
			p.bufs.release(i)
			if len(added) > 0 && added[0] == i {
				added = added[1:]
				continue
			}
			b := p.bufs.at(i)
			for ; len(unseen) > 0 && order(&unseen[0].b, b) <= 0; unseen = unseen[1:] {
				if !yield(unseen[0].i, &unseen[0].b) {
					return
				}
			}
			if !yield(i, b) {
				return
			}
		}
		for k := range unseen {
			if !yield(unseen[k].i, &unseen[k].b) {
				return
			}
		}
	}
}

// storeIntervals hands over buffers that came with both ends.
func storeIntervals(s *Space, all []interval) {
	slices.SortStableFunc(all, func(x, y interval) int {
		return cmp.Or(cmp.Compare(x.buf.Begin, y.buf.Begin), cmp.Compare(x.buf.Addr, y.buf.Addr))
	})
	for i, v := range all {
		s.Buffers = append(s.Buffers, v.buf)
		if v.beside.FreeSite != 0 {
			column(&s.FreeSites, len(all))[i] = v.beside.FreeSite
		}
		if v.beside.Note != 0 {
			column(&s.BufNotes, len(all))[i] = v.beside.Note
		}
		if v.beside.IsValue {
			column(&s.ValueIDs, len(all))[i] = v.beside.ValueID
		}
	}
	s.sortAllEnds()
}

// column returns an optional column, which is made when it is first used.
func column[T any](c *[]T, n int) []T {
	if *c == nil {
		*c = make([]T, n)
	}
	return *c
}

// storeColumns fills the optional columns.
func (p *pairing) storeColumns(fresh []uint32) {
	s := p.s
	i := -1
	for site := range p.freeSites.all() {
		i++
		if *site == 0 || fresh[i] == dropped {
			continue
		}
		b := &s.Buffers[fresh[i]]
		if p.repeated > 0 && p.repeated == p.paired && b.Site == 0 && b.Edge&BeginUnseen != 0 {
			b.Site = *site
			b.Edge |= SiteFromFree
			continue
		}
		column(&s.FreeSites, len(s.Buffers))[fresh[i]] = *site
	}
	for _, i := range slices.Sorted(maps.Keys(p.notes)) {
		if fresh[i] == dropped {
			continue
		}
		if text := p.text(p.notes[i]); text != 0 {
			column(&s.BufNotes, len(s.Buffers))[fresh[i]] = text
		}
	}
}

// noted is what the program said of a buffer, first and last.
type noted struct{ first, last NoteID }

// maxNote bounds notes that are made of two.
const maxNote = 1000

// text returns both notes as one: as a rule what the program was doing when it
// allocated, and what the buffer is.
func (p *pairing) text(n noted) NoteID {
	notes := p.log.b.capture.Notes
	if first, last := notes[n.first], notes[n.last]; n.first != n.last && len(first)+len(last) <= maxNote {
		return p.log.b.Note(first + "; " + last)
	}
	return n.last
}
