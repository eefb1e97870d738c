package build

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/chunked"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
	"github.com/memlane/memlane/lifetime/loss"
)

// notRequested marks an open buffer whose free was not requested.
const notRequested = math.MinInt64

type openBuffer struct {
	index     int
	requested int64 // time of its FreeRequested, or notRequested
}

// pairing turns the ordered events of one space into buffers. It uses recorded data as it
// is. These rules fill the gaps:
//
//   - A free without a recorded allocation is a buffer (BeginUnseen) that begins with the
//     window, or where the last buffer at its addresses ended.
//   - An allocation at the address of a live buffer means that a free was lost. The older
//     buffer ended when its free was requested, else here (EndInferred).
//   - A block of the end state without an allocation is older than the window.
//   - A live buffer that is not in a complete end state lost its free. It ended when its
//     free was requested, else when its memory was used again, else before the end.
type pairing struct {
	log  *spaceLog
	s    *lifetime.Space // set by finish
	bufs chunked.List[lifetime.Buffer]
	open map[uint64]openBuffer // by address

	last     openBuffer // the buffer at lastAddr, newer than its entry in open
	lastAddr uint64
	hasLast  bool

	ends []uint32 // buffers that ended, in order of their end

	allocations, frees int
	freeSites          chunked.List[lifetime.SiteID] // column of bufs: site of the free, if it is not the site of the allocation
	notes              map[int]notePair
	late               map[int]int64 // time of the FreeRequested of buffers whose Free came after other events, or not at all
	paired, repeated   int           // frees with a site and a recorded allocation; those with the same site as the allocation
	unseen             []uint32      // without a recorded begin
	lost               []uint32      // without a recorded end
	replaced           counted       // frees lost because the address was allocated again
}

// event takes the next event. Most frees are completed right after they are requested, so last holds the buffer in between.
func (p *pairing) event(e *event) {
	if p.hasLast && (e.op != opFree || e.addr != p.lastAddr) {
		p.open[p.lastAddr] = p.last
		p.hasLast = false
	}
	switch e.op {
	case opAlloc:
		p.allocations++
		if o, ok := p.open[e.addr]; ok {
			p.loseFree(o, e.t)
		}
		b := e.buffer(e.t)
		b.Site = e.site
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
			p.delayed(o)
		}
		p.hasLast = false
		if o.requested == notRequested {
			p.freedBy(o.index, e.site)
		}
		p.close(o, e.t, 0)
	case opNote:
		if o, ok := p.open[e.addr]; ok {
			n, again := p.notes[o.index]
			if !again {
				n.first = lifetime.NoteID(e.size)
			}
			n.last = lifetime.NoteID(e.size)
			if p.notes == nil {
				p.notes = map[int]notePair{}
			}
			p.notes[o.index] = n
		}
	}
}

func (p *pairing) delayed(o openBuffer) {
	if o.requested != notRequested {
		if p.late == nil {
			p.late = map[int]int64{}
		}
		p.late[o.index] = o.requested
	}
}

// finish stores the buffers in the space. Its window must be known.
func (p *pairing) finish(s *lifetime.Space) {
	if p.hasLast {
		p.open[p.lastAddr] = p.last
	}
	p.s = s
	s.Allocations, s.Frees = p.allocations, p.frees
	p.replaced.report(p.log.b, loss.LostFree, s)
	if p.bufs.N == 0 && !p.log.cut && p.liveAscends() {
		p.storeLive()
	} else {
		p.reconcile()
		p.settleEnds()
		p.settleBegins()
		p.store()
	}
	p.log.b.nameForward(s)
	older, bytes := int64(0), int64(0)
	for i := range s.Buffers {
		if s.Buffers[i].Edge&lifetime.BeginUnseen != 0 {
			older++
			bytes = units.AddSat(bytes, s.Buffers[i].Size)
		}
	}
	switch {
	case older == 0 || p.log.noHistory:
	case p.log.ringFull:
		p.log.b.Lose(loss.RingOverflow, older, bytes, s.ID())
	default:
		p.log.b.Lose(loss.BeforeWindow, older, bytes, s.ID())
	}
}

