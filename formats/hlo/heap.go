package hlo

import "math"

// Kinds of events of a heap trace.
const (
	eventAlloc     = 0
	eventFree      = 1
	eventShareWith = 2
)

// chooseTraces returns, for every color, the index of the trace that XProf displays: the trace of the first
// allocation of the color that has one and is not reserved for the whole program, otherwise the trace with the
// most events of the color. A color without a trace is not in the map.
func (p *program) chooseTraces() map[int64]int {
	chosen, most := map[int64]int{}, map[int64]int{}
	for i := range p.allocations {
		a := &p.allocations[i]
		if most[a.color] == 0 && !a.uses.Whole() && a.trace >= 0 {
			chosen[a.color], most[a.color] = int(a.trace), math.MaxInt
		}
	}
	for i, t := range p.traces {
		events := map[int64]int{}
		for _, e := range t.events {
			if v, ok := p.byID[e.buffer]; ok {
				events[p.values[v].color]++
			}
		}
		for color, n := range events { // order does not matter: each color is independent
			if n > most[color] {
				chosen[color], most[color] = i, n
			}
		}
	}
	return chosen
}

// life is the lifetime that a heap trace gives a value.
type life struct {
	// The positions at which the value is allocated and freed, as XProf counts them: n-1 of n events for a value
	// that is never freed; end < begin for a value that only shares memory.
	begin, end int64

	root    int32 // the value whose memory it uses; itself if it shares none
	block   int32 // the block that it joined last; -1: none
	refs    int32 // of a root: number of values that use the memory now
	revived bool  // of a root: its memory was freed and reused
}

// block is one stay of a buffer in the heap: from the event begin to the event end, or math.MaxInt64 if it is
// not freed.
type block struct {
	value      int32 // gives the block its name
	root       int32 // gives the block its place and size
	begin, end int64
	placed     bool // the model has it as a buffer
}

// heap is the state of a replay.
type heap struct {
	lives  []life // by value
	blocks []block
	last   int64 // position of the last event
}

// replay executes the events of a trace. It counts references: memory shared by several values is freed with the last
// of them. A value that shares memory already freed revives it as a new block of the same size and place.
func (p *program) replay(t trace) *heap {
	h := &heap{lives: make([]life, len(p.values)), last: int64(len(t.events) - 1)}
	for i := range h.lives {
		h.lives[i] = life{end: -1, root: int32(i), block: -1}
	}
	for k, e := range t.events {
		v, ok := p.byID[e.buffer]
		if !ok {
			p.skip("heap_simulator_traces: no logical buffer %d", e.buffer)
			continue
		}
		root := h.root(v)
		unused := root == v && h.lives[v].refs == 0
		switch {
		case e.kind == eventAlloc && unused:
			h.use(v, v, int64(k))
		case e.kind == eventFree && h.lives[root].refs > 0:
			h.free(v, root, int64(k))
		case e.kind == eventShareWith && unused:
			with, ok := p.byID[e.canonical]
			if !ok {
				p.skip("heap_simulator_traces: no logical buffer %d", e.canonical)
			} else if root = h.root(with); root == v {
				p.skip("heap_simulator_traces: logical buffer %d shares its own memory", e.buffer)
			} else {
				h.use(v, root, int64(k))
			}
		default:
			p.skip("heap_simulator_traces: an event that does not fit the state of logical buffer %d", e.buffer)
		}
	}
	return h
}

// use makes value v use the memory of root; root is v if v is allocated. Memory with no other user becomes a new block.
func (h *heap) use(v, root int32, at int64) {
	l, r := &h.lives[v], &h.lives[root]
	l.root = root
	if r.refs++; r.refs == 1 {
		r.revived = root != v
		r.block = int32(len(h.blocks))
		h.blocks = append(h.blocks, block{value: v, root: root, begin: at, end: math.MaxInt64})
		l.begin, l.end = at, h.last
	}
	l.block = r.block
}

// free ends the use of root's memory by value v.
func (h *heap) free(v, root int32, at int64) {
	l, r := &h.lives[v], &h.lives[root]
	if r.refs--; r.refs == 0 {
		h.blocks[r.block].end = at
		if !r.revived {
			r.end = at
		}
	}
	if root != v && l.end >= l.begin {
		l.end = at
	}
}

// root returns the value whose memory v uses, and shortens the chain to it.
func (h *heap) root(v int32) int32 {
	lives := h.lives
	for lives[v].root != v {
		lives[v].root = lives[lives[v].root].root
		v = lives[v].root
	}
	return v
}
