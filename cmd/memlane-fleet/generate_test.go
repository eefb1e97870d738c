package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/internal/pickletest"
)

var captures = flag.Int("captures", 100, "how many captures the tests of engines make")

// training contains the captures of a job, one per rank: two ranks leak, one has twice the
// peak of the others, six captures are damaged, one of them kills the program, and one was never written.
type training struct {
	names   []string // of all captures, in the order of ranks
	list    string   // a file with a name on each line
	leaking []string // ranks
	peak    string   // the rank
	damaged []string
	missing string
}

// newTraining writes n captures into a folder.
func newTraining(t testing.TB, dir string, n int) *training {
	t.Helper()
	j := &training{list: filepath.Join(dir, "captures.txt")}
	at := func(tenths int) int { return tenths * n / 10 } // the ranks with anomalies
	anomalies := map[int]func(*rank){
		at(1): func(r *rank) { r.leaks = true },
		at(5): func(r *rank) { r.leaks = true },
		at(7): func(r *rank) { r.doubled = true },
	}
	damage := map[int]func([]byte) []byte{
		at(2): func(b []byte) []byte { return b[:12] }, // in the first key
		at(3): noisy,
		at(4): func([]byte) []byte { return []byte("#!/bin/sh\necho no capture\n") },
		at(6): func([]byte) []byte { return nil },
		at(8): func(b []byte) []byte { return noisy(compressed(b)) },

		at(5) + 1: func([]byte) []byte { return []byte("poison: kill\n") },
	}
	for i := range n {
		r := newRank(i)
		if anomalies[i] != nil {
			anomalies[i](r)
		}
		data := r.capture()
		name := filepath.Join(dir, fmt.Sprintf("rank%04d.pickle", i))
		if damage[i] != nil {
			data = damage[i](data)
			j.damaged = append(j.damaged, name)
		} else if i%3 == 0 {
			data = compressed(data)
			name += ".gz"
		}
		switch {
		case r.leaks:
			j.leaking = append(j.leaking, fmt.Sprintf("rank %d", i))
		case r.doubled:
			j.peak = fmt.Sprintf("rank %d", i)
		}
		j.names = append(j.names, name)
		if i == at(9) {
			j.missing = name
			continue
		}
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(j.list, []byte(lines(j.names)), 0o666); err != nil {
		t.Fatal(err)
	}
	return j
}

// noisy returns b with some inverted bits, except in the first bytes, which identify the
// format.
func noisy(b []byte) []byte {
	b = bytes.Clone(b)
	for i := 64; i < len(b); i += 23 {
		b[i] ^= 1 << (i % 8)
	}
	return b
}

func compressed(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b) // neither fails: it is memory that they write to
	w.Close()
	return out.Bytes()
}

// rank is the GPU allocator of a rank in training. Every place in the program has a separate
// buffer, so that addresses do not change between steps.
type rank struct {
	rnd            *rand.Rand
	leaks, doubled bool
	bucket         int  // bytes of a gradient bucket that others do not have
	fragmented     bool // more is reserved than others reserve, and free
	moved          int  // lines by which the program is another version
	fails          bool // in its last step

	clock  int // microseconds
	next   int // the first address that nothing has had yet
	events pickletest.List
}

const (
	steps  = 9
	layers = 3
	mib    = 1 << 20
)

func newRank(i int) *rank {
	return &rank{rnd: rand.New(rand.NewPCG(11, uint64(i))), clock: 1_700_000_000_000_000 + 1000*i, next: 0x7f00_0000_0000}
}

// buffer is a place in the program and in memory.
type buffer struct {
	address, size int
	frames        *pickletest.Shared
	alive         bool
}

// at returns a new buffer with the stack lines, innermost first.
func (r *rank) at(size int, lines ...*pickletest.Shared) *buffer {
	frames := make(pickletest.List, len(lines))
	for i, line := range lines {
		frames[i] = line
	}
	b := &buffer{address: r.next, size: size, frames: pickletest.Share(frames)}
	r.next += size
	return b
}

func (r *rank) frame(function, file string, number int) *pickletest.Shared {
	return frame(function, file, number+r.moved)
}

func frame(function, file string, number int) *pickletest.Shared {
	return pickletest.Share(pickletest.Dict{"name", function, "filename", "/job/" + file, "line", number})
}