// buffer returns the buffer of an event, without a site: that of a free is not the site of the allocation.
func (e *event) buffer(begin int64) lifetime.Buffer {
	return lifetime.Buffer{Begin: begin, Addr: e.addr, Size: e.occupied, Requested: e.size, Edge: inferred(e.inferred)}
}

func inferred(yes bool) lifetime.Edge {
	if yes {
		return lifetime.SizeInferred
	}
	return 0
}

func (p *pairing) begin(b lifetime.Buffer) openBuffer {
	o := openBuffer{p.bufs.N, notRequested}
	p.open[b.Addr] = o
	p.add(b)
	return o
}

func (p *pairing) add(b lifetime.Buffer) {
	p.bufs.Add(b)
	p.freeSites.Add(0)
}

// find returns the open buffer of a free, or a new one that is older than the window.
func (p *pairing) find(e *event) openBuffer {
	if o, ok := p.open[e.addr]; ok {
		return o
	}
	b := e.buffer(p.log.begin)
	b.Edge |= lifetime.BeginUnseen
	p.unseen = append(p.unseen, uint32(p.bufs.N))
	return p.begin(b)
}

// freedBy records the site of a free. Some recording modes repeat the allocation's stack there, others have the stack of the free.
func (p *pairing) freedBy(i int, site lifetime.SiteID) {
	if site == 0 {
		return
	}
	b := p.bufs.At(i)
	if b.Edge&lifetime.BeginUnseen == 0 {
		p.paired++
		if b.Site == site {
			p.repeated++
			return
		}
	}
	*p.freeSites.At(i) = site
}

func (p *pairing) close(o openBuffer, t int64, edge lifetime.Edge) {
	b := p.bufs.At(o.index)
	b.End = t
	b.Edge |= edge
	delete(p.open, b.Addr)
	p.ends = append(p.ends, uint32(o.index))
}

// loseFree ends a buffer whose free was not recorded: when the free was requested, else at t.
func (p *pairing) loseFree(o openBuffer, t int64) {
	if o.requested != notRequested {
		t = o.requested
	}
	b := p.bufs.At(o.index)
	p.replaced.add(b.Size, func() string { return fmt.Sprintf("address %#x", b.Addr) })
	p.close(o, t, lifetime.EndInferred)
}

// at returns an address as the place of a loss.
func (p *pairing) at(addr uint64) string { return fmt.Sprintf("%s: address %#x", p.s.ID(), addr) }

// reconcile compares the open buffers with the end state.
func (p *pairing) reconcile() {
	live := &p.log.live
	ascending := p.liveAscends()
	for i := range live.N {
		live.Release(i) // it may be as large as the model
		p.reconcileLive(live.At(i), ascending)
	}
	p.log.live = chunked.List[Block]{}
	complete := p.s.Facts&lifetime.EndState != 0 && !p.log.cut
	inOrder := func(x, y openBuffer) int { return cmp.Compare(x.index, y.index) }
	for _, o := range slices.SortedFunc(maps.Values(p.open), inOrder) {
		b := p.bufs.At(o.index)
		p.delayed(o)
		switch {
		case b.Edge&lifetime.EndOpen != 0: // confirmed by the end state
		case complete:
			p.contradict(o)
		default:
			b.End, b.Edge = p.s.End, b.Edge|lifetime.EndOpen
			if o.requested != notRequested {
				b.Edge |= lifetime.Pending
			}
		}
	}
	slices.Sort(p.lost)
}

// contradict ends an open buffer that is not in the end state: when its free was requested, else settleEnds finds its end.
func (p *pairing) contradict(o openBuffer) {
	if o.requested == notRequested {
		p.lost = append(p.lost, uint32(o.index))
		return
	}
	b := p.bufs.At(o.index)
	b.End, b.Edge = o.requested, b.Edge|lifetime.EndInferred
	p.ends = append(p.ends, uint32(o.index))
	p.log.b.Lose(loss.LostFree, 1, b.Size, p.at(b.Addr))
}

// liveAscends reports whether the blocks of the end state are in order of address, each once, as allocators list them.
func (p *pairing) liveAscends() bool {
	var last *Block
	for l := range p.log.live.All() {
		if last != nil && last.Addr >= l.Addr {
			return false
		}
		last = l
	}
	return true
}

