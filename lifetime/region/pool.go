package region

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/internal/spans"
)

// PoolID names the memory of one pool and stream. No other pool or stream can use it.
type PoolID struct {
	Pool     string // Region.Pool
	Stream   int64  // Region.Stream
	Unknown  bool   // the pool was not recorded
	NoRegion bool   // outside of all regions: neither is known
}

// PoolOf returns the pool and the stream of r.
func PoolOf(r *lifetime.Region) PoolID {
	return PoolID{Pool: r.Pool, Stream: r.Stream, Unknown: r.Edge&lifetime.PoolUnknown != 0}
}

// graphPool matches the pools that PyTorch makes for captures of CUDA graphs: they number the first part. Pools of
// torch.cuda.MemPool and torch.cuda.graph_pool_handle, which torch.compile uses too, number the second part
// (graph_pool_handle and capture_begin in aten/src/ATen/cuda/CUDAGraph.cpp, MemPool::graph_pool_handle).
var graphPool = regexp.MustCompile(`^[1-9][0-9]*,0$`)

// PoolName returns the name of the pool for people: "default pool", "graph pool (1,0)", "private pool (0,1)".
func (p PoolID) PoolName() string {
	id := "(" + strings.Trim(p.Pool, "()") + ")"
	switch {
	case p.NoRegion || p.Unknown:
		return "pool not recorded"
	case p.Pool == "":
		return "default pool"
	case graphPool.MatchString(p.Pool):
		return "graph pool " + id
	}
	return "private pool " + id
}

// StreamName returns the name of the stream for people: "default stream", "stream 1".
func (p PoolID) StreamName() string {
	switch {
	case p.NoRegion:
		return "stream not recorded"
	case p.Stream == 0:
		return "default stream"
	}
	return fmt.Sprintf("stream %d", p.Stream)
}

// String returns both names; the default stream is left out.
func (p PoolID) String() string {
	if p.NoRegion || p.Stream == 0 {
		return p.PoolName()
	}
	return p.PoolName() + ", " + p.StreamName()
}

// PoolsOfBuffers returns a function that returns the pool and the stream of a buffer, given as an index into Buffers.
// It costs one OfBuffers.
func PoolsOfBuffers(s *lifetime.Space) func(buffer int) PoolID {
	of := OfBuffers(s)
	return func(buffer int) PoolID { return poolOf(s, of[buffer]) }
}

// StreamsOfBuffers returns a function that returns the stream of a buffer, given as an index into Buffers; 0 if it is not known.
func StreamsOfBuffers(s *lifetime.Space) func(buffer int) int64 {
	if !slices.ContainsFunc(s.Regions, func(r lifetime.Region) bool { return r.Stream != s.Regions[0].Stream }) {
		return func(int) int64 { return 0 }
	}
	pools := PoolsOfBuffers(s)
	return func(buffer int) int64 { return pools(buffer).Stream }
}

func poolOf(s *lifetime.Space, region int32) PoolID {
	if region == None {
		return PoolID{NoRegion: true}
	}
	return PoolOf(&s.Regions[region])
}

// PoolUse is the memory of a pool and stream at one instant, in bytes.
type PoolUse struct {
	PoolID
	Live     int64 // occupied by buffers
	Reserved int64
	Free     Holes // what it strands: only its own buffers can use it
	Empty    int64 // of it, in regions without a buffer
}

