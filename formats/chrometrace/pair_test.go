package chrometrace_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestSameRun compares a trace with the memory snapshot of the same run: every buffer has
// the same address, size and order, and the same lifetime within 21 us. The profiler
// reads the clock a little later.
func TestSameRun(t *testing.T) {
	for _, name := range []string{"cuprof_leak", "t215_cuprof_leak"} {
		trace := seen(t, open(t, traceOf(t, captures+"/"+name)))
		snapshot := seen(t, open(t, "../../testdata/torchsnap/"+name+".pickle"))
		if len(trace) != len(snapshot) || len(trace) < 50 {
			t.Fatalf("%s: %d buffers in the trace, %d in the snapshot", name, len(trace), len(snapshot))
		}
		events := 0
		for i := range trace {
			a, b := &trace[i], &snapshot[i]
			const within = 21_000 // nanoseconds: 20 us, and rounding in the snapshot
			open, same := b.Edge&lifetime.EndOpen, a.Edge&lifetime.EndOpen == b.Edge&lifetime.EndOpen
			events += 2
			if open != 0 {
				events--
			}
			if a.Addr != b.Addr || !same || distance(a.Begin, b.Begin) > within || open == 0 && distance(a.End, b.End) > within || a.Size != b.Size {
				t.Errorf("%s: buffer %d is %+v in the trace, %+v in the snapshot", name, i, *a, *b)
			}
		}
		t.Logf("%s: %d events", name, events)
	}
}

// seen returns the buffers of cuda:0 with a recorded allocation.
func seen(t *testing.T, c *lifetime.Capture) (buffers []lifetime.Buffer) {
	t.Helper()
	for _, s := range c.Spaces {
		if s.Device != "cuda:0" {
			continue
		}
		for _, b := range s.Buffers {
			if b.Edge&lifetime.BeginUnseen == 0 {
				buffers = append(buffers, b)
			}
		}
	}
	return buffers
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
