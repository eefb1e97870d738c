package memlimit

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestWatch: a heap that exceeds the limit after the reading is reported once; while captures are read, Check reports it.
func TestWatch(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	const limit = 64 << 20
	l := New(limit, "--max-memory")
	full := make(chan error, 2)
	defer l.Watch(func(err error) { full <- err })()
	if debug.SetMemoryLimit(-1) >= limit {
		t.Error("garbage is collected beyond the limit only")
	}
	taken := make([]byte, limit)
	for range 3 { // a finalizer runs after the collection
		runtime.GC()
	}
	if err := l.Check(); err == nil || !strings.HasPrefix(err.Error(), "it does not fit in the 64.0 MiB of --max-memory: ") {
		t.Errorf("while reading: %v", err)
	}
	select {
	case err := <-full:
		t.Fatalf("reported while reading: %v", err)
	default:
	}
	l.Reading(true)
	l.Reading(false)
	var err error
	for err == nil {
		runtime.GC()
		select {
		case err = <-full:
		default:
			runtime.Gosched()
		}
	}
	if !strings.Contains(err.Error(), "are in use; raise the limit") {
		t.Errorf("after reading: %v", err)
	}
	runtime.KeepAlive(taken)
}