// reconcileLive compares one block of the end state with the history. once says that no other block has its address, so
// that it need not be looked up again: there may be more blocks than events.
func (p *pairing) reconcileLive(l *Block, once bool) {
	listed := p.buffer(l)
	size := l.Occupied
	o, ok := p.open[l.Addr]
	switch {
	case ok && p.bufs.At(o.index).Edge&lifetime.EndOpen != 0:
		p.log.b.Lose(loss.StateMismatch, 1, size, p.at(l.Addr)+" is listed twice in the end state")
		return
	case ok && p.bufs.At(o.index).Requested == l.Requested:
		b := p.bufs.At(o.index)
		b.End, b.Size = p.s.End, size
		b.Edge = b.Edge&^lifetime.SizeInferred | listed.Edge&^lifetime.BeginUnseen
		if b.Site == 0 {
			b.Site = l.Site
		}
		return
	case p.log.cut:
		p.log.b.Lose(loss.EndStateAfterCut, 1, size, p.at(l.Addr))
		return
	case ok:
		p.log.b.Lose(loss.StateMismatch, 1, size, p.at(l.Addr)+" has another size in the end state")
		p.contradict(o)
	}
	p.unseen = append(p.unseen, uint32(p.bufs.N))
	if once && !ok {
		p.add(listed)
	} else {
		p.begin(listed)
	}
}

// buffer returns a block of the end state as a buffer that is older than the window.
func (p *pairing) buffer(l *Block) lifetime.Buffer {
	edge := inferred(l.Inferred) | lifetime.EndOpen | lifetime.BeginUnseen
	if l.Pending {
		edge |= lifetime.Pending
	}
	return lifetime.Buffer{Begin: p.s.Begin, End: p.s.End, Addr: l.Addr, Size: l.Occupied, Requested: l.Requested,
		Site: l.Site, Edge: edge}
}

// storeLive stores the blocks of the end state, in order of address, as the buffers of a space without a history. It frees them on the way.
func (p *pairing) storeLive() {
	live := &p.log.live
	p.s.Buffers = make([]lifetime.Buffer, live.N)
	for i := range live.N {
		live.Release(i)
		p.s.Buffers[i] = p.buffer(live.At(i))
	}
	p.log.live = chunked.List[Block]{}
	p.nameUnseen()
	p.s.SortEnds(nil)
}

// extent returns the addresses of the requested bytes of b, at least one. Occupied sizes may be inferred, so they prove no overlap.
func extent(b *lifetime.Buffer) (lo, hi uint64) {
	lo, hi = b.Addr, spans.End(b.Addr, max(b.Requested, 1))
	if lo == hi { // at the very top of the address space
		lo--
	}
	return lo, hi
}

// settleEnds ends buffers whose free was lost: where their memory was used again, else before the last instant, which the end state describes.
func (p *pairing) settleEnds() {
	if len(p.lost) == 0 {
		return
	}
	for _, i := range p.lost {
		b := p.bufs.At(int(i))
		b.End, b.Edge = max(p.s.AtEnd(), b.Begin+1), b.Edge|lifetime.EndInferred
		p.ends = append(p.ends, i)
		p.log.b.Lose(loss.LostFree, 1, b.Size, p.at(b.Addr))
	}
	isLost := map[uint32]bool{}
	for _, i := range p.lost {
		isLost[i] = true
	}
	// Going back in time, used has the begin of the next buffer at each address.
	var used spans.Map[int64]
	for _, i := range p.near(p.lost, func(x, y *lifetime.Buffer) int { return cmp.Compare(y.Begin, x.Begin) }) {
		b := p.bufs.At(int(i))
		lo, hi := extent(b)
		if isLost[i] {
			for sp := range used.Overlapping(lo, hi) {
				if sp.Val > b.Begin {
					b.End = min(b.End, sp.Val)
				}
			}
		}
		used.Set(lo, hi, b.Begin)
	}
}

