package laws

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// job is a program that PyTorch's allocator serves and records.
type job struct {
	now      int64
	trace    []event
	notes    []note
	segments []segment
	room     map[bool]int64    // what is left of the last segment, by whether it is for small blocks
	free     map[int64][]int64 // addresses by size
	live     map[int64]block
	stacks   map[string]*callers
}

// Files of a program, and of PyTorch.
const (
	mainFile   = "/home/user/proj/train.py"
	modelFile  = "/home/user/proj/model.py"
	moduleFile = "/opt/env/lib/python3.12/site-packages/torch/nn/modules/module.py"
	tensorFile = "/opt/env/lib/python3.12/site-packages/torch/_tensor.py"
	engineFile = "/opt/env/lib/python3.12/site-packages/torch/autograd/__init__.py"
	adamFile   = "/opt/env/lib/python3.12/site-packages/torch/optim/adam.py"
)

// at returns a stack: frames as function, file and line, innermost first, and the main function around them.
func (j *job) at(frames ...call) *callers {
	c := &callers{}
	for _, f := range append(frames, call{name: "train", file: mainFile, line: 40}, call{name: "<module>", file: mainFile, line: 90}) {
		key := f.name + f.file + fmt.Sprint(f.line)
		if j.stacks[key] == nil {
			j.stacks[key] = &callers{[]*call{&f}}
		}
		c.of = append(c.of, j.stacks[key].of[0])
	}
	return c
}

// forward returns the stack of a line in the forward pass of the model.
func (j *job) forward(number int64) *callers {
	return j.at(call{name: "forward", file: modelFile, line: number}, call{name: "_call_impl", file: moduleFile, line: 1784},
		call{name: "_wrapped_call_impl", file: moduleFile, line: 1773})
}

func (j *job) record(e event) {
	j.now += 7
	e.time = j.now
	j.trace = append(j.trace, e)
}

// alloc allocates memory and returns its address: one of the same size that is free, else the next of a segment.
func (j *job) alloc(size int64, by *callers) int64 {
	rounded, addr := max(512, (size+511)/512*512), int64(0)
	if of := j.free[rounded]; len(of) > 0 {
		addr, j.free[rounded] = of[len(of)-1], of[:len(of)-1]
	} else {
		little := rounded <= 1<<20
		if j.room[little] < rounded {
			j.room[little] = max(20<<20, (rounded+smallSegment-1)/smallSegment*smallSegment)
			if little {
				j.room[little] = smallSegment
			}
			g := segmentOf(0, 0x7f0000000000+int64(len(j.segments))<<32, j.room[little], 0, nil)
			g.frames = by
			j.segments = append(j.segments, g)
			j.record(event{action: "segment_alloc", addr: g.addr, size: g.size, frames: by})
		}
		for i := len(j.segments) - 1; addr == 0; i-- {
			if g := &j.segments[i]; (g.size == smallSegment) == little {
				addr = g.addr + g.size - j.room[little]
			}
		}
		j.room[little] -= rounded
	}
	j.live[addr] = block{addr: addr, size: rounded, requested: size, state: "active_allocated", frames: by}
	j.record(event{action: "alloc", addr: addr, size: size, frames: by})
	return addr
}

func (j *job) release(addrs ...int64) {
	for _, addr := range addrs {
		b := j.live[addr]
		delete(j.live, addr)
		j.free[b.size] = append(j.free[b.size], addr)
		for _, action := range []string{"free_requested", "free_completed"} {
			j.record(event{action: action, addr: addr, size: b.requested, frames: b.frames})
		}
	}
}

// marked runs a part of a program under an annotation; "" = none.
func (j *job) marked(name string, run func()) {
	note1 := func(stage string) {
		if j.now += 7; name != "" {
			j.notes = append(j.notes, note{stage: stage, name: name, time: j.now})
		}
	}
	note1("START")
	run()
	note1("END")
}