// PoolsAt returns the pools and streams that have memory at t, by stream and pool. Reserved is the sum of the
// regions, Live that of the buffers.
func PoolsAt(s *lifetime.Space, t int64) []PoolUse {
	var all []PoolUse
	index := map[PoolID]int{}
	use := func(id PoolID) *PoolUse { return keyed.At(index, &all, id, PoolUse{PoolID: id}) }
	for i := range s.Regions {
		if r := &s.Regions[i]; aliveAt(r, t) {
			u := use(PoolOf(r))
			u.Reserved = units.AddSat(u.Reserved, r.Size)
		}
	}
	open := regionsAt(s, t)
	var u *PoolUse // of the last buffer: most are in the region of the one before
	var last int32
	for _, b := range s.Live(t) {
		if at := regionAt(&open, b.Addr); u == nil || at != last {
			last, u = at, use(poolOf(s, at))
		}
		u.Live = units.AddSat(u.Live, b.Size)
	}
	for _, h := range holesAt(s, t) {
		r := &s.Regions[h.Val]
		u := use(PoolOf(r))
		u.Free.add(h)
		if h.Lo == r.Addr && h.Size() >= r.Size {
			u.Empty = units.AddSat(u.Empty, h.Size())
		}
	}
	slices.SortFunc(all, func(x, y PoolUse) int { return x.Compare(y.PoolID) })
	return all
}

// Compare orders pools: the default pool and stream come first, what is not recorded last.
func (p PoolID) Compare(q PoolID) int {
	last := func(p PoolID) int {
		switch {
		case p.NoRegion:
			return 2
		case p.Unknown:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(p), last(q)), cmp.Compare(p.Pool, q.Pool), cmp.Compare(p.Stream, q.Stream))
}

// aliveAt reports whether r is reserved at t, an instant of the window.
func aliveAt(r *lifetime.Region, t int64) bool {
	return r.Begin <= t && (r.End > t || r.Edge&lifetime.EndOpen != 0) && r.Uses&compiled.ForThreadLocal == 0
}

func regionsAt(s *lifetime.Space, t int64) (open spans.Map[int32]) {
	for i := range s.Regions {
		if r := &s.Regions[i]; aliveAt(r, t) {
			open.Set(r.Addr, spans.End(r.Addr, r.Size), int32(i))
		}
	}
	return open
}

// regionAt returns the region at an address, or None.
func regionAt(open *spans.Map[int32], addr uint64) int32 {
	for sp := range open.Overlapping(addr, spans.End(addr, 1)) {
		return sp.Val
	}
	return None
}

// None stands for the region of a buffer that lies in none.
const None = -1

// OfBuffers returns for each buffer the index of the region in which it begins, or NoRegion. A buffer has the stream
// and the pool of its region: PyTorch's allocator divides a segment among buffers of one stream and pool only. A buffer
// that is older than the window is found at its end, because the region may be known only from there. It takes O((b +
// r) log r) for b buffers and r regions.
func OfBuffers(s *lifetime.Space) []int32 {
	regionOf := make([]int32, len(s.Buffers))
	reserved := regionCursor{s: s, ends: regionEnds(s)}
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		switch {
		case c.Begin:
			reserved.next(c.T)
			regionOf[c.Buffer] = regionAt(&reserved.open, b.Addr)
		case b.Edge&lifetime.BeginUnseen != 0:
			reserved.next(c.T - 1)
			regionOf[c.Buffer] = regionAt(&reserved.open, b.Addr)
		}
	}
	reserved.next(s.AtEnd())
	for i := range s.Buffers {
		if b := &s.Buffers[i]; b.Edge&(lifetime.BeginUnseen|lifetime.EndOpen) == lifetime.BeginUnseen|lifetime.EndOpen {
			regionOf[i] = regionAt(&reserved.open, b.Addr)
		}
	}
	return regionOf
}

// regionEnds returns the indexes of the regions that ended in the window, in order of End.
func regionEnds(s *lifetime.Space) []int32 {
	var ends []int32
	for i := range s.Regions {
		if s.Regions[i].Edge&lifetime.EndOpen == 0 {
			ends = append(ends, int32(i))
		}
	}
	slices.SortStableFunc(ends, func(x, y int32) int { return cmp.Compare(s.Regions[x].End, s.Regions[y].End) })
	return ends
}

// regionCursor has the regions of an instant. It only moves forward.
type regionCursor struct {
	s     *lifetime.Space
	begun int     // regions that began so far
	ends  []int32 // of regions that end later
	open  spans.Map[int32]
}

