package replay

import (
	"math/bits"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
)

// naive is a second allocator, written from PyTorch's rules with plain lists and full
// searches. It records what it does as a snapshot would.
type naive struct {
	s        Settings
	b        *build.Builder
	space    build.SpaceRef
	t        int64
	on       bool // the recording has begun
	capacity int64
	segments []*area
	next     uint64
	events   int

	scatters  bool  // the order of addresses is not that of the segments
	scattered uint8 // segments so far
}

// area is a segment, or an expandable range, divided into cells.
type area struct {
	addr       uint64
	stream     int64
	small      bool
	expandable bool
	cells      []cell
}

const (
	cellFree = iota
	cellUsed
	cellUnmapped
)

type cell struct {
	addr      uint64
	size      int64
	kind      int
	requested int64
}

func (n *naive) record(fact func(t int64)) {
	n.t++
	if n.on {
		n.events++
		fact(n.t)
	}
}

func (a *area) region(c *cell) lifetime.Region {
	r := lifetime.Region{Addr: c.addr, Size: c.size, Stream: a.stream, Small: a.small, Kind: "large"}
	if a.expandable {
		r.Kind = lifetime.Expandable
	} else if a.small {
		r.Kind = "small"
	}
	return r
}

func (n *naive) reserved() (sum int64) {
	for _, a := range n.segments {
		for _, c := range a.cells {
			if c.kind != cellUnmapped {
				sum += c.size
			}
		}
	}
	return sum
}

// alloc returns the address of a new block; ok is false if the device is full.
func (n *naive) alloc(requested, stream int64) (addr uint64, ok bool) {
	size := n.s.size(requested)
	small := size <= 1<<20
	a, i := n.find(size, stream, small)
	if a == nil {
		if a, i = n.grow(size, stream, small); a == nil {
			n.emptyCache()
			if a, i = n.grow(size, stream, small); a == nil {
				oom := lifetime.Mark{Kind: lifetime.OOM, Requested: requested, Free: failure.BytesOf(n.capacity - n.reserved()), Stream: stream}
				n.record(func(t int64) { oom.Begin, oom.End = t, t; n.b.Mark(n.space, oom) })
				return 0, false
			}
		}
	}
	c := &a.cells[i]
	rest := c.size - size
	if (small || n.s.Expandable) && rest >= 512 || !small && !n.s.Expandable && size < n.s.MaxSplit && rest > 1<<20 {
		a.cells = append(a.cells[:i+1], append([]cell{{addr: c.addr + uint64(size), size: rest}}, a.cells[i+1:]...)...)
		c = &a.cells[i]
		c.size = size
	}
	c.kind, c.requested = cellUsed, requested
	addr = c.addr
	n.record(func(t int64) {
		n.b.Alloc(n.space, t, build.Block{Addr: addr, Requested: requested, Occupied: max(512, (requested+511)/512*512), Inferred: true})
	})
	return addr, true
}

// find returns the free cell that fits best: the smallest, then the lowest. Of expandable
// ranges, it goes on to larger cells as long as they can grow less.
func (n *naive) find(size, stream int64, small bool) (best *area, at int) {
	grows := func(a *area, i int) int64 {
		sum := a.cells[i].size
		if i+1 < len(a.cells) && a.cells[i+1].kind == cellUnmapped {
			sum += a.cells[i+1].size
		}
		return sum
	}
	above := cell{size: size - 1}
	for {
		var next *area
		j := 0
		for _, a := range n.segments {
			for i, c := range a.cells {
				beyond := c.size > above.size || c.size == above.size && c.addr > above.addr
				if a.stream != stream || a.small != small || c.kind != cellFree || !beyond || best == nil && c.size < size {
					continue
				}
				if next == nil || c.size < next.cells[j].size || c.size == next.cells[j].size && c.addr < next.cells[j].addr {
					next, j = a, i
				}
			}
		}
		if next == nil || best != nil && grows(next, j) >= grows(best, at) {
			break
		}
		best, at = next, j
		above = best.cells[at]
		if !n.s.Expandable {
			break
		}
	}
	if best == nil {
		return nil, 0
	}
	have := best.cells[at].size
	if size < n.s.MaxSplit && have >= n.s.MaxSplit || size >= n.s.MaxSplit && have >= size+n.s.NonSplit {
		return nil, 0
	}
	return best, at
}

