package lifetime

import "iter"

// span is a range of addresses [lo, hi) with a value.
type span[V any] struct {
	lo, hi uint64
	val    V
}

// chunkSpans bounds the entries of one chunk of a spanMap: small enough that
// an insertion moves little, large enough that the list of chunks stays short.
const chunkSpans = 256

// spanMap holds disjoint address ranges in order, in chunks: finding is
// O(log n), inserting O(chunkSpans + n/chunkSpans). It is the live set of every
// sweep that asks who lies where: reserved regions, lost frees, overlaps.
//
// A balanced tree would do the same with more code; a map by address cannot
// find ranges that begin elsewhere.
type spanMap[V any] struct {
	chunks [][]span[V]
}

// find returns the position of the first span whose end lies above addr.
func (m *spanMap[V]) find(addr uint64) (c, i int) {
	// Written out, since each event of a long history may come here.
	for end := len(m.chunks); c < end; {
		mid := (c + end) / 2
		if chunk := m.chunks[mid]; chunk[len(chunk)-1].hi > addr {
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
		if chunk[mid].hi > addr {
			end = mid
		} else {
			i = mid + 1
		}
	}
	return c, i
}

// overlapping yields, in order, the spans that share an address with [lo, hi):
// none when the range is empty. The map must not change meanwhile.
func (m *spanMap[V]) overlapping(lo, hi uint64) iter.Seq[span[V]] {
	return func(yield func(span[V]) bool) {
		if lo >= hi {
			return
		}
		c, i := m.find(lo)
		for ; c < len(m.chunks); c, i = c+1, 0 {
			for ; i < len(m.chunks[c]); i++ {
				s := m.chunks[c][i]
				if s.lo >= hi || !yield(s) {
					return
				}
			}
		}
	}
}

// overlaps reports whether any span shares an address with [lo, hi).
func (m *spanMap[V]) overlaps(lo, hi uint64) bool {
	c, i := m.find(lo)
	return lo < hi && c < len(m.chunks) && m.chunks[c][i].lo < hi
}

// gaps returns the parts of [lo, hi) that no span covers.
func (m *spanMap[V]) gaps(lo, hi uint64) []span[V] {
	var gaps []span[V]
	for s := range m.overlapping(lo, hi) {
		if s.lo > lo {
			gaps = append(gaps, span[V]{lo: lo, hi: s.lo})
		}
		lo = s.hi
	}
	if lo < hi {
		gaps = append(gaps, span[V]{lo: lo, hi: hi})
	}
	return gaps
}

// collect returns the spans that share an address with [lo, hi).
func (m *spanMap[V]) collect(lo, hi uint64) []span[V] {
	var hit []span[V]
	for s := range m.overlapping(lo, hi) {
		hit = append(hit, s)
	}
	return hit
}

// drop removes n spans of chunk c from i on, and the chunk when it gets empty.
func (m *spanMap[V]) drop(c, i, n int) {
	m.chunks[c] = append(m.chunks[c][:i], m.chunks[c][i+n:]...)
	if len(m.chunks[c]) == 0 {
		m.chunks = append(m.chunks[:c], m.chunks[c+1:]...)
	}
}

// cut removes [lo, hi) and returns what was removed, cut to that range. Spans
// that stick out keep their value for the parts outside.
func (m *spanMap[V]) cut(lo, hi uint64) []span[V] {
	var rest []span[V]
	hit := m.collect(lo, hi)
	if len(hit) == 0 {
		return nil
	}
	if s := hit[0]; s.lo < lo {
		rest = append(rest, span[V]{s.lo, lo, s.val})
		hit[0].lo = lo
	}
	last := len(hit) - 1
	if s := hit[last]; s.hi > hi {
		rest = append(rest, span[V]{hi, s.hi, s.val})
		hit[last].hi = hi
	}
	for removed := 0; removed < len(hit); {
		c, i := m.find(lo)
		n := min(len(hit)-removed, len(m.chunks[c])-i)
		m.drop(c, i, n)
		removed += n
	}
	for _, s := range rest {
		m.insert(s)
	}
	return hit
}

// set makes [lo, hi) hold val, and returns what it replaced.
func (m *spanMap[V]) set(lo, hi uint64, val V) []span[V] {
	if lo >= hi {
		return nil
	}
	old := m.cut(lo, hi)
	m.insert(span[V]{lo, hi, val})
	return old
}

// insert adds a span that overlaps none.
func (m *spanMap[V]) insert(s span[V]) {
	if len(m.chunks) == 0 {
		m.chunks = [][]span[V]{append(make([]span[V], 0, chunkSpans), s)}
		return
	}
	c, i := m.find(s.lo)
	if c == len(m.chunks) {
		c--
		i = len(m.chunks[c])
	}
	chunk := append(m.chunks[c], s)
	copy(chunk[i+1:], chunk[i:])
	chunk[i] = s
	m.chunks[c] = chunk
	if len(chunk) == chunkSpans {
		half := append(make([]span[V], 0, chunkSpans), chunk[chunkSpans/2:]...)
		m.chunks[c] = chunk[:chunkSpans/2]
		m.chunks = append(m.chunks, nil)
		copy(m.chunks[c+2:], m.chunks[c+1:])
		m.chunks[c+1] = half
	}
}

// all yields every span in order.
func (m *spanMap[V]) all() iter.Seq[span[V]] {
	return func(yield func(span[V]) bool) {
		for _, chunk := range m.chunks {
			for _, s := range chunk {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// endOf returns addr+size, saturated: a range never wraps around.
func endOf(addr uint64, size int64) uint64 {
	end := addr + uint64(size)
	if end < addr {
		return ^uint64(0)
	}
	return end
}