// settleBegins moves the begin of buffers without a recorded allocation to the end of the
// last buffer at their addresses. Most have none, so they are older than the window.
func (p *pairing) settleBegins() {
	if len(p.unseen) == 0 || len(p.ends) == 0 { // none ended, so none can be in the way
		return
	}
	end := func(b *lifetime.Buffer) int64 {
		if b.Edge&lifetime.EndOpen != 0 {
			return math.MaxInt64
		}
		return b.End
	}
	// In order of End, used has the end of the last buffer at each address. At equal
	// ends, moved buffers come first, so that no other hides the one before it.
	var used spans.Map[int64]
	for _, i := range p.near(p.unseen, func(x, y *lifetime.Buffer) int {
		return cmp.Or(cmp.Compare(end(x), end(y)), cmp.Compare(y.Edge&lifetime.BeginUnseen, x.Edge&lifetime.BeginUnseen))
	}) {
		b := p.bufs.At(int(i))
		lo, hi := extent(b)
		if b.Edge&lifetime.BeginUnseen != 0 {
			for sp := range used.Overlapping(lo, hi) {
				if sp.Val < end(b) {
					b.Begin = max(b.Begin, sp.Val)
				}
			}
		}
		if b.Edge&lifetime.EndOpen == 0 {
			used.Set(lo, hi, b.End)
		}
	}
}

// near returns the buffers that share addresses with any of the given ones, in order.
func (p *pairing) near(given []uint32, order func(x, y *lifetime.Buffer) int) []uint32 {
	var union spans.Map[bool]
	for _, i := range given {
		lo, hi := extent(p.bufs.At(int(i)))
		union.Set(lo, hi, true)
	}
	var near []uint32
	i := uint32(0)
	for b := range p.bufs.All() {
		if union.Overlaps(extent(b)) {
			near = append(near, i)
		}
		i++
	}
	slices.SortStableFunc(near, func(x, y uint32) int { return order(p.bufs.At(int(x)), p.bufs.At(int(y))) })
	return near
}

// store stores the buffers in the space, in order of Begin. It drops those that end before they begin.
func (p *pairing) store() {
	s := p.s
	s.Buffers = make([]lifetime.Buffer, 0, p.bufs.N)
	newIndex := make([]uint32, p.bufs.N) // by old index
	for i, b := range p.byBegin() {
		if b.End <= b.Begin {
			p.log.b.Lose(loss.Overlap, 1, b.Size, p.at(b.Addr))
			newIndex[i] = dropped
			continue
		}
		newIndex[i] = uint32(len(s.Buffers))
		s.Buffers = append(s.Buffers, *b)
	}
	p.bufs = chunked.List[lifetime.Buffer]{} // free it: it is as large as s.Buffers
	ends := p.ends[:0]
	for _, i := range p.ends {
		if newIndex[i] != dropped {
			ends = append(ends, newIndex[i])
		}
	}
	p.storeColumns(newIndex)
	s.SortEnds(ends)
}

// dropped is the new index of a buffer that is not in the model.
const dropped = math.MaxUint32

// byBegin yields the buffers and their indexes in order of Begin, then of address. It frees them on the way, so that a long history is not in memory
// twice. Only the unseen ones, whose end came first, were added in another order: it sorts their indexes.
func (p *pairing) byBegin() iter.Seq2[int, *lifetime.Buffer] {
	order := func(x, y *lifetime.Buffer) int {
		return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr))
	}
	unseen := slices.Clone(p.unseen)
	byOrder := func(x, y uint32) int { return order(p.bufs.At(int(x)), p.bufs.At(int(y))) }
	if !slices.IsSortedFunc(unseen, byOrder) {
		slices.SortStableFunc(unseen, byOrder)
	}
	first := slices.Clone(unseen) // the lowest index of the unseen from here on, until which buffers cannot be freed
	for k := len(first) - 2; k >= 0; k-- {
		first[k] = min(first[k], first[k+1])
	}
	added := p.unseen // in order of index
	return func(yield func(int, *lifetime.Buffer) bool) {
		k := 0
		for i := range p.bufs.N {
			if k < len(first) {
				p.bufs.Release(min(i, int(first[k])))
			} else {
				p.bufs.Release(i)
			}
			if len(added) > 0 && int(added[0]) == i {
				added = added[1:]
				continue
			}
			b := p.bufs.At(i)
			for ; k < len(unseen) && order(p.bufs.At(int(unseen[k])), b) <= 0; k++ {
				if !yield(int(unseen[k]), p.bufs.At(int(unseen[k]))) {
					return
				}
			}
			if !yield(i, b) {
				return
			}
		}
		for ; k < len(unseen); k++ {
			p.bufs.Release(int(first[k]))
			if !yield(int(unseen[k]), p.bufs.At(int(unseen[k]))) {
				return
			}
		}
	}
}

