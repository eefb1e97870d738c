package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	heap "runtime/metrics"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
)

// room is the memory that --max-memory leaves to what is read of captures; nil where
// there is no limit.
type room struct {
	limit int64 // of the flag, in bytes
	model int64 // most of it that captures may take

	mu   sync.Mutex // files are read ahead
	next int64      // when to look again, in bytes of the heap
	full error      // what check returned, and goes on to
}

// partForModel is the part of --max-memory that what is read may take: a space is
// sorted when it is complete, and then judged and drawn.
const partForModel = 0.4

// roomFor returns what --max-memory allows. The collector of garbage is told too: it
// works harder the less is left.
func roomFor(c *cli.Context) (*room, error) {
	text := c.String("max-memory")
	if text == "" {
		return nil, nil
	}
	limit, err := units.ParseBytes(text)
	if err != nil || limit <= 0 {
		return nil, fail(statusUsage, "--max-memory %q: want a size, as 2GiB", text)
	}
	debug.SetMemoryLimit(limit)
	model := int64(partForModel * float64(limit))
	return &room{limit: limit, model: model, next: model}, nil
}

// check returns an error once what is kept, garbage excluded, leaves too little.
func (r *room) check() error {
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
