package main

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/memlane/memlane/internal/pickletest"
)

// functions is the number of functions that a program calls at each depth; the outer ones are fewer.
const functions = 40

// shape is what snapshots of a kind have in common.
type shape struct {
	minDepth, depths int // stacks have minDepth to minDepth+depths-1 frames
	write            func(w io.Writer, v any) error
}

// As of scripts, and as torch writes snapshots of models with stacks="python" and stacks="all".
var (
	shallow = shape{4, 5, pickletest.Write}
	deep    = shape{28, 41, pickletest.WriteFramed}
	all     = shape{60, 61, pickletest.WriteFramed}
)

// snapshot is a PyTorch memory snapshot under construction. As in torch, all stacks
// share the dicts of frames, an allocation shares its list of frames with its block, and
// the two records of a free share one list.
type snapshot struct {
	*heap
	stacks [][]any // frames, leaf first
	alive  map[int64]block
	listed map[int]*pickletest.Shared // frames of an allocation that is alive at the end, by serial
	clock  *rand.Rand
	now    int64 // microseconds

	last   step   // of the program
	second string // the action of its second record, "" when there is none
	frames any    // of its first record
}

// writeSnapshot writes a snapshot of events records of allocations and frees on a number
// of stacks. The file lists the blocks alive at the end before the records, so the program
// runs twice.
func writeSnapshot(w io.Writer, form shape, events, stacks int, seed uint64) (truth, error) {
	s := &snapshot{heap: newHeap(seed, events, stacks), alive: map[int64]block{}, listed: map[int]*pickletest.Shared{},
		clock: rand.New(rand.NewPCG(seed, 4)), now: 1_752_000_000_000_000}
	s.makeStacks(form, stacks, seed)
	for range events {
		s.action()
	}
	if s.second != "" { // complete the last step
		s.action()
		events++
	}
	end := s.heap
	for _, b := range end.live {
		s.alive[b.addr] = b
	}
	s.heap = newHeap(seed, events, stacks)
	err := form.writeParts(w, pickletest.Stream{N: len(end.segments), Item: func(i int) any { return s.segment(end.segments[i]) }},
		pickletest.Stream{N: events, Item: func(int) any { return s.record() }})
	return s.truth, err
}

// writeParts writes a snapshot of one device.
func (form shape) writeParts(w io.Writer, segments, records pickletest.Stream) error {
	return form.write(w, pickletest.Dict{
		"segments", segments, "device_traces", pickletest.List{records},
		"allocator_settings", pickletest.Dict{"PYTORCH_CUDA_ALLOC_CONF", "", "expandable_segments", false},
		"external_annotations", pickletest.List{},
	})
}

// blocksOfSegment is how many blocks a segment of writeBlocks has.
const blocksOfSegment = 1000

// writeBlocks writes a snapshot without history: n live blocks. Each has its own list of frames, or, if they are shared, blocks of the
// same stack refer to one list.
func writeBlocks(w io.Writer, n, stacks int, seed uint64, shared bool) (truth, error) {
	s := &snapshot{}
	s.makeStacks(deep, stacks, seed)
	lists := make([]*pickletest.Shared, stacks)
	for i := range lists {
		lists[i] = s.frameList(i)
	}
	rnd := rand.New(rand.NewPCG(seed, 6))
	next := int64(heapBase)
	segments := pickletest.Stream{N: (n + blocksOfSegment - 1) / blocksOfSegment, Item: func(i int) any {
		var blocks pickletest.List
		begin := next
		for range min(blocksOfSegment, n-i*blocksOfSegment) {
			size, site := int64(smallest)<<rnd.IntN(classes), rnd.IntN(stacks)
			frames := lists[site]
			if !shared {
				frames = s.frameList(site)
			}
			blocks = append(blocks, pickletest.Dict{"address", next, "size", size, "requested_size", size, "state", "active_allocated", "frames", frames})
			next += size
		}
		return segmentOf(segment{addr: begin, size: next - begin}, next-begin, "large", blocks)
	}}
	err := deep.writeParts(w, segments, pickletest.Stream{})
	return truth{allocations: n, frees: n, peak: next - heapBase}, err
}

// makeStacks makes the functions of a program and the call stacks through them.
func (s *snapshot) makeStacks(form shape, n int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	frames := make([][functions]any, form.minDepth+form.depths)
	for depth := range frames {
		for i := range frames[depth] {
			file := fmt.Sprintf("/app/model/layer_%d.py", i)
			if depth%3 == 2 {
				file = fmt.Sprintf("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/mod_%d.py", i)
			}
			frames[depth][i] = pickletest.Share(pickletest.Dict{"name", fmt.Sprintf("forward_%d_%d", depth, i), "filename", file, "line", 10 + 37*depth + i})
		}
	}
	for range n {
		stack := make([]any, form.minDepth+rnd.IntN(form.depths))
		for depth := range stack {
			stack[len(stack)-1-depth] = frames[depth][rnd.IntN(min(functions, 1+8*depth))]
		}
		s.stacks = append(s.stacks, stack)
	}
}

// action runs the program up to its next record and returns the action of that record.
func (s *snapshot) action() string {
	if second := s.second; second != "" {
		s.second = ""
		return second
	}
	s.last = s.step()
	switch {
	case s.last.freed:
		s.second = "free_completed"
		return "free_requested"
	case s.last.grown:
		s.second = "alloc"
		return "segment_alloc"
	}
	return "alloc"
}

// record returns the next record of the history.
func (s *snapshot) record() any {
	second := s.second != ""
	action := s.action()
	addr, size := s.last.addr, s.last.size
	if action == "segment_alloc" {
		last := s.segments[len(s.segments)-1]
		addr, size = last.addr, last.size
	}
	if !second {
		s.now += 1 + s.clock.Int64N(50)
		s.frames = s.framesOf(s.last)
	}
	return pickletest.Dict{"action", action, "addr", addr, "size", size, "stream", 0, "time_us", s.now, "compile_context", "N/A", "frames", s.frames}
}

// framesOf returns the frames of a step. A buffer is freed on another stack than it was
// allocated on.
func (s *snapshot) framesOf(it step) any {
	if listed, ok := s.listed[it.serial]; ok {
		return listed
	}
	if it.freed {
		return s.frameList(it.site + 1)
	}
	return s.frameList(it.site)
}

func (s *snapshot) frameList(site int) *pickletest.Shared {
	return pickletest.Share(pickletest.List(s.stacks[site%len(s.stacks)]))
}

// segment returns a segment and its blocks at the end: those in use, and the free memory
// between them.
func (s *snapshot) segment(g segment) any {
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
	return segmentOf(g, inUse, choice(g.slot <= 1<<20, "small", "large"), pickletest.Stream{N: len(blocks), Item: func(i int) any { return s.block(blocks[i]) }})
}

func segmentOf(g segment, inUse int64, kind string, blocks any) any {
	return pickletest.Dict{
		"device", 0, "address", g.addr, "total_size", g.size, "allocated_size", inUse, "active_size", inUse, "requested_size", inUse, "stream", 0,
		"segment_type", kind, "is_expandable", false, "frames", pickletest.List{}, "blocks", blocks,
	}
}

// block returns a block of a segment; free memory has no serial.
func (s *snapshot) block(b block) any {
	state, frames := "inactive", any(pickletest.List{})
	if b.serial >= 0 {
		s.listed[b.serial] = s.frameList(b.site)
		state, frames = "active_allocated", s.listed[b.serial]
	}
	return pickletest.Dict{"address", b.addr, "size", b.size, "requested_size", b.size, "state", state, "frames", frames}
}

func choice(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
