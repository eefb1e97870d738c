package main

import (
	"fmt"
	"io"
	"math/rand/v2"
)

// Stacks are 4 to 8 frames deep; at every depth one of some functions is
// called, at the outer ones of few.
const (
	minDepth, depths = 4, 5
	functions        = 40
)

// frame is a line of a function in Python; the snapshot has one dict for it.
type frame struct {
	name, file string
	line       int64
	memo       int // where the pickle has it; 0: not yet
}

// snapshot is a memory snapshot of PyTorch in the making. As in torch, frames
// are shared by all stacks, an allocation's list of frames is its own and its
// block's, and the two records of a free share one.
type snapshot struct {
	*pickler
	*heap
	frames [minDepth + depths][functions]frame
	stacks [][]*frame // leaf first
	alive  map[int64]block
	listed map[int]int // memo of the frames of an allocation that is alive at the end, by its serial
	clock  *rand.Rand
	now    int64 // microseconds

	it    step   // what the program did last
	due   string // the action of its second record, "" when there is none
	stack int    // memo of the frames of its first record
}

// writeSnapshot writes a snapshot of events records of allocations and frees on
// a number of stacks. What is alive at the end precedes the records: so the
// program runs twice.
func writeSnapshot(w io.Writer, events, stacks int, seed uint64) (truth, error) {
	s := &snapshot{pickler: newPickler(w), heap: newHeap(seed, events, stacks), alive: map[int64]block{}, listed: map[int]int{},
		clock: rand.New(rand.NewPCG(seed, 4)), now: 1_752_000_000_000_000}
	s.makeStacks(stacks, seed)
	for range events {
		s.action()
	}
	if s.due != "" {
		s.action() // nothing is left half done
		events++
	}
	end := s.heap
	for _, b := range end.live {
		s.alive[b.addr] = b
	}
	s.heap = newHeap(seed, events, stacks)
	s.dict(func() {
		s.text("segments")
		s.list(len(end.segments), func(i int) { s.segment(end.segments[i]) })
		s.text("device_traces")
		s.list(1, func(int) { s.list(events, func(int) { s.record() }) })
		s.text("allocator_settings")
		s.dict(func() {
			s.textField("PYTORCH_CUDA_ALLOC_CONF", "")
			s.boolField("expandable_segments", false)
		})
		s.text("external_annotations")
		s.list(0, nil)
	})
	return s.truth, s.end()
}

// makeStacks makes the functions of a program and the ways through them.
func (s *snapshot) makeStacks(n int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	for depth := range s.frames {
		for i := range s.frames[depth] {
			file := fmt.Sprintf("/app/model/layer_%d.py", i)
			if depth%3 == 2 {
				file = fmt.Sprintf("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/mod_%d.py", i)
			}
			s.frames[depth][i] = frame{name: fmt.Sprintf("forward_%d_%d", depth, i), file: file, line: int64(10 + 37*depth + i)}
		}
	}
	for range n {
		stack := make([]*frame, minDepth+rnd.IntN(depths))
		for depth := range stack {
			stack[len(stack)-1-depth] = &s.frames[depth][rnd.IntN(min(functions, 1+8*depth))]
		}
		s.stacks = append(s.stacks, stack)
	}
}

// action runs the program up to its next record and returns what that is.
func (s *snapshot) action() string {
	if due := s.due; due != "" {
		s.due = ""
		return due
	}
	s.it = s.step()
	switch {
	case s.it.freed:
		s.due = "free_completed"
		return "free_requested"
	case s.it.grown:
		s.due = "alloc"
		return "segment_alloc"
	}
	return "alloc"
}

// record writes the next record of the history.
func (s *snapshot) record() {
	second := s.due != ""
	action := s.action()
	addr, size := s.it.addr, s.it.size
	if action == "segment_alloc" {
		last := s.heap.segments[len(s.heap.segments)-1]
		addr, size = last.addr, last.size
	}
	if !second {
		s.now += 1 + s.clock.Int64N(50)
	}
	s.dict(func() {
		s.textField("action", action)
		s.intField("addr", addr)
		s.intField("size", size)
		s.intField("stream", 0)
		s.intField("time_us", s.now)
		s.textField("compile_context", "N/A")
		s.text("frames")
		listed, ok := s.listed[s.it.serial]
		switch {
		case second:
			s.fetch(s.stack)
		case ok: // never freed: it has the list of its block
			s.stack = listed
			s.fetch(listed)
		case s.it.freed: // elsewhere than it was allocated
			s.stack = s.frameList(s.it.site + 1)
		default:
			s.stack = s.frameList(s.it.site)
		}
	})
}

// frameList writes a stack as a list of frames and returns where in the memo it is.
func (s *snapshot) frameList(site int) int {
	stack := s.stacks[site%len(s.stacks)]
	return s.list(len(stack), func(i int) {
		f := stack[i]
		if f.memo != 0 {
			s.fetch(f.memo)
			return
		}
		f.memo = s.dict(func() {
			s.textField("name", f.name)
			s.textField("filename", f.file)
			s.intField("line", f.line)
		})
	})
}

// segment writes a segment and its blocks as they are at the end: those in use,
// and what is free between them.
func (s *snapshot) segment(g segment) {
	var blocks []block
	var inUse int64
	for at := g.addr; at < g.addr+g.size; at += g.slot {
		b, used := s.alive[at]
		switch last := len(blocks) - 1; {
		case used:
			blocks = append(blocks, b)
			inUse += b.size
		case last >= 0 && blocks[last].serial < 0:
			blocks[last].size += g.slot
		default:
			blocks = append(blocks, block{addr: at, size: g.slot, serial: -1})
		}
	}
	s.dict(func() {
		s.intField("device", 0)
		s.intField("address", g.addr)
		s.intField("total_size", g.size)
		s.intField("allocated_size", inUse)
		s.intField("active_size", inUse)
		s.intField("requested_size", inUse)
		s.intField("stream", 0)
		s.textField("segment_type", choice(g.slot <= 1<<20, "small", "large"))
		s.boolField("is_expandable", false)
		s.text("frames")
		s.list(0, nil)
		s.text("blocks")
		s.list(len(blocks), func(i int) { s.block(blocks[i]) })
	})
}

// block writes a block of a segment; what is free has no serial.
func (s *snapshot) block(b block) {
	s.dict(func() {
		s.intField("address", b.addr)
		s.intField("size", b.size)
		s.intField("requested_size", b.size)
		s.textField("state", choice(b.serial >= 0, "active_allocated", "inactive"))
		s.text("frames")
		if b.serial < 0 {
			s.list(0, nil)
			return
		}
		s.listed[b.serial] = s.frameList(b.site)
	})
}

func choice(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
