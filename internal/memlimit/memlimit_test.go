package memlimit

import (
	"runtime"
	"runtime/debug"
	heap "runtime/metrics"
	"strings"
	"testing"
	"time"
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

// TestPace: garbage is collected earlier while the heap is large.
func TestPace(t *testing.T) {
	Pace()
	percent := func() uint64 {
		sample := []heap.Sample{{Name: "/gc/gogc:percent"}}
		heap.Read(sample)
		return sample[0].Value.Uint64()
	}
	becomes := func(want uint64) {
		t.Helper()
		for begin := time.Now(); percent() != want; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("%d %%, want %d", percent(), want)
			}
			runtime.GC() // the pace follows in a goroutine
		}
	}
	becomes(100)
	large := make([]byte, 64<<20)
	becomes(50)
	runtime.KeepAlive(large)
	becomes(100)
}