// grow takes memory from the device; nil if it is full.
func (n *naive) grow(size, stream int64, small bool) (*area, int) {
	segment := (size + 2<<20 - 1) / (2 << 20) * (2 << 20)
	switch {
	case small:
		segment = 2 << 20
	case size < 10<<20:
		segment = n.s.Segment
	}
	if n.s.Expandable {
		return n.extend(size, stream, small)
	}
	if n.reserved()+segment > n.capacity {
		return nil, 0
	}
	addr := n.next
	if n.scatters { // drivers put segments above and below others
		addr = 0x100000000000 + uint64(bits.Reverse8(n.scattered))<<32
		n.scattered++
	}
	a := &area{addr: addr, stream: stream, small: small, cells: []cell{{addr: addr, size: segment}}}
	n.next += uint64(segment) + 4<<20 // never adjacent, never reused
	n.segments = append(n.segments, a)
	region := a.region(&a.cells[0])
	n.record(func(t int64) { n.b.Reserve(n.space, t, region) })
	return a, 0
}

// extend maps pages of an expandable range at the lowest place with room.
func (n *naive) extend(size, stream int64, small bool) (*area, int) {
	const whole = 1 << 38
	page := n.s.Segment
	if small {
		page = 2 << 20
	}
	var a *area
	first := -1
	for _, r := range n.segments {
		if r.stream != stream || r.small != small {
			continue
		}
		for i := range r.cells {
			run, has := int64(0), false
			for k := i; k < len(r.cells) && r.cells[k].kind != cellUsed && run < size; k++ {
				run += r.cells[k].size
				has = has || r.cells[k].kind == cellUnmapped
			}
			if run >= size && has && a == nil {
				a, first = r, i
			}
		}
	}
	if a == nil {
		a, first = &area{addr: n.next, stream: stream, small: small, expandable: true, cells: []cell{{addr: n.next, size: whole / page * page, kind: cellUnmapped}}}, 0
		n.next += whole + 1<<30
		n.segments = append(n.segments, a)
	}
	for a.cells[first].kind == cellUnmapped || a.cells[first].size < size {
		i, want := first, size
		if a.cells[i].kind != cellUnmapped {
			want -= a.cells[i].size
			i++
		}
		mapped := min((min(want, a.cells[i].size)+page-1)/page*page, a.cells[i].size)
		if n.reserved()+mapped > n.capacity {
			return nil, 0
		}
		c := a.cells[i]
		region := a.region(&cell{addr: c.addr, size: mapped})
		n.record(func(t int64) { n.b.Reserve(n.space, t, region) })
		a.cells[i] = cell{addr: c.addr, size: mapped}
		if c.size > mapped {
			left := cell{addr: c.addr + uint64(mapped), size: c.size - mapped, kind: cellUnmapped}
			a.cells = append(a.cells[:i+1], append([]cell{left}, a.cells[i+1:]...)...)
		}
		a.join()
	}
	return a, first
}

// join merges neighbouring cells of the same kind that are not in use.
func (a *area) join() {
	joined := a.cells[:1]
	for _, c := range a.cells[1:] {
		if last := &joined[len(joined)-1]; c.kind != cellUsed && last.kind == c.kind {
			last.size += c.size
			continue
		}
		joined = append(joined, c)
	}
	a.cells = joined
}

// free frees the block at an address.
func (n *naive) free(addr uint64) {
	for _, a := range n.segments {
		for i := range a.cells {
			if c := &a.cells[i]; c.addr == addr && c.kind == cellUsed {
				block := build.Block{Addr: addr, Requested: c.requested, Occupied: max(512, (c.requested+511)/512*512), Inferred: true}
				n.record(func(t int64) { n.b.FreeRequested(n.space, t, block) })
				n.record(func(t int64) { n.b.Free(n.space, t, block) })
				c.kind = cellFree
				a.join()
				return
			}
		}
	}
}

// emptyCache returns everything that is free to the device.
func (n *naive) emptyCache() {
	kept := n.segments[:0]
	for _, a := range n.segments {
		if a.expandable {
			n.unmap(a)
		}
		if len(a.cells) > 1 || a.cells[0].kind == cellUsed {
			kept = append(kept, a)
		} else if !a.expandable {
			region := a.region(&a.cells[0])
			n.record(func(t int64) { n.b.Release(n.space, t, region) })
		}
	}
	n.segments = kept
}

