// Package room holds what is read of captures within the memory that --max-memory
// leaves to it.
//
// Its place in the pipeline: beside the readers. Whoever opens captures asks a Room
// while they are read.
package room

import (
	"fmt"
	"runtime"
	heap "runtime/metrics"
	"sync"

	"github.com/memlane/memlane/internal/units"
)

// Room is the memory that is left to what is read of captures; nil where there is no
// limit. The program's own limit (debug.SetMemoryLimit) is for its user to set: the
// collector of garbage works harder the less is left.
type Room struct {
	limit int64 // of the flag, in bytes
	model int64 // most of it that captures may take

	mu   sync.Mutex // files are read ahead
	next int64      // when to look again, in bytes of the heap
	full error      // what Check returned, and goes on to
}

// partForModel is the part of a limit that what is read may take: a space is sorted
// when it is complete, and then judged and drawn.
const partForModel = 0.4

// New returns the room in limit bytes.
func New(limit int64) *Room {
	model := int64(partForModel * float64(limit))
	return &Room{limit: limit, model: model, next: model}
}

// Check returns an error once what is kept, garbage excluded, leaves too little.
func (r *Room) Check() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full != nil || heapBytes() < r.next {
		return r.full
	}
	runtime.GC() // garbage does not count
	live := heapBytes()
	r.next = live + r.model/8
	if live > r.model {
		r.full = fmt.Errorf("it does not fit in the %s of --max-memory: %s are taken so far, and as much again is needed to look at it; "+
			"give it more, or record a shorter window", units.Bytes(r.limit), units.Bytes(live))
	}
	return r.full
}

// heapBytes returns the memory of all that is on the heap, garbage included where it
// was not collected yet.
func heapBytes() int64 {
	sample := []heap.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap.Read(sample)
	return int64(sample[0].Value.Uint64())
}
