package whatif

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime/replay"
)

// item is the begin or end of a buffer, or another call.
type item struct {
	kind  kindOfItem // at equal moments, frees come first
	index int32
}

type kindOfItem int8

const (
	requestsFree kindOfItem = iota
	isFree
	isOther
	isAllocation
)

func (m *model) at(it item) moment {
	switch it.kind {
	case isAllocation:
		return m.buffers[it.index].begin
	case isFree:
		return m.buffers[it.index].end
	case requestsFree:
		return at(m.buffers[it.index].requestFree)
	}
	return m.others[it.index].at
}

func (m *model) items(yield func(at moment, it item) bool) {
	put := func(at moment, kind kindOfItem, i int) bool {
		return at == never || at.event < 0 || yield(at, item{kind, int32(i)})
	}
	for i, b := range m.buffers {
		if !put(b.begin, isAllocation, i) || !put(b.end, isFree, i) || !put(at(b.requestFree), requestsFree, i) {
			return
		}
	}
	for i := range m.others {
		if !put(m.others[i].at, isOther, i) {
			return
		}
	}
}

// order returns all calls of the program, by event.
func (m *model) order() (all []item) {
	m.settle()
	all = make([]item, m.n)
	for at, it := range m.items {
		all[at.event] = it
	}
	return all
}

// byEvent returns all calls of the program in order, and where those of each event begin.
func (m *model) byEvent() (all []item, begins []int32) {
	begins = make([]int32, m.n+2)
	for at := range m.items {
		begins[min(at.event, m.n)+1]++
	}
	for event := range m.n + 1 {
		begins[event+1] += begins[event]
	}
	all = make([]item, begins[m.n+1])
	for at, it := range m.items { // moves begins to the next event
		event := min(at.event, m.n)
		all[begins[event]] = it
		begins[event]++
	}
	copy(begins[1:], begins)
	begins[0] = 0
	for event := range m.n + 1 {
		if of := all[begins[event]:begins[event+1]]; len(of) > 1 {
			slices.SortFunc(of, func(x, y item) int {
				return cmp.Or(m.at(x).compare(m.at(y)), cmp.Compare(x.kind, y.kind), cmp.Compare(x.index, y.index))
			})
		}
	}
	return all, begins
}

// settle makes moments events again.
func (m *model) settle() {
	if !m.moved {
		return
	}
	m.moved = false
	items, numbers := m.byEvent()
	for event, k := range numbers[:m.n+1] { // now: of the first call that is not before the event
		for int(k) < len(items) && m.at(items[k]).compare(at(event)) < 0 {
			k++
		}
		numbers[event] = k
	}
	now := func(event int) int {
		if event < 0 {
			return event
		}
		return int(numbers[min(event, m.n)])
	}
	for _, axis := range [][]int{m.axis, m.again} {
		for i := range axis {
			axis[i] = now(axis[i])
		}
	}
	m.movePasses(now)
	sorted := filter(m.buffers, func(b *buffer) bool { return b.isOlder() })
	for event, it := range items {
		switch it.kind {
		case isAllocation:
			m.buffers[it.index].begin = at(event)
			sorted = append(sorted, m.buffers[it.index])
		case isFree:
			m.buffers[it.index].end = at(event)
		case requestsFree:
			m.buffers[it.index].requestFree = event
		case isOther:
			m.others[it.index].at = at(event)
		}
	}
	m.n, m.buffers, m.sorted = len(items), sorted, len(sorted)
}

// movePasses gives events of passes, rounds and gaps other numbers.
func (m *model) movePasses(now func(event int) int) {
	for i := range m.passes {
		p := &m.passes[i]
		p.begin, p.backward, p.end = now(p.begin), now(p.backward), now(p.end)
	}
	for i := range m.rounds {
		r := &m.rounds[i]
		r.begin, r.optimizer, r.end = now(r.begin), now(r.optimizer), now(r.end)
	}
	for i := range m.gaps {
		g := &m.gaps[i]
		g.begin, g.end = now(g.begin), now(g.end)
	}
}

// program returns the program as the allocator sees it, and the buffers in the order of its requests.
func (m *model) program() (*replay.History, []replay.Call) {
	m.settle()
	requests := make([]replay.Request, 0, len(m.buffers)+len(m.others))
	for _, b := range m.buffers {
		requests = append(requests, replay.Request{Like: int(b.like), Size: max(b.size, 1), Start: b.isOlder()})
	}
	calls := make([]replay.Call, 0, m.n)
	kinds := [...]replay.CallKind{isAllocation: replay.Allocate, isFree: replay.Free, requestsFree: replay.RequestFree}
	for _, it := range m.order() {
		if it.kind != isOther {
			calls = append(calls, replay.Call{Kind: kinds[it.kind], Request: int(it.index)})
			continue
		}
		o := &m.others[it.index]
		c := replay.Call{Kind: o.kind}
		if o.kind == replay.Fail {
			c.Request = len(requests)
			requests = append(requests, replay.Request{Like: o.request, Size: max(o.failed.size, 1)})
		}
		calls = append(calls, c)
	}
	h := m.h.Rewrite(requests, calls)
	for _, g := range m.gaps {
		h.Repeats = append(h.Repeats, [2]int{g.begin, g.end})
	}
	return h, calls
}