// unmap returns the whole pages of the free cells of a range.
func (n *naive) unmap(a *area) {
	page := n.s.Segment
	if a.small {
		page = 2 << 20
	}
	var cells []cell
	for _, c := range a.cells {
		lo := (int64(c.addr-a.addr) + page - 1) / page * page
		hi := (int64(c.addr-a.addr) + c.size) / page * page
		if c.kind != cellFree || lo >= hi {
			cells = append(cells, c)
			continue
		}
		parts := []cell{{addr: c.addr, size: lo - int64(c.addr-a.addr)}, {addr: a.addr + uint64(lo), size: hi - lo, kind: cellUnmapped},
			{addr: a.addr + uint64(hi), size: int64(c.addr-a.addr) + c.size - hi}}
		for _, part := range parts {
			if part.size > 0 {
				cells = append(cells, part)
			}
		}
		region := a.region(&parts[1])
		n.record(func(t int64) { n.b.Release(n.space, t, region) })
	}
	a.cells = cells
	a.join()
}

// snapshot adds the end state.
func (n *naive) snapshot() {
	for _, a := range n.segments {
		for i := 0; i < len(a.cells); {
			if a.cells[i].kind == cellUnmapped {
				i++
				continue
			}
			run := cell{addr: a.cells[i].addr}
			for ; i < len(a.cells) && a.cells[i].kind != cellUnmapped; i++ {
				c := a.cells[i]
				run.size += c.size
				if c.kind == cellUsed {
					n.b.Live(n.space, build.Block{Addr: c.addr, Requested: c.requested, Occupied: c.size})
				}
			}
			n.b.LiveRegion(n.space, a.region(&run))
		}
	}
}

// drawSettings draws settings of an allocator.
func drawSettings(t *rapid.T) Settings {
	s := Default()
	s.Expandable = rapid.Bool().Draw(t, "expandable")
	s.Segment = rapid.SampledFrom([]int64{20, 20, 12, 64}).Draw(t, "segment") * mib
	s.NonSplit = s.Segment
	if !s.Expandable && rapid.Bool().Draw(t, "limited") {
		s.MaxSplit = rapid.Int64Range(s.Segment/mib+1, 80).Draw(t, "max split") * mib
		s.NonSplit = rapid.Int64Range(2, 40).Draw(t, "non-split") * mib
	}
	if rapid.Bool().Draw(t, "rounds") {
		for i := range s.Roundup {
			s.Roundup[i] = rapid.SampledFrom([]int64{0, 1, 2, 4, 8, 64}).Draw(t, "divisions")
		}
	}
	return s
}

// drawSize draws a request. Multiples make equal sizes likely.
func drawSize(t *rapid.T) int64 {
	unit := rapid.SampledFrom([]int64{1, 512, 100_000, 300 << 10, mib, 3 * mib}).Draw(t, "unit")
	return unit * rapid.Int64Range(1, 30).Draw(t, "units")
}

// TestAnyProgram: what another allocator with the same rules records holds to the law,
// under any settings. From the start, every address and segment is predicted, and the
// replay without a recording reserves as much.
func TestAnyProgram(t *testing.T) { rapid.Check(t, anyProgram) }

func TestMain(m *testing.M) {
	deep.FixDraws(3000) // 100 programs are too few to meet every rule
	os.Exit(m.Run())
}

