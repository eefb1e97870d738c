package finding_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestChanges: the allocations and frees of a function in each step. Events before the first step count towards it; without
// steps, the window is one step.
func TestChanges(t *testing.T) {
	for _, steps := range []int{0, 3} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "made"})
		s := b.Space()
		site := func(op string, callers ...string) lifetime.SiteID {
			var frames []lifetime.FrameID
			for _, f := range callers {
				frames = append(frames, b.Frame(frame.Frame{Function: f, Kind: frame.User}))
			}
			return b.Site(lifetime.Site{Op: op, Stack: b.Stack(frames)})
		}
		selected, called, operation, other := site("", "build", "main"), site("", "helper", "build", "main"), site("build_all"), site("",
			"load", "main")
		b.Free(s, 5, build.Block{Addr: 0x9000, Requested: 4096, Occupied: 4096}) // older than the window
		b.Alloc(s, 10, build.Block{Addr: 0x1000, Requested: 100, Occupied: 512, Site: selected})
		for i := range steps {
			b.Mark(s, lifetime.Mark{Begin: int64(20 + 100*i), End: int64(110 + 100*i), Kind: lifetime.Step, Text: "step"})
		}
		b.Alloc(s, 30, build.Block{Addr: 0x2000, Requested: 200, Occupied: 512, Site: called})
		b.Alloc(s, 40, build.Block{Addr: 0x3000, Requested: 300, Occupied: 512, Site: other})
		b.Free(s, 130, build.Block{Addr: 0x1000, Requested: 100, Occupied: 100})
		b.Alloc(s, 140, build.Block{Addr: 0x4000, Requested: 600, Occupied: 1024, Site: operation})
		b.Free(s, 150, build.Block{Addr: 0x3000, Requested: 300, Occupied: 300})
		b.Free(s, 230, build.Block{Addr: 0x4000, Requested: 600, Occupied: 600})
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		changes, inferred := finding.Changes(judge.Of(c).Program(), c.Spaces[0], finding.Settings{Function: regexp.MustCompile("build")})
		var got string
		for _, change := range changes {
			got += fmt.Sprintf("+%d %d/%d -%d %d/%d = %d; ", change.Allocated.Count, change.Allocated.Bytes, change.Allocated.Requested,
				change.Freed.Count, change.Freed.Bytes, change.Freed.Requested, change.Bytes())
		}
		want := map[int]string{0: "+3 2048/900 -2 1536/700 = 512; ",
			3: "+2 1024/300 -0 0/0 = 1024; +1 1024/600 -1 512/100 = 512; +0 0/0 -1 1024/600 = -1024; "}[steps]
		if got != want || inferred {
			t.Errorf("%d steps: %s, want %s (inferred %v)", steps, got, want, inferred)
		}
		if all, _ := finding.Changes(judge.Of(c).Program(), c.Spaces[0], finding.Settings{}); all[0].Allocated.Count < 3 {
			t.Errorf("%d steps: all functions: %+v", steps, all)
		}
	}
}

// TestSeverities parses the names of severities.
func TestSeverities(t *testing.T) {
	for _, s := range []finding.Severity{finding.Info, finding.Warning, finding.Critical} {
		if got, ok := finding.ParseSeverity(s.String()); got != s || !ok {
			t.Errorf("%s: %s %v", s, got, ok)
		}
	}
	if _, ok := finding.ParseSeverity("fatal"); ok {
		t.Error("fatal is accepted")
	}
}
