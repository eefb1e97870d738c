package finding_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
)

// TestRingOverflow checks that rates count only the steps that a ring buffer kept: marks reach back further.
func TestRingOverflow(t *testing.T) {
	const steps, kept, leaked = 400, 60, 128 << 10
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "torch-snapshot"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.EndState})
	site, other := b.Site(lifetime.Site{Op: "keep"}), b.Site(lifetime.Site{Op: "work"})
	addr := uint64(1 << 30)
	for step := range int64(steps) {
		b.Mark(s, lifetime.Mark{Kind: lifetime.Step, Begin: step * 1000, End: step*1000 + 999})
		block := build.Block{Addr: addr, Requested: leaked, Occupied: leaked, Site: site}
		addr += leaked
		b.Live(s, block)
		if step < steps-kept {
			continue
		}
		b.Alloc(s, step*1000+10, block)
		work := build.Block{Addr: 1 << 20, Requested: 4096, Occupied: 4096, Site: other}
		b.Alloc(s, step*1000+20, work)
		b.Free(s, step*1000+30, work)
	}
	b.RingFull(s)
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	found := find(t, c, finding.Settings{})
	if len(found) == 0 || found[0].BytesPerStep != leaked || !strings.Contains(found[0].Description, "the history begins at step 340 of 400") {
		t.Errorf("%+v", found)
	}
	if first := found[0].Value(finding.FigBeganStep); first != steps-kept {
		t.Errorf("it began at step %v", first)
	}
}