func anyProgram(t *rapid.T) {
	n := &naive{s: drawSettings(t), b: build.New(build.Everything), next: 0x7f0000000000, capacity: 1 << 50}
	n.scatters = rapid.Bool().Draw(t, "scatters")
	if rapid.IntRange(0, 2).Draw(t, "bounded") == 0 && n.s.MaxSplit == unlimited {
		n.capacity = rapid.Int64Range(40, 200).Draw(t, "capacity") * mib
	}
	begin := max(0, rapid.IntRange(-20, 20).Draw(t, "begin"))
	n.b.Source(lifetime.Source{})
	n.space = n.b.Space()
	n.b.InOrder(n.space)
	n.b.Describe(n.space, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
	var live []uint64
	peak, died := int64(0), false
	for i := range rapid.IntRange(1, 80).Draw(t, "actions") {
		n.on = i >= begin
		switch action := rapid.IntRange(0, 20).Draw(t, "action"); {
		case action == 0:
			if n.capacity == 1<<50 { // if memory is short, a release may be to make room: the recording does not tell
				n.emptyCache()
			}
		case action <= 8 && len(live) > 0:
			at := rapid.IntRange(0, len(live)-1).Draw(t, "which")
			n.free(live[at])
			live = append(live[:at], live[at+1:]...)
		default:
			addr, ok := n.alloc(drawSize(t), int64(rapid.IntRange(0, 1).Draw(t, "stream")))
			if ok {
				live = append(live, addr)
			}
			died = died || !ok
		}
		peak = max(peak, n.reserved())
	}
	n.snapshot()
	c, err := n.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	h := Of(c.Spaces[0], nil)
	if h == nil {
		return // nothing was recorded
	}
	h.Settings = n.s
	startsAsRecorded(t, h)
	law := h.Verify()
	if begin == 0 && (law.Equal != law.Addresses || law.SegmentsEqual != law.Segments) {
		t.Fatalf("%q: %+v", n.s, law)
	}
	if begin > 0 && !n.s.Expandable && law.Unknown == 0 && law.Rate() < 1 {
		t.Fatalf("%q, from the middle: %+v", n.s, law)
	}
	if o := h.Run(n.s, Device{Capacity: n.capacity}); begin == 0 && o.Exact && (o.OOM != died || !died && o.PeakReserved != peak) {
		t.Fatalf("%q: %+v, want %d", n.s, o, peak)
	}
}

// startsAsRecorded: a replay begins with every block in use at its address, and with the reserved memory where it was.
func startsAsRecorded(t *rapid.T, h *History) {
	s, at := startOf(h), make([]int32, len(h.requests))
	a := newAllocator(h.Settings, &recorded{law: &Law{}}, 0)
	s.seed(a, at)
	for _, r := range s.live {
		if b := a.blocks[at[r]]; !b.used || b.addr != h.requests[r].addr {
			t.Fatalf("%q: the block at %#x starts as %+v", h.Settings, h.requests[r].addr, b)
		}
	}
	want := int64(0)
	for _, i := range s.segments {
		in, have := &h.segments[i], int64(0)
		for _, b := range a.blocks {
			if (b.mapped || !b.expandable) && b.addr >= in.addr && b.addr < in.end() {
				have += b.size
			}
		}
		if want += in.size; have != in.size {
			t.Fatalf("%q: %d of %d bytes at %#x are reserved at the start", h.Settings, have, in.size, in.addr)
		}
	}
	if a.reserved != want {
		t.Fatalf("%q: %d bytes are reserved at the start, want %d", h.Settings, a.reserved, want)
	}
}

// TestRecordedAddresses: the recorded addresses decide which of two equal free blocks is taken, and so the peak.
func TestRecordedAddresses(t *testing.T) {
	n := &naive{s: Default(), b: build.New(build.Everything), capacity: 1 << 50, on: true, scatters: true}
	n.b.Source(lifetime.Source{})
	n.space = n.b.Space()
	n.b.InOrder(n.space)
	n.b.Describe(n.space, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
	get := func(size int64) uint64 {
		addr, ok := n.alloc(size*mib, 0)
		if !ok {
			t.Fatal("the device is full")
		}
		return addr
	}
	get(30)
	first := []uint64{get(6), get(6), get(6)}
	second := []uint64{get(6), get(6), get(6)} // in a segment below
	n.free(first[0])
	n.free(second[0])
	if addr := get(6); addr != second[0] {
		t.Fatalf("taken at %#x instead of %#x", addr, second[0])
	}
	n.free(first[1])
	n.free(first[2])
	get(20) // takes the first segment, if the request before did not
	n.snapshot()
	c, err := n.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	h := Of(c.Spaces[0], nil)
	if o := h.RunBoth(n.s, Device{}); o.PeakReserved != n.reserved() || n.reserved() != 70*mib || !o.Exact {
		t.Errorf("%+v, want %d", o, n.reserved())
	}
	h.addresses = nil
	if other := h.Run(n.s, Device{}); other.PeakReserved == n.reserved() {
		t.Errorf("the order of addresses makes no difference: %+v", other)
	}
}
