package oom

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/replay"
)

// noFacts are those of a recording without leaks that cannot be replayed.
var noFacts = Facts{
	Leaks:  func(*lifetime.Space) []Grown { return nil },
	Replay: func(*lifetime.Space) *replay.Recording { return nil },
}

// TestCycle: if the request would have fit without what waits for the garbage collector, the advice names the cycle.
func TestCycle(t *testing.T) {
	for requested, want := range map[int64]string{
		30: "Break the cycle A -> B -> A with del or weakref, or call gc.collect(): 40.0 MiB wait in it.",
		50: "",
	} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "x", Format: "torch-snapshot", Producer: "PyTorch"})
		s := b.Space()
		for i := range 10 {
			addr := uint64(i+1) << 24
			b.Alloc(s, int64(i), build.Block{Addr: addr, Requested: 10 << 20, Occupied: 10 << 20})
			if i < 4 {
				b.Hold(s, addr, b.Holder(holder.Holder{Kind: holder.ByCycle, Path: "A -> B -> A"}))
			}
		}
		b.Mark(s, lifetime.Mark{Begin: 20, End: 20, Kind: lifetime.OOM, Requested: requested << 20, Free: failure.BytesOf(0)})
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Limit: 100 << 20, Facts: lifetime.History})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		d := Of(&c.Tables, c.Spaces[0], 0, noFacts)[0]
		if want == "" && d.Advice == "" || want != "" && d.Advice != want {
			t.Errorf("%d MiB: %s, %q, want %q", requested, d.Reason, d.Advice, want)
		}
		if (d.Proof == "without it 60.0 MiB would be in use instead of 100 MiB") != (want != "") {
			t.Errorf("%d MiB: proof %q", requested, d.Proof)
		}
	}
}
