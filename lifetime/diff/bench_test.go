package diff_test

import (
	"fmt"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// twoCaptures returns two equal captures with buffers of several sites. The sites that keeps selects leak.
func twoCaptures(t testing.TB, spaces, sites, buffers int, keeps func(site int) bool) (captures [2]*judge.Capture) {
	for i := range captures {
		builder := build.New(build.Everything)
		builder.Source(lifetime.Source{})
		var ids []lifetime.SiteID
		for i := range sites {
			frame := builder.Frame(frame.Frame{Function: fmt.Sprint("f", i), File: "main.py", Line: i})
			ids = append(ids, builder.Site(lifetime.Site{Stack: builder.Stack([]lifetime.FrameID{frame})}))
		}
		for k := range spaces {
			s := builder.Space()
			builder.InOrder(s)
			builder.Describe(s, lifetime.SpaceInfo{Device: fmt.Sprint("cuda:", k)})
			for i := range int64(buffers / spaces) {
				builder.Alloc(s, 2*i, build.Block{Addr: uint64(i) << 20, Requested: 1 << 20, Occupied: 1 << 20, Site: ids[int(i)%sites]})
				if old := i - int64(sites); old >= 0 && (old/int64(sites)%2 == 0 || !keeps(int(old)%sites)) {
					builder.Free(s, 2*i+1, build.Block{Addr: uint64(old) << 20, Requested: 1 << 20, Occupied: 1 << 20})
				}
			}
		}
		c, err := builder.Finish()
		if err != nil {
			t.Fatal(err)
		}
		captures[i] = judge.Of(c)
	}
	return captures
}

func noLeak(int) bool { return false }

// TestAllocations: a comparison makes no buffer anew.
func TestAllocations(t *testing.T) {
	const n = 100_000
	c := twoCaptures(t, 1, 50, n, noLeak)
	per := testing.AllocsPerRun(1, func() { diff.Compare(judge.Of(c[0].Capture), judge.Of(c[1].Capture)) }) / (2 * n)
	if per > 0.03 { // the sites have some dozens each
		t.Errorf("%.3f allocations per buffer", per)
	}
}

// BenchmarkCompare compares two captures of a quarter of a million buffers each:
// in one space, in ten thousand, and where every one of five thousand sites leaks.
func BenchmarkCompare(b *testing.B) {
	const n = 1 << 18
	for _, bench := range []struct {
		name          string
		spaces, sites int
		keeps         func(int) bool
	}{{"OneSpace", 1, 500, noLeak}, {"Spaces", 10_000, 5, noLeak}, {"Leaks", 1, 5000, func(int) bool { return true }}} {
		b.Run(bench.name, func(b *testing.B) {
			c := twoCaptures(b, bench.spaces, bench.sites, n, bench.keeps)
			b.ReportAllocs()
			for b.Loop() {
				diff.Compare(judge.Of(c[0].Capture), judge.Of(c[1].Capture))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*n), "ns/buffer")
		})
	}
}
