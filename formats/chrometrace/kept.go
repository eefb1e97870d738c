package chrometrace

import (
	"cmp"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// keepCalls adds each call of a user function during which memory changed, with the
// changes of the device that changed last. If Python was not recorded, it adds the
// operators and ranges. Changes by other threads count, as in the table of operations.
func (r *reader) keepCalls(byTime []int) {
	instants := make([]int64, len(byTime))
	heaps := map[heap]*heapEvents{}
	for place, i := range byTime {
		m := &r.memory[i]
		instants[place] = m.at
		if heaps[m.heap] == nil {
			heaps[m.heap] = &heapEvents{changes: newChanges(0)}
		}
		heaps[m.heap].take(m)
	}
	counts := r.keptKind()
	type kept struct {
		begin int64
		ref   build.SpaceRef
		call  lifetime.Call
	}
	var all []kept
	sites := map[uint32]lifetime.SiteID{} // by name
	for _, t := range r.order {
		for c := range t.all(&r.store) {
			if !counts(c) {
				continue
			}
			to := sort.Search(len(instants), func(i int) bool { return instants[i] > c.end })
			if to == 0 || instants[to-1] < c.begin {
				continue
			}
			if sites[c.name] == 0 {
				sites[c.name] = r.b.Site(lifetime.Site{Stack: r.b.Stack([]lifetime.FrameID{r.b.Frame(r.frameOfCall(c.kind, c.name))})})
			}
			h := r.memory[byTime[to-1]].heap
			call := heaps[h].during(c)
			call.Site = sites[c.name]
			call.Begin, call.End = float64(r.time(c.begin))/1e9, float64(r.time(c.end))/1e9
			call.Seconds = float64(c.end-c.begin) / 1e9
			all = append(all, kept{c.begin, r.spaces[h], call})
		}
	}
	slices.SortStableFunc(all, func(x, y kept) int { return cmp.Compare(x.begin, y.begin) })
	for i := range all {
		r.b.FunctionCall(all[i].ref, all[i].call)
	}
}

// keptKind returns a function that reports whether keepCalls adds a call.
func (r *reader) keptKind() func(c *call) bool {
	user := map[uint32]bool{} // names of user functions
	for _, t := range r.order {
		for c := range t.all(&r.store) {
			if c.kind == python && !user[c.name] && frameOf(r.names.text(c.name)).Kind == frame.User {
				user[c.name] = true
			}
		}
	}
	if len(user) == 0 {
		// steps have different names
		return func(c *call) bool { return c.kind != runtime && !numbered.MatchString(r.names.text(c.name)) }
	}
	return func(c *call) bool { return c.kind == python && user[c.name] }
}

func (r *reader) frameOfCall(kind callKind, name uint32) frame.Frame {
	if kind == python {
		return frameOf(r.names.text(name))
	}
	return frame.Frame{Function: r.names.text(name), Kind: frame.Scope}
}

// heapEvents are the events of a heap in order of time.
type heapEvents struct {
	changes
	events  []*memoryEvent
	highest []int64 // highest level after the events of each block of blockLen
}

// blockLen bounds the work for a call that encloses many events.
const blockLen = 1 << 10

func (h *heapEvents) take(m *memoryEvent) {
	h.add(m.at, m.change())
	h.events = append(h.events, m)
	n := len(h.events)
	if (n-1)%blockLen == 0 {
		h.highest = append(h.highest, h.level(n))
	}
	last := len(h.highest) - 1
	h.highest[last] = max(h.highest[last], h.level(n))
}

// level returns the allocated minus the freed bytes of the first n events.
func (h *heapEvents) level(n int) int64 { return h.allocated[n] - h.freed[n] }

// during sums up the events during a call. The level is the allocator's total if it is
// recorded, else the sum since the beginning of the trace.
func (h *heapEvents) during(c *call) lifetime.Call {
	from := sort.Search(len(h.at), func(i int) bool { return h.at[i] >= c.begin })
	to := sort.Search(len(h.at), func(i int) bool { return h.at[i] > c.end })
	peak := h.level(from)
	for i := from; i < to; {
		if i%blockLen == 0 && i+blockLen <= to {
			peak = max(peak, h.highest[i/blockLen])
			i += blockLen
			continue
		}
		i++
		peak = max(peak, h.level(i))
	}
	sums, last := h.in(from, to), h.events[to-1]
	out := lifetime.Call{Allocated: sums.Allocated, Freed: sums.Freed, After: h.level(to), Reserved: max(last.reserved, 0)}
	if last.total >= 0 {
		out.After = last.total
	}
	out.Before = units.AddSat(out.After, -sums.Bytes())
	out.Peak = units.AddSat(out.Before, peak-h.level(from))
	return out
}
