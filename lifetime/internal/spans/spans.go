// Package spans maps ranges of addresses to values.
package spans

import (
	"iter"
	"math"
	"slices"
)

// Span is a range of addresses [Lo, Hi) with a value.
type Span[V any] struct {
	Lo, Hi uint64
	Val    V
}

// chunkSpans limits the spans of a chunk: an insertion moves few spans, and the list of chunks stays short.
const chunkSpans = 256

// Map holds disjoint address ranges in order, in chunks. A search takes O(log n), an
// insertion O(chunkSpans + n/chunkSpans). Its zero value is empty.
//
// A balanced tree would need more code. A Go map by address cannot find ranges that begin at another address.
type Map[V any] struct {
	chunks [][]Span[V]
}

// find returns the position of the first span that ends above addr.
func (m *Map[V]) find(addr uint64) (c, i int) {
	// Two loops instead of sort.Search, because every event of a history may call find.
	for end := len(m.chunks); c < end; {
		mid := (c + end) / 2
		if chunk := m.chunks[mid]; chunk[len(chunk)-1].Hi > addr {
			end = mid
		} else {
			c = mid + 1
		}
	}
	if c == len(m.chunks) {
		return c, 0
	}
	chunk := m.chunks[c]
	for end := len(chunk); i < end; {
		mid := (i + end) / 2
		if chunk[mid].Hi > addr {
			end = mid
		} else {
			i = mid + 1
		}
	}
	return c, i
}

// Overlapping yields the spans that share an address with [lo, hi), in order. An empty
// range has none. The map must not change meanwhile.
func (m *Map[V]) Overlapping(lo, hi uint64) iter.Seq[Span[V]] {
	return func(yield func(Span[V]) bool) {
		if lo >= hi {
			return
		}
		c, i := m.find(lo)
		for ; c < len(m.chunks); c, i = c+1, 0 {
			for ; i < len(m.chunks[c]); i++ {
				s := m.chunks[c][i]
				if s.Lo >= hi || !yield(s) {
					return
				}
			}
		}
	}
}

// Overlaps reports whether any span shares an address with [lo, hi).
func (m *Map[V]) Overlaps(lo, hi uint64) bool {
	c, i := m.find(lo)
	return lo < hi && c < len(m.chunks) && m.chunks[c][i].Lo < hi
}

// Gaps returns the parts of [lo, hi) that no span covers.
func (m *Map[V]) Gaps(lo, hi uint64) []Span[V] {
	var gaps []Span[V]
	for s := range m.Overlapping(lo, hi) {
		if s.Lo > lo {
			gaps = append(gaps, Span[V]{Lo: lo, Hi: s.Lo})
		}
		lo = s.Hi
	}
	if lo < hi {
		gaps = append(gaps, Span[V]{Lo: lo, Hi: hi})
	}
	return gaps
}

// Cut removes [lo, hi) and returns the removed spans, cut to that range. The parts of spans outside the range stay.
func (m *Map[V]) Cut(lo, hi uint64) []Span[V] {
	var rest []Span[V]
	hit := slices.Collect(m.Overlapping(lo, hi))
	if len(hit) == 0 {
		return nil
	}
	if s := hit[0]; s.Lo < lo {
		rest = append(rest, Span[V]{s.Lo, lo, s.Val})
		hit[0].Lo = lo
	}
	last := len(hit) - 1
	if s := hit[last]; s.Hi > hi {
		rest = append(rest, Span[V]{hi, s.Hi, s.Val})
		hit[last].Hi = hi
	}
	for removed := 0; removed < len(hit); {
		c, i := m.find(lo)
		n := min(len(hit)-removed, len(m.chunks[c])-i)
		m.chunks[c] = slices.Delete(m.chunks[c], i, i+n)
		if len(m.chunks[c]) == 0 {
			m.chunks = slices.Delete(m.chunks, c, c+1)
		}
		removed += n
	}
	for _, s := range rest {
		m.insert(s)
	}
	return hit
}

// Remove removes [lo, hi) as Cut does. It allocates nothing where the range is at an edge of one span.
func (m *Map[V]) Remove(lo, hi uint64) {
	if c, i := m.find(lo); lo < hi && c < len(m.chunks) {
		switch s := &m.chunks[c][i]; {
		case s.Lo == lo && hi < s.Hi:
			s.Lo = hi
			return
		case s.Lo < lo && hi == s.Hi:
			s.Hi = lo
			return
		}
	}
	m.Cut(lo, hi)
}

// Set maps [lo, hi) to val and returns the replaced spans, as Cut does.
func (m *Map[V]) Set(lo, hi uint64, val V) []Span[V] {
	if lo >= hi {
		return nil
	}
	old := m.Cut(lo, hi)
	m.insert(Span[V]{lo, hi, val})
	return old
}

func (m *Map[V]) insert(s Span[V]) {
	if len(m.chunks) == 0 {
		m.chunks = [][]Span[V]{append(make([]Span[V], 0, chunkSpans), s)}
		return
	}
	c, i := m.find(s.Lo)
	if c == len(m.chunks) {
		c--
		i = len(m.chunks[c])
	}
	chunk := slices.Insert(m.chunks[c], i, s)
	m.chunks[c] = chunk
	if len(chunk) == chunkSpans {
		half := append(make([]Span[V], 0, chunkSpans), chunk[chunkSpans/2:]...)
		m.chunks[c] = chunk[:chunkSpans/2]
		m.chunks = slices.Insert(m.chunks, c+1, half)
	}
}

// All yields every span in order.
func (m *Map[V]) All() iter.Seq[Span[V]] {
	return func(yield func(Span[V]) bool) {
		for _, chunk := range m.chunks {
			for _, s := range chunk {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// End returns addr+size, saturated.
func End(addr uint64, size int64) uint64 {
	end := addr + uint64(size)
	if end < addr {
		return ^uint64(0)
	}
	return end
}

// Size returns the length of a span, saturated.
func (s Span[V]) Size() int64 { return int64(min(s.Hi-s.Lo, math.MaxInt64)) }
