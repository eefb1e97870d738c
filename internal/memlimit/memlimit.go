// Package memlimit limits the memory of captures to --max-memory, or to what the system
// gives the program.
//
// Its place in the pipeline: beside the readers. Programs call [Limit.Check] while they read
// captures.
package memlimit

import (
	"fmt"
	"runtime"
	heap "runtime/metrics"
	"sync"

	"github.com/memlane/memlane/internal/units"
)

// Limit bounds the memory of captures; nil does not bound it. It does not set
// debug.SetMemoryLimit, near which the garbage collector runs more often.
type Limit struct {
	limit int64  // in bytes
	of    string // what sets it
	model int64  // the part of it for captures

	mu   sync.Mutex // files are read ahead
	next int64      // heap size in bytes at which to collect garbage and check again
	full error      // the error of all further checks
}

// partForModel is the part of a limit for captures. The rest is for sorting, analysing and
// drawing them.
const partForModel = 0.4

// New returns a limit of limit bytes. of names what sets it: --max-memory.
func New(limit int64, of string) *Limit {
	model := int64(partForModel * float64(limit))
	return &Limit{limit: limit, of: of, model: model, next: model}
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
		l.full = fmt.Errorf("it does not fit in the %s of %s: %s are taken so far, and the analysis needs as much again; "+
			"raise the limit, or record for a shorter time", units.Bytes(l.limit), l.of, units.Bytes(live))
	}
	return l.full
}

// heapBytes returns the size of all objects on the heap in bytes, including garbage.
func heapBytes() int64 {
	sample := []heap.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap.Read(sample)
	return int64(sample[0].Value.Uint64())
}
