// Package memlimit limits the memory of captures to --max-memory, or to what the system
// gives the program, and says how early garbage is collected.
//
// Its place in the pipeline: beside the readers. Programs call [Limit.Check] while they read
// captures, and [Limit.Watch] if they also analyse and write them; memlane calls [Pace] first.
package memlimit

import (
	"fmt"
	"runtime"
	"runtime/debug"
	heap "runtime/metrics"
	"sync"
	"sync/atomic"

	"github.com/memlane/memlane/internal/units"
)

// Limit bounds the memory of captures; nil does not bound it. Without Watch it does not
// set debug.SetMemoryLimit, near which the garbage collector runs more often.
type Limit struct {
	limit int64  // in bytes
	of    string // what sets it
	model int64  // the part of it for captures

	mu   sync.Mutex // files are read ahead
	next int64      // heap size in bytes at which to collect garbage and check again
	full error      // the error of all further checks

	reading atomic.Int64 // captures
	began   atomic.Bool  // a capture was read
}

// watched is the part of a limit that objects may take while Watch watches. The rest is for garbage, stacks and gaps.
const watched = 0.8

// partForModel is the part of a limit for captures. The rest is for sorting, analysing and drawing them.
const partForModel = 0.4

// New returns a limit of limit bytes. of names what sets it: --max-memory.
func New(limit int64, of string) *Limit {
	model := int64(partForModel * float64(limit))
	return &Limit{limit: limit, of: of, model: model, next: model}
}

// System returns the limit of ulimit -v or of the control group (the container), which would end the program with a
// crash; nil if there is none.
func System() *Limit {
	of := "ulimit -v"
	left, limited := addressSpaceLeft()
	if group, ok := groupMemory("/"); ok && (!limited || group < left) {
		left, limited, of = group, true, "the control group"
	}
	if !limited {
		return nil
	}
	return New(left, of)
}

// Check returns an error if the heap without garbage exceeds the part for captures.
func (l *Limit) Check() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil || heapBytes() < l.next {
		return l.full
	}
	runtime.GC()
	live := heapBytes()
	l.next = live + l.model/8
	if live > l.model {
		l.full = l.tooSmall(live, "are taken so far, and the analysis needs more")
	}
	return l.full
}

func (l *Limit) tooSmall(live int64, taken string) error {
	return fmt.Errorf("it does not fit in the %s of %s: %s %s; raise the limit, or record for a shorter time",
		units.Bytes(l.limit), l.of, units.Bytes(live), taken)
}

// Reading says that another capture is being read, or one no longer. While any is, Check reports a full heap, which
// knows the capture, and Watch does not.
func (l *Limit) Reading(begins bool) {
	switch {
	case l == nil:
	case begins:
		l.reading.Add(1)
	default:
		l.reading.Add(-1)
		l.began.Store(true)
	}
}

// Short reports whether the heap, garbage included, exceeds half of the part for captures: then only one is to be read
// at a time.
func (l *Limit) Short() bool { return l != nil && heapBytes() > l.model/2 }

// Watch calls full, with an error as Check returns it, if the heap without garbage exceeds the limit at any later time:
// while captures are analysed or written, that is after the first Reading(false). It sets debug.SetMemoryLimit, so that
// garbage is collected in time, and leaves more of the limit to Check. It returns a function that ends the watch. full
// may be called once more after that.
func (l *Limit) Watch(full func(error)) (stop func()) {
	l.model = int64(watched * float64(l.limit))
	l.next = l.model
	debug.SetMemoryLimit(max(int64((1+watched)/2*float64(l.limit)), 1))
	var stopped atomic.Bool
	afterCollection(func() bool {
		if stopped.Load() {
			return false
		}
		live := liveBytes()
		if live > l.model && l.began.Load() && l.reading.Load() <= 0 && !l.reported() {
			full(l.tooSmall(live, "are in use"))
			return false
		}
		return true
	})
	return func() { stopped.Store(true) }
}

// reported reports whether Check returned an error, with which the command ends.
func (l *Limit) reported() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full != nil
}

// afterCollection calls check after each garbage collection until it returns false: when the finalizer of an
// unreachable object runs.
func afterCollection(check func() bool) {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		if check() {
			afterCollection(check)
		}
	})
}

// The heap may grow by so many percent of what is in use before its garbage is collected. A heap is large if it has
// more than largeHeap bytes in use. Measured: a large one takes 15 to 30 % less memory than with 100, and about the
// same time.
const (
	largeHeap                  = 16 << 20
	smallPercent, largePercent = 100, 50
)

// Pace sets debug.SetGCPercent by the size of the heap, from now on.
func Pace() {
	percent := 0
	pace := func() bool {
		want := smallPercent
		if liveBytes() >= largeHeap {
			want = largePercent
		}
		if want != percent {
			percent = want
			debug.SetGCPercent(percent)
		}
		return true
	}
	pace()
	afterCollection(pace)
}

// sentinel is an object of its own: the runtime gathers small ones without pointers.
type sentinel struct{ _ *sentinel }

// liveBytes returns the size of the objects that the last garbage collection found in use.
func liveBytes() int64 {
	sample := []heap.Sample{{Name: "/gc/heap/live:bytes"}}
	heap.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// heapBytes returns the size of all objects on the heap in bytes, including garbage.
func heapBytes() int64 {
	sample := []heap.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap.Read(sample)
	return int64(sample[0].Value.Uint64())
}
