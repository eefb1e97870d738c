package plot

import (
	"iter"

	"github.com/memlane/memlane/lifetime"
)

// Highest returns the highest of levels in each of n equal parts of [from, to). Levels are in order of time.
func Highest(levels iter.Seq[lifetime.Level], from, to int64, n int) []int64 {
	all, last, level := make([]int64, n), 0, int64(0)
	upTo := func(part int) { // a level lasts until the next one, which may be in a later part
		for all[last] = max(all[last], level); last < part; {
			last++
			all[last] = level
		}
	}
	for l := range levels {
		if l.At >= to && to > from {
			break
		}
		upTo(min(int(float64(max(l.At-from, 0))/float64(max(to-from, 1))*float64(n)), n-1))
		level = l.Bytes
		all[last] = max(all[last], level)
	}
	upTo(n - 1)
	return all
}

// Tops returns the highest bytes of each of n groups of the buffers of s over time. of returns the group of a buffer, or -1.
func Tops(s *lifetime.Space, n int, of func(buffer int) int) []int64 {
	tops, sums := make([]int64, n), make([]int64, n)
	for c := range s.Changes() {
		switch k := of(c.Buffer); {
		case k < 0:
		case c.Begin:
			sums[k] += s.Buffers[c.Buffer].Size
			tops[k] = max(tops[k], sums[k])
		default:
			sums[k] -= s.Buffers[c.Buffer].Size
		}
	}
	return tops
}