// drawnProgram returns the recording of a random program: it trains a model or serves one, may leak, and may have been recorded
// from a later step on.
func drawnProgram(t *rapid.T) *snapshot {
	j := &job{now: 1_752_000_000_000_000, room: map[bool]int64{}, free: map[int64][]int64{}, live: map[int64]block{}, stacks: map[string]*callers{}}
	sizes := rapid.SliceOfN(rapid.Map(rapid.Int64Range(1, 1<<14), func(n int64) int64 { return 1<<12 + n*1024 }), 2, 5).Draw(t, "layers")
	steps, trains := rapid.IntRange(3, 24).Draw(t, "steps"), rapid.Bool().Draw(t, "trains")
	leak := rapid.SampledFrom([]int64{0, 0, 4096, 1 << 20, 3 << 20}).Draw(t, "leak")
	each := rapid.SampledFrom([]string{"", "ProfilerStep#%d"}).Draw(t, "marks")
	optimizer := rapid.SampledFrom([]string{"", "Optimizer.step#Adam.step"}).Draw(t, "optimizer")
	evaluates := rapid.IntRange(2, 9).Draw(t, "evaluates")
	for i, n := range sizes {
		j.alloc(n/2, j.at(call{name: "__init__", file: modelFile, line: int64(10 + i)}))
	}
	var states []int64
	third := 0 // event with which a third of the steps is over
	for step := range steps {
		if step == steps/3 {
			third = len(j.trace)
		}
		name := each
		if name != "" {
			name = fmt.Sprintf(each, step)
		}
		j.marked(name, func() {
			j.step(sizes, trains, optimizer, &states)
			if leak > 0 {
				j.alloc(leak, j.at(call{name: "remember", file: mainFile, line: 33}))
			}
		})
		if trains && step%evaluates == evaluates-1 {
			j.step(sizes, false, "", nil)
		}
	}
	from := rapid.SampledFrom([]int{0, 0, third}).Draw(t, "from")
	return j.snapshot(from)
}

// step runs a forward pass and, if it trains, a backward pass and the optimizer.
func (j *job) step(sizes []int64, trains bool, optimizer string, states *[]int64) {
	kept := []int64{j.alloc(sizes[0]/3, j.at(call{name: "batch", file: mainFile, line: 20}))}
	for i, n := range sizes {
		kept = append(kept, j.alloc(n, j.forward(int64(30+2*i))))
		j.release(j.alloc(n/4, j.forward(int64(31+2*i))))
		if !trains && i > 0 {
			j.release(kept[i])
			kept[i] = 0
		}
	}
	if !trains {
		j.release(slices.DeleteFunc(kept, func(addr int64) bool { return addr == 0 })...)
		return
	}
	back := j.at(call{name: "_engine_run_backward", file: engineFile, line: 824}, call{name: "backward", file: engineFile, line: 353},
		call{name: "backward", file: tensorFile, line: 630})
	var gradients []int64
	for i := len(sizes) - 1; i >= 0; i-- {
		passed := j.alloc(sizes[i], back)
		gradients = append(gradients, j.alloc(sizes[i]/2, back))
		j.release(passed, kept[i+1])
	}
	j.release(kept[0])
	by := j.at(call{name: "_init_group", file: adamFile, line: 180}, call{name: "step", file: adamFile, line: 236})
	j.marked(optimizer, func() {
		for _, n := range sizes {
			if len(*states) < 2*len(sizes) {
				*states = append(*states, j.alloc(n/2, by), j.alloc(n/2, by))
			}
			j.release(j.alloc(n/2, j.at(call{name: "_multi_tensor_adam", file: adamFile, line: 600}, call{name: "step", file: adamFile, line: 246})))
		}
	})
	j.release(gradients...)
}

// snapshot returns the recording from an event on. A ring that drops events keeps annotations: they are in a ring of their own.
func (j *job) snapshot(from int) *snapshot {
	state := &state{0, map[int64]segment{}, j.live}
	for _, g := range j.segments {
		state.segments[g.addr] = g
	}
	segments, ok := state.filled()
	if !ok {
		panic("a block lies in no segment")
	}
	return &snapshot{traces: [][]event{j.trace[from:]}, segments: segments, notes: j.notes, rest: []any{"allocator_settings", &dict{}}}
}
