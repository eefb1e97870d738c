package build

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/spans"
)

// handOver ends each buffer of a compiled program where another buffer takes over its memory, so that levels count the
// union of addresses. XLA lets an instruction write its result over an operand (an in-place fusion): both buffers then
// contain the instruction.
//
// A buffer inside another one begins where that one ends, and is dropped if it ends before. A buffer that overlaps
// another one only in part takes over all of it. The result is in no order.
func handOver(all []Interval) []Interval {
	first := &byBegin{all: all, order: make([]int, len(all))}
	for i := range all {
		first.order[i] = i
	}
	slices.SortFunc(first.order, first.compare)
	delayed := &byBegin{all: all}
	var live spans.Map[int] // indexes of all
	var over []spans.Span[int]
	for len(first.order)+len(delayed.order) > 0 {
		var i int
		if len(delayed.order) > 0 && (len(first.order) == 0 || first.compare(delayed.order[0], first.order[0]) < 0) {
			i = heap.Pop(delayed).(int)
		} else {
			i, first.order = first.order[0], first.order[1:]
		}
		v := &all[i]
		end := spans.End(v.Addr, v.Size)
		over = slices.AppendSeq(over[:0], live.Overlapping(v.Addr, end))
		if owner := around(v, over, all); owner != nil {
			if v.Begin = owner.End; v.Begin < v.End {
				heap.Push(delayed, i)
			}
			continue
		}
		for _, s := range over {
			if owner := &all[s.Val]; owner.End > v.Begin {
				owner.End, owner.Edge = v.Begin, owner.Edge&^lifetime.EndOpen
			}
			live.Cut(s.Lo, s.Hi)
		}
		live.Set(v.Addr, end, i)
	}
	return slices.DeleteFunc(all, func(v Interval) bool { return v.Begin >= v.End })
}

// around returns the live buffer that contains v, or nil. A buffer of the same size that ends first does not
// contain v: v takes over its memory.
func around(v *Interval, over []spans.Span[int], all []Interval) *Interval {
	if len(over) != 1 {
		return nil
	}
	s := over[0]
	owner := &all[s.Val]
	if owner.End > v.Begin && s.Lo <= v.Addr && s.Hi >= spans.End(v.Addr, v.Size) && (owner.Size > v.Size || owner.End >= v.End) {
		return owner
	}
	return nil
}

// byBegin is a queue of intervals by Begin. Of those that begin together, the largest is first, so that it contains
// the others.
type byBegin struct {
	all   []Interval
	order []int // indexes of all
}

func (q *byBegin) compare(i, j int) int {
	v, w := &q.all[i], &q.all[j]
	return cmp.Or(cmp.Compare(v.Begin, w.Begin), cmp.Compare(w.Size, v.Size), cmp.Compare(w.End, v.End), cmp.Compare(i, j))
}

func (q *byBegin) Len() int           { return len(q.order) }
func (q *byBegin) Less(i, j int) bool { return q.compare(q.order[i], q.order[j]) < 0 }
func (q *byBegin) Swap(i, j int)      { q.order[i], q.order[j] = q.order[j], q.order[i] }
func (q *byBegin) Push(i any)         { q.order = append(q.order, i.(int)) }

func (q *byBegin) Pop() any {
	last := len(q.order) - 1
	i := q.order[last]
	q.order = q.order[:last]
	return i
}
