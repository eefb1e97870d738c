package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// TestAnyFacts: whatever a file claims, a replay ends, and counts no more than was recorded.
func TestAnyFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
		addr := func() uint64 {
			return rapid.SampledFrom([]uint64{0, 1, 512, 1 << 20, 2 << 20, 0x7f0000000000, 0x7f0000000200, math.MaxUint64 - 1023, math.MaxUint64}).Draw(t, "addr")
		}
		size := func() int64 {
			return rapid.SampledFrom([]int64{0, 1, 511, 513, 1 << 20, 2 << 20, 20 << 20, 1 << 40, 1 << 56, math.MaxInt64}).Draw(t, "size")
		}
		block := func() build.Block {
			return build.Block{Addr: addr(), Requested: size(), Occupied: size(), Inferred: rapid.Bool().Draw(t, "inferred")}
		}
		region := func() lifetime.Region {
			kind := rapid.SampledFrom([]string{"small", "large", lifetime.Expandable}).Draw(t, "kind")
			return lifetime.Region{Addr: addr(), Size: size(), Kind: kind, Small: rapid.Bool().Draw(t, "small"), Stream: rapid.Int64Range(0, 1).Draw(t, "stream"),
				Pool: rapid.SampledFrom([]string{"", "", "0,1"}).Draw(t, "pool")}
		}
		for i := range int64(rapid.IntRange(1, 40).Draw(t, "facts")) {
			switch rapid.IntRange(0, 8).Draw(t, "fact") {
			case 0:
				b.Reserve(s, i, region())
			case 1:
				b.Release(s, i, region())
			case 2:
				b.FreeRequested(s, i, block())
			case 3:
				b.Free(s, i, block())
			case 4:
				b.Live(s, block())
			case 5:
				b.LiveRegion(s, region())
			case 6:
				b.Mark(s, lifetime.Mark{Begin: i, End: i, Kind: lifetime.OOM, Requested: size(), Free: lifetime.BytesOf(size())})
			default:
				b.Alloc(s, i, block())
			}
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		h := Of(c.Spaces[0], nil)
		if h == nil {
			return
		}
		if law := h.Verify(); law.Equal > law.Addresses || law.SegmentsEqual > law.Segments {
			t.Fatalf("%+v", law)
		}
		o := h.RunBoth(drawSettings(t), Device{Capacity: size(), Fraction: rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "fraction")})
		if o.PeakReserved < 0 || o.PeakLive < 0 {
			t.Fatalf("%+v", o)
		}
	})
}