func (c *regionCursor) next(t int64) {
	for {
		begin, end := int64(math.MaxInt64), int64(math.MaxInt64)
		if c.begun < len(c.s.Regions) {
			begin = c.s.Regions[c.begun].Begin
		}
		if len(c.ends) > 0 {
			end = c.s.Regions[c.ends[0]].End
		}
		if min(begin, end) > t {
			return
		}
		if end <= begin {
			c.remove(c.ends[0])
			c.ends = c.ends[1:]
			continue
		}
		r := &c.s.Regions[c.begun]
		c.open.Set(r.Addr, spans.End(r.Addr, r.Size), int32(c.begun))
		c.begun++
	}
}

// remove ends a region. Where another one replaced it, that one stays.
func (c *regionCursor) remove(i int32) {
	r := &c.s.Regions[i]
	for _, part := range c.open.Cut(r.Addr, spans.End(r.Addr, r.Size)) {
		if part.Val != i {
			c.open.Set(part.Lo, part.Hi, part.Val)
		}
	}
}

// Holes is unused reserved memory, in bytes.
type Holes struct {
	Total   int64
	Largest int64  // the largest hole
	At      uint64 // its address
}

// Fragmentation returns the share of the free reserved bytes outside the largest hole,
// 0 to 1: (free - largest) / free, as XProf defines it. ok is false without free bytes.
func (h Holes) Fragmentation() (share float64, ok bool) {
	if h.Total == 0 {
		return 0, false
	}
	return float64(h.Total-h.Largest) / float64(h.Total), true
}

// FreeAt returns the holes of the reserved memory at t. A hole lies in one region, except
// in adjacent expandable regions of one stream and pool.
func FreeAt(s *lifetime.Space, t int64) Holes {
	return freeAt(s, t, func(spans.Span[int32], *lifetime.Region) bool { return true })
}

// PiecesAt returns the holes at t between the buffers of regions that hold some. Regions that hold none are not among
// them: an allocator with such regions gives them back to the device when it needs memory.
func PiecesAt(s *lifetime.Space, t int64) Holes {
	return freeAt(s, t, func(h spans.Span[int32], r *lifetime.Region) bool { return h.Lo != r.Addr || h.Size() < r.Size })
}

// PiecesFor returns the holes that a request of PyTorch's allocator could use when it failed: those of the default pool, of its stream and of
// its kind of segment. Requests of up to 1 MiB have segments of their own.
func PiecesFor(s *lifetime.Space, request *lifetime.Mark) Holes {
	return freeAt(s, request.Begin, func(_ spans.Span[int32], r *lifetime.Region) bool {
		return r.Pool == "" && r.Stream == request.Stream && r.Small == (request.Requested <= 1<<20)
	})
}

func freeAt(s *lifetime.Space, t int64, is func(spans.Span[int32], *lifetime.Region) bool) (free Holes) {
	for _, h := range holesAt(s, t) {
		if is(h, &s.Regions[h.Val]) {
			free.add(h)
		}
	}
	return free
}

func (f *Holes) add(h spans.Span[int32]) {
	size := h.Size()
	f.Total = units.AddSat(f.Total, size)
	if size > f.Largest {
		f.Largest, f.At = size, h.Lo
	}
}

// holesAt returns the holes at t by address, with the index of the region in which each begins.
func holesAt(s *lifetime.Space, t int64) []spans.Span[int32] {
	open := regionsAt(s, t)
	for _, b := range s.Live(t) {
		open.Remove(b.Addr, spans.End(b.Addr, b.Size))
	}
	var holes []spans.Span[int32]
	for h := range open.All() {
		if last := len(holes) - 1; last >= 0 && holes[last].Hi == h.Lo && grows(&s.Regions[holes[last].Val], &s.Regions[h.Val]) {
			holes[last].Hi = h.Hi
			continue
		}
		holes = append(holes, h)
	}
	return holes
}

// grows reports whether an adjacent region continues r: the allocator may place a buffer across both.
func grows(r, next *lifetime.Region) bool {
	return r.Kind == lifetime.Expandable && next.Kind == lifetime.Expandable && r.Small == next.Small && PoolOf(r) == PoolOf(next)
}
