package report

import (
	"fmt"
	"io"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/pprof"
)

// writeProfile writes the call sites of a fleet as a heap profile, with a sample for each that
// sums all memories. In-use figures are those at the peak of each memory.
func writeProfile(w io.Writer, d *Data) error {
	memories := int64(0)
	var base, stack int64
	for r := range d.Fleet.Records() {
		for i := range r.Memories {
			memories++
			base = units.AddSat(base, r.Memories[i].Base)
			stack = units.AddSat(stack, r.Memories[i].Stack)
		}
	}
	var sums []pprof.Sum
	if base != 0 {
		sums = append(sums, pprof.Sum{Frames: pprof.BeforeWindow, InUse: lifetime.Amount{Bytes: base}})
	}
	if stack != 0 {
		sums = append(sums, pprof.Sum{Frames: pprof.OutsideHeap, InUse: lifetime.Amount{Bytes: stack}})
	}
	for i := range d.Sites {
		sums = append(sums, sumOf(&d.Sites[i]))
	}
	inUse := int64(0)
	for i := range sums {
		inUse = units.AddSat(inUse, sums[i].InUse.Bytes)
	}
	return pprof.WriteSums(w, sums, []string{
		fmt.Sprintf("fleet: %s of %s captures read, %s devices", units.Count(int64(len(d.Read))), units.Count(int64(d.Fleet.Len())), units.Count(memories)),
		fmt.Sprintf("in use: %s, each memory at its own peak", units.Exact(inUse)),
	})
}

func sumOf(s *fleet.SiteSum) pprof.Sum {
	frames, _ := s.Site.Tables().Shown(1)
	return pprof.Sum{Frames: frames, Site: lifetime.Site{Op: s.Site.Op, Region: s.Site.Region, Shape: s.Site.Shape, DType: s.Site.DType},
		Allocated: s.Allocated, InUse: s.AtPeak, Leaked: s.Leaked.Bytes, Memories: s.Memories}
}