func storeIntervals(s *lifetime.Space, all []Interval, overlaps bool) {
	if s.Axis == lifetime.ProgramOrder && s.Facts&lifetime.Addresses != 0 && !overlaps {
		all = handOver(all)
	}
	slices.SortStableFunc(all, func(x, y Interval) int {
		return cmp.Or(cmp.Compare(x.Begin, y.Begin), cmp.Compare(x.Addr, y.Addr))
	})
	s.Buffers = make([]lifetime.Buffer, 0, len(all))
	for i := range all {
		v := &all[i]
		s.Buffers = append(s.Buffers, v.Buffer)
		if v.FreeSite != 0 {
			column(&s.FreeSites, len(all))[i] = v.FreeSite
		}
		if v.Note != 0 {
			column(&s.BufNotes, len(all))[i] = v.Note
		}
		if v.Holder != 0 {
			column(&s.Holders, len(all))[i] = v.Holder
		}
		if v.ValueID != nil {
			column(&s.ValueIDs, len(all))[i] = *v.ValueID
		}
	}
	for i := range all {
		if t := all[i].FreeRequest; t != nil {
			freeRequests(s)[i] = *t
		}
	}
	s.SortEnds(nil)
}

// column returns an optional column. The first call allocates it.
func column[T any](c *[]T, n int) []T {
	if *c == nil {
		*c = make([]T, n)
	}
	return *c
}

func (p *pairing) storeColumns(newIndex []uint32) {
	s := p.s
	i := -1
	for site := range p.freeSites.All() {
		i++
		if *site == 0 || newIndex[i] == dropped {
			continue
		}
		b := &s.Buffers[newIndex[i]]
		if p.repeated > 0 && p.repeated == p.paired && b.Site == 0 && b.Edge&lifetime.BeginUnseen != 0 {
			b.Site = *site
			b.Edge |= lifetime.SiteFromFree
			continue
		}
		column(&s.FreeSites, len(s.Buffers))[newIndex[i]] = *site
	}
	p.nameUnseen()
	p.storeFreeRequests(newIndex)
	for _, i := range slices.Sorted(maps.Keys(p.notes)) {
		if newIndex[i] == dropped {
			continue
		}
		if text := p.text(p.notes[i]); text != 0 {
			column(&s.BufNotes, len(s.Buffers))[newIndex[i]] = text
		}
	}
}

// nameUnseen gives the buffers from before the window, whose allocation was not recorded, the site of their free.
func (p *pairing) nameUnseen() {
	s := p.s
	if !p.log.freesName || p.log.noHistory {
		return
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen == 0 || b.Site != 0 {
			continue
		}
		site := lifetime.Site{Unseen: true}
		if s.FreeSites != nil {
			site.Stack = p.log.b.capture.Sites[s.FreeSites[i]].Stack
		}
		b.Site = p.log.b.Site(site)
	}
}

// storeFreeRequests fills the column of requests, if any free was delayed.
func (p *pairing) storeFreeRequests(newIndex []uint32) {
	s := p.s
	for i, t := range p.late {
		if newIndex[i] == dropped || t >= s.Buffers[newIndex[i]].End {
			continue
		}
		freeRequests(s)[newIndex[i]] = max(t, s.Buffers[newIndex[i]].Begin)
	}
}

// freeRequests returns the column FreeRequests. The first call allocates it.
func freeRequests(s *lifetime.Space) []int64 {
	if s.FreeRequests == nil {
		for i := range s.Buffers {
			s.FreeRequests = append(s.FreeRequests, s.Buffers[i].End)
		}
	}
	return s.FreeRequests
}

// notePair is the first and the last note of a buffer.
type notePair struct{ first, last lifetime.NoteID }

// maxNote limits the length of a joined note in bytes.
const maxNote = 1000

