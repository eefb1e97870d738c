package xprofjson

import (
	"math"
	"math/bits"

	"github.com/memlane/memlane/lifetime"
)

// timeOrder returns the numbers of the reports in the order in which XProf has
// them. Its sort is not stable: reports of one instant stand as std::sort of
// its C++ library (libstdc++) leaves them, and samples, frees and the step of
// the peak depend on that. So it is that sort, step by step.
func timeOrder(s *lifetime.Space) []uint32 {
	order, inOrder, last := make([]uint32, 0, s.Reports.N), true, int64(math.MinInt64)
	for r := range s.Reports.All() {
		inOrder = inOrder && (r.RawTime > last || len(order) == 0)
		last = r.RawTime
		order = append(order, uint32(len(order)))
	}
	if inOrder {
		return order // as the reports of one thread are
	}
	sorting := timeSort{order, make([]int64, 0, len(order))}
	for r := range s.Reports.All() {
		sorting.times = append(sorting.times, r.RawTime)
	}
	sorting.quicksort(2 * (bits.Len(uint(len(order))) - 1))
	sorting.insertionSort()
	return order
}

// timeSort sorts two columns by the second.
type timeSort struct {
	reports []uint32
	times   []int64
}

func (s timeSort) part(lo, hi int) timeSort { return timeSort{s.reports[lo:hi], s.times[lo:hi]} }

func (s timeSort) swap(i, j int) {
	s.reports[i], s.reports[j] = s.reports[j], s.reports[i]
	s.times[i], s.times[j] = s.times[j], s.times[i]
}

func (s timeSort) move(to, from int) { s.reports[to], s.times[to] = s.reports[from], s.times[from] }

// quicksort leaves parts of 16 and less to insertionSort, and those that divide
// badly more than depth times to heapsort.
func (s timeSort) quicksort(depth int) {
	for ; len(s.times) > 16; depth-- {
		if depth == 0 {
			s.heapsort()
			return
		}
		s.swap(0, s.median(1, len(s.times)/2, len(s.times)-1))
		cut := s.partition()
		s.part(cut, len(s.times)).quicksort(depth - 1)
		s = s.part(0, cut)
	}
}

// median returns that of three places whose time is between the others'; which
// of equal ones it is follows the library.
func (s timeSort) median(a, b, c int) int {
	ta, tb, tc := s.times[a], s.times[b], s.times[c]
	switch {
	case ta < tb && tb < tc:
		return b
	case ta < tb && ta < tc:
		return c
	case ta < tb, ta < tc:
		return a
	case tb < tc:
		return c
	}
	return b
}

// partition divides what is behind the first by its time.
func (s timeSort) partition() int {
	pivot := s.times[0]
	for i, j := 1, len(s.times); ; i++ {
		for s.times[i] < pivot {
			i++
		}
		j--
		for pivot < s.times[j] {
			j--
		}
		if i >= j {
			return i
		}
		s.swap(i, j)
	}
}

func (s timeSort) insertionSort() {
	for i := range s.times {
		report, time := s.reports[i], s.times[i]
		hole := i
		for ; hole > 0 && time < s.times[hole-1]; hole-- {
			s.move(hole, hole-1)
		}
		s.reports[hole], s.times[hole] = report, time
	}
}

func (s timeSort) heapsort() {
	for i := len(s.times)/2 - 1; i >= 0; i-- {
		s.sink(i, s.reports[i], s.times[i])
	}
	for n := len(s.times) - 1; n > 0; n-- {
		report, time := s.reports[n], s.times[n]
		s.move(n, 0)
		s.part(0, n).sink(0, report, time)
	}
}

// sink puts a report in the place of a hole of a heap whose root is the latest:
// the library moves the hole to the bottom and the report up from there.
func (s timeSort) sink(hole int, report uint32, time int64) {
	top := hole
	for child := 2*hole + 2; child <= len(s.times); child = 2*hole + 2 {
		if child == len(s.times) || s.times[child] < s.times[child-1] {
			child--
		}
		s.move(hole, child)
		hole = child
	}
	for parent := (hole - 1) / 2; hole > top && s.times[parent] < time; parent = (hole - 1) / 2 {
		s.move(hole, parent)
		hole = parent
	}
	s.reports[hole], s.times[hole] = report, time
}
