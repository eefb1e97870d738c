package memlimit

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestWatch: a heap that exceeds the limit after the reading is reported once. While captures are read, Check reports it, and then only
// Check.
func TestWatch(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	const limit = 64 << 20
	taken := make([]byte, limit)
	watched := func() (*Limit, chan error) {
		l := New(limit, "--max-memory")
		full := make(chan error, 2)
		t.Cleanup(l.Watch(func(err error) { full <- err }))
		return l, full
	}
	reading, none := watched()
	if debug.SetMemoryLimit(-1) >= limit {
		t.Error("garbage is collected beyond the limit only")
	}
	reading.Reading(true)
	collect()
	if err := reading.Check(); err == nil || !strings.HasPrefix(err.Error(), "it does not fit in the 64.0 MiB of --max-memory: ") {
		t.Errorf("while reading: %v", err)
	}
	reading.Reading(false)
	collect()
	select {
	case err := <-none:
		t.Fatalf("reported again: %v", err)
	default:
	}

	writing, full := watched()
	writing.Reading(true)
	writing.Reading(false)
	var err error
	for err == nil {
		collect()
		select {
		case err = <-full:
		default:
		}
	}
	if !strings.Contains(err.Error(), "are in use; raise the limit") {
		t.Errorf("after reading: %v", err)
	}
	runtime.KeepAlive(taken)
}

// collect collects garbage until finalizers have run.
func collect() {
	for range 3 {
		runtime.GC()
		runtime.Gosched()
	}
}