// text returns both notes joined. The first usually describes what the program was doing, the last what the buffer is.
func (p *pairing) text(n notePair) lifetime.NoteID {
	notes := p.log.b.capture.Notes
	if first, last := notes[n.first], notes[n.last]; n.first != n.last && len(first)+len(last) <= maxNote {
		return p.log.b.Note(first + "; " + last)
	}
	return n.last
}

// held is what holds the memory at an address at the end.
type held struct {
	addr   uint64
	holder lifetime.HolderID
}

// storeHolders fills the column of holders. A tensor may begin inside a buffer. Of several at one buffer, the first counts.
func (log *spaceLog) storeHolders(s *lifetime.Space) {
	if len(log.held) == 0 {
		return
	}
	var open []uint32 // buffers that are alive at the end, by address
	for i := range s.Buffers {
		if s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			open = append(open, uint32(i))
		}
	}
	slices.SortFunc(open, func(x, y uint32) int { return cmp.Compare(s.Buffers[x].Addr, s.Buffers[y].Addr) })
	for _, h := range log.held {
		at, found := slices.BinarySearchFunc(open, h.addr,
			func(i uint32, addr uint64) int { return cmp.Compare(s.Buffers[i].Addr, addr) })
		if !found {
			at--
		}
		if at < 0 || h.addr >= spans.End(s.Buffers[open[at]].Addr, max(s.Buffers[open[at]].Size, 1)) {
			log.b.Lose(loss.NameWithoutBuffer, 1, 0, fmt.Sprintf("address %#x", h.addr))
			continue
		}
		if to := &column(&s.Holders, len(s.Buffers))[open[at]]; *to == 0 {
			*to = h.holder
		}
	}
}

// coverage is a set of addresses. Every buffer that ends adds to it, but queries are rare. So ranges are collected, and
// sorted only for a query or when there are many. recent filters the ranges of blocks that are reused again and again.
type coverage struct {
	merged []addresses             // sorted, with gaps between them
	fresh  chunked.List[addresses] // not sorted
	recent [1 << recentBits]addresses
}

// addresses are a range [lo, hi).
type addresses struct{ lo, hi uint64 }

const (
	recentBits = 10
	maxFresh   = 1 << 20 // 16 MiB
	// maxLinear limits the unsorted ranges that a query searches.
	maxLinear = 1 << 10
)

func (c *coverage) add(lo, hi uint64) {
	const prime = 0x9E3779B97F4A7C15
	recent := &c.recent[lo*prime>>(64-recentBits)]
	if lo >= hi || recent.lo <= lo && hi <= recent.hi {
		return
	}
	*recent = addresses{lo, hi}
	if c.fresh.Add(*recent); c.fresh.N >= max(maxFresh, len(c.merged)/4) {
		c.merge()
	}
}

// merge sorts and joins all ranges.
func (c *coverage) merge() {
	for a := range c.fresh.All() {
		c.merged = append(c.merged, *a)
	}
	c.fresh = chunked.List[addresses]{}
	slices.SortFunc(c.merged, func(x, y addresses) int { return cmp.Compare(x.lo, y.lo) })
	all := c.merged
	c.merged = c.merged[:0]
	for _, a := range all {
		if k := len(c.merged) - 1; k >= 0 && a.lo <= c.merged[k].hi {
			c.merged[k].hi = max(c.merged[k].hi, a.hi)
		} else {
			c.merged = append(c.merged, a)
		}
	}
}

// overlaps reports whether any address of [lo, hi) is in the set.
func (c *coverage) overlaps(lo, hi uint64) bool {
	if c.fresh.N > max(maxLinear, len(c.merged)/4) {
		c.merge()
	}
	after := sort.Search(len(c.merged), func(i int) bool { return c.merged[i].hi > lo })
	overlap := func(a addresses) bool { return a.lo < hi && lo < a.hi && lo < hi }
	if after < len(c.merged) && overlap(c.merged[after]) {
		return true
	}
	for a := range c.fresh.All() {
		if overlap(*a) {
			return true
		}
	}
	return false
}

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

// close ends pieces of regions at t and returns them. A partly released region is split into regions with the same Begin.
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

// fillUnseen adds regions for the parts of [lo, hi) without an open region. They begin before the window, or where the last region there ended.
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