// capture returns the output of torch.cuda.memory._dump_snapshot after some steps of
// training.
func (r *rank) capture() []byte {
	main, step, forward := r.frame("main", "train.py", 90), r.frame("train_step", "train.py", 41), r.frame("forward", "model.py", 27)
	linear, loss, record := r.frame("linear", "layers.py", 14), r.frame("cross_entropy", "layers.py", 66), r.frame("record_loss", "metrics.py", 8)
	gradient, evaluate := r.frame("backward", "train.py", 47), r.frame("evaluate", "train.py", 73)

	var all []*buffer
	add := func(b *buffer) *buffer {
		all = append(all, b)
		return b
	}
	for range layers { // older than the recording
		add(r.at(8*mib, r.frame("__init__", "model.py", 12), main)).alive = true
	}
	var activations, gradients []*buffer
	for range layers {
		activations = append(activations, add(r.at((3+r.rnd.IntN(3))*mib/2, linear, forward, step, main)))
		gradients = append(gradients, add(r.at(2*mib, gradient, step, main)))
	}
	logits := add(r.at(mib, loss, step, main))
	if r.bucket > 0 {
		r.alloc(add(r.at(r.bucket, r.frame("new_bucket", "reducer.py", 31), main)))
	}
	for i := range steps {
		for _, b := range activations {
			r.alloc(b)
		}
		r.alloc(logits)
		if r.leaks {
			r.alloc(add(r.at(mib, record, step, main)))
		}
		if r.doubled && i == steps/2 {
			b := add(r.at(40*mib, evaluate, main))
			r.alloc(b)
			r.free(b)
		}
		r.free(logits)
		for k := layers - 1; k >= 0; k-- {
			r.alloc(gradients[k])
			r.free(activations[k])
		}
		for _, b := range gradients {
			r.free(b)
		}
	}
	if r.fails {
		for _, b := range activations {
			r.alloc(b)
		}
		r.events = append(r.events, pickletest.Dict{"action", "oom", "addr", 0, "size", 900 * mib, "stream", 0, "time_us", r.clock + 1, "device_free", mib,
			"compile_context", "N/A", "frames", logits.frames})
	}
	const start = 0x7f00_0000_0000
	var blocks pickletest.List
	inUse := 0
	for _, b := range all {
		state, frames := "inactive", any(pickletest.List{})
		if b.alive {
			state, frames = "active_allocated", b.frames
			inUse += b.size
		}
		blocks = append(blocks, pickletest.Dict{"address", b.address, "size", b.size, "requested_size", b.size, "state", state, "frames", frames})
	}
	segment := func(address, size, inUse int, blocks pickletest.List) pickletest.Dict {
		return pickletest.Dict{"device", 0, "address", address, "total_size", size, "allocated_size", inUse, "active_size", inUse, "requested_size", inUse, "stream", 0,
			"segment_type", "large", "segment_pool_id", pickletest.Tuple{0, 0}, "is_expandable", false, "frames", pickletest.List{}, "blocks", blocks}
	}
	segments := pickletest.List{segment(start, r.next-start, inUse, blocks)}
	if r.fragmented {
		const at, size = start + 1<<40, 200 * mib
		segments = append(segments, segment(at, size, 0, pickletest.List{
			pickletest.Dict{"address", at, "size", size, "requested_size", size, "state", "inactive", "frames", pickletest.List{}},
		}))
	}
	return pickletest.Pickle(pickletest.Dict{
		"segments", segments,
		"device_traces", pickletest.List{r.events},
		"allocator_settings", pickletest.Dict{"PYTORCH_CUDA_ALLOC_CONF", "", "expandable_segments", false},
		"external_annotations", pickletest.List{},
	})
}

func (r *rank) alloc(b *buffer) {
	r.record("alloc", b)
	b.alive = true
}

func (r *rank) free(b *buffer) {
	r.record("free_requested", b)
	r.record("free_completed", b)
	b.alive = false
}

func (r *rank) record(action string, b *buffer) {
	r.clock += 1 + r.rnd.IntN(50)
	r.events = append(r.events, pickletest.Dict{"action", action, "addr", b.address, "size", b.size, "stream", 0, "time_us", r.clock,
		"compile_context", "N/A", "frames", b.frames})
}
