// Package memlimit keeps what is read of captures within --max-memory.
//
// Its place in the pipeline: beside the readers. Whoever opens captures calls
// [Limit.Check] while they are read.
package memlimit

import (
	"fmt"
	"runtime"
	heap "runtime/metrics"
	"sync"

	"github.com/memlane/memlane/internal/units"
)

// Limit bounds the memory that captures may take; nil is no limit. The program's own
// limit (debug.SetMemoryLimit) is for its user to set: near it the garbage collector
// works harder.
type Limit struct {
	limit int64 // of the flag, in bytes
	model int64 // most of it that captures may take

	mu   sync.Mutex // files are read ahead
	next int64      // when to look again, in bytes of the heap
	full error      // what Check returned, and returns from then on
}

// partForModel is the part of a limit that captures may take: a space is sorted when it
// is complete, and then judged and drawn.
const partForModel = 0.4

// New returns a limit in bytes.
func New(limit int64) *Limit {
	model := int64(partForModel * float64(limit))
	return &Limit{limit: limit, model: model, next: model}
}

// Check returns an error once the heap, garbage excluded, leaves too little of the
// limit.
func (l *Limit) Check() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil || heapBytes() < l.next {
		return l.full
	}
	runtime.GC() // garbage does not count
	live := heapBytes()
	l.next = live + l.model/8
	if live > l.model {
		l.full = fmt.Errorf("it does not fit in the %s of --max-memory: %s are taken so far, and the analysis needs as much again; "+
			"give it more, or record a shorter window", units.Bytes(l.limit), units.Bytes(live))
	}
	return l.full
}

// heapBytes returns the memory of all that is on the heap, garbage included where it
// was not collected yet.
func heapBytes() int64 {
	sample := []heap.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap.Read(sample)
	return int64(sample[0].Value.Uint64())
}
