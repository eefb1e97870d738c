package region

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
)

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
