package pprof

import (
	"cmp"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/fleet"
)

// WriteFleet writes the sites of a fleet, as Fleet.Sites returns them, as one gzipped profile.proto: a sample for
// each, with the sums over all memories. The sample types are those of captures; what
// is in use is so at the peak of each memory, and the number memories says in how many
// the site is. Equal fleets give the same bytes.
func WriteFleet(w io.Writer, f *fleet.Fleet, sites []fleet.SiteSum) error {
	b := newBuilder(Options{})
	b.numUnits["memories"] = []string{"count"}
	captures, memories := 0, int64(0)
	var base, stack int64
	for r := range f.Records() {
		if r.State == fleet.Read {
			captures++
		}
		for i := range r.Memories {
			memories++
			base = lifetime.AddSat(base, r.Memories[i].Base)
			stack = lifetime.AddSat(stack, r.Memories[i].Stack)
		}
	}
	for _, extra := range []struct {
		name  string
		bytes int64
	}{{beforeWindow, base}, {besideHeap, stack}} {
		if extra.bytes != 0 {
			b.profile.Sample = append(b.profile.Sample, b.extra(extra.name, extra.bytes, nil))
		}
	}
	inuse := lifetime.AddSat(base, stack)
	for _, s := range sites {
		inuse = lifetime.AddSat(inuse, s.AtPeak.Bytes)
		b.profile.Sample = append(b.profile.Sample, b.fleetSample(&s))
	}
	b.profile.Comments = []string{
		fmt.Sprintf("fleet: %s captures read of %s, %s memories", units.Count(int64(captures)), units.Count(int64(f.Len())), units.Count(memories)),
		fmt.Sprintf("in use: %s, that of each memory at its own peak", units.Exact(inuse)),
	}
	return compress(w, b.profile)
}

func (b *builder) fleetSample(s *fleet.SiteSum) *profile.Sample {
	var stack []*profile.Location
	op := s.Site.Op
	for i := range s.Site.Frames {
		stack = append(stack, b.locationOf(&s.Site.Frames[i]))
	}
	if len(stack) == 0 {
		stack, op = []*profile.Location{b.location(cmp.Or(op, noStack), "", 0)}, ""
	}
	return &profile.Sample{
		Location: stack,
		Value: []int64{allocObjects: s.Allocated.Count, allocSpace: s.Allocated.Bytes,
			inuseObjects: s.AtPeak.Count, inuseSpace: s.AtPeak.Bytes, leakedSpace: s.Leaked.Bytes},
		Label:    siteLabels{kind: "buffer", op: op, region: s.Site.Region, shape: s.Site.Shape, dtype: s.Site.DType}.on(nil),
		NumLabel: map[string][]int64{"memories": {int64(s.Memories)}},
		NumUnit:  b.numUnits,
	}
}
