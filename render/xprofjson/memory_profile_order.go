package xprofjson

import (
	"math"
	"math/bits"

	"github.com/memlane/memlane/lifetime"
)

// timeOrder returns the report numbers in XProf's order of time. XProf's sort is not stable: reports with equal
// times keep the order that std::sort of libstdc++ gives them, and samples, frees and the step of the peak
// depend on it. Therefore this code follows that sort step by step.
func timeOrder(s *lifetime.Space) []uint32 {
	order, inOrder, last := make([]uint32, 0, s.Reports.N), true, int64(math.MinInt64)
	for r := range s.Reports.All() {
		inOrder = inOrder && (r.RawTime > last || len(order) == 0)
		last = r.RawTime
		order = append(order, uint32(len(order)))
	}
	if inOrder {
		return order // the usual case for one thread
	}
	sorting := make(timeSort, 0, len(order))
	for r := range s.Reports.All() {
		sorting = append(sorting, timed{r.RawTime, uint32(len(sorting))})
	}
	sorting.quicksort(2 * (bits.Len(uint(len(order))) - 1))
	sorting.insertionSort()
	for i, r := range sorting {
		order[i] = r.number
	}
	return order
}

// timed is a report with its time.
type timed struct {
	time   int64
	number uint32
}

// timeSort sorts reports by time.
type timeSort []timed

// quicksort leaves parts of at most 16 to insertionSort, and a part that divides badly more than depth times to
// heapsort.
func (s timeSort) quicksort(depth int) {
	for ; len(s) > 16; depth-- {
		if depth == 0 {
			s.heapsort()
			return
		}
		middle := s.median(1, len(s)/2, len(s)-1)
		s[0], s[middle] = s[middle], s[0]
		cut := s.partition()
		s[cut:].quicksort(depth - 1)
		s = s[:cut]
	}
}

// median returns the place with the middle time of three. For equal times it makes the library's choice.
func (s timeSort) median(a, b, c int) int {
	ta, tb, tc := s[a].time, s[b].time, s[c].time
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

// partition divides everything after the first element by the time of the first element.
func (s timeSort) partition() int {
	pivot := s[0].time
	for i, j := 1, len(s); ; i++ {
		for s[i].time < pivot {
			i++
		}
		j--
		for pivot < s[j].time {
			j--
		}
		if i >= j {
			return i
		}
		s[i], s[j] = s[j], s[i]
	}
}

func (s timeSort) insertionSort() {
	for hole, report := range s {
		for ; hole > 0 && report.time < s[hole-1].time; hole-- {
			s[hole] = s[hole-1]
		}
		s[hole] = report
	}
}

func (s timeSort) heapsort() {
	for i := len(s)/2 - 1; i >= 0; i-- {
		s.sink(i, s[i])
	}
	for n := len(s) - 1; n > 0; n-- {
		report := s[n]
		s[n] = s[0]
		s[:n].sink(0, report)
	}
}

// sink fills a hole in a heap whose root is the latest report. Like the library, it moves the hole to the
// bottom and the report up from there.
func (s timeSort) sink(hole int, report timed) {
	top := hole
	for child := 2*hole + 2; child <= len(s); child = 2*hole + 2 {
		if child == len(s) || s[child].time < s[child-1].time {
			child--
		}
		s[hole] = s[child]
		hole = child
	}
	for parent := (hole - 1) / 2; hole > top && s[parent].time < report.time; parent = (hole - 1) / 2 {
		s[hole] = s[parent]
		hole = parent
	}
	s[hole] = report
}
