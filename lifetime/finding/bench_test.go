package finding_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
)

// job is a program with many call sites that allocate once per step.
type job struct {
	sites, steps int
	oneLine      bool // all call sites are calls of one line

	kept func(site, step int) bool // the buffer is never freed; otherwise the next allocation of the site frees it
	size func(site, step int) int64
}

// capture returns the capture of a run.
func (j job) capture(t testing.TB) *lifetime.Capture {
	builder := build.New(build.Everything)
	builder.Source(lifetime.Source{})
	s := builder.Space()
	builder.InOrder(s)
	main := builder.Frame(frame.Frame{Function: "main", File: "main.py", Line: 1})
	var ids []lifetime.SiteID
	for i := range j.sites {
		at := []lifetime.FrameID{builder.Frame(frame.Frame{Function: fmt.Sprint("f", i), File: "main.py", Line: i + 2}), main}
		if j.oneLine {
			at = slices.Insert(at, 0, builder.Frame(frame.Frame{Function: "f", File: "main.py", Line: 1}))
		}
		ids = append(ids, builder.Site(lifetime.Site{Stack: builder.Stack(at)}))
	}
	type block struct {
		addr uint64
		size int64
	}
	last := make([]block, j.sites)
	now, addr := int64(0), uint64(1<<30)
	for step := range j.steps {
		for site := range j.sites {
			b := block{addr, j.size(site, step)}
			addr += uint64(b.size)
			builder.Alloc(s, now, build.Block{Addr: b.addr, Requested: b.size, Occupied: b.size, Site: ids[site]})
			now++
			if old := last[site]; old.size > 0 {
				builder.Free(s, now, build.Block{Addr: old.addr, Requested: old.size, Occupied: old.size})
				now++
			}
			if last[site] = b; j.kept(site, step) {
				last[site] = block{}
			}
		}
	}
	builder.Describe(s, lifetime.SpaceInfo{})
	c, err := builder.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// jobs returns programs with few leaks and with many, and one in which all buffers grow from step to step, as with longer
// sequences.
func jobs(buffers, sites int) map[string]job {
	even := func(int, int) int64 { return 1 << 20 }
	steps := buffers / sites
	return map[string]job{
		"FewLeaks": {sites, steps, false, func(site, _ int) bool { return site < 5 }, even},
		"AllLeak":  {sites, steps, false, func(_, step int) bool { return step%2 == 0 }, even},
		"Subsets":  {sites, steps, false, func(site, step int) bool { return (site*7919+step*104729)>>4%3 > 0 }, even},
		"AllGrow": {sites, steps, false, func(int, int) bool { return false }, func(site, step int) int64 {
			return int64(step+1) * int64(4096+
				512*site)
		}},
	}
}

// TestAllocations: the rules allocate much less than once per buffer.
func TestAllocations(t *testing.T) {
	const buffers = 100_000
	for name, j := range jobs(buffers, 50) {
		c := j.capture(t)
		per := testing.AllocsPerRun(1, func() { judge.Of(c).Findings() }) / buffers
		if per > 0.1 {
			t.Errorf("%s: %.3f allocations per buffer", name, per)
		}
	}
}

// TestMergedBytes: to tell whether the buffers of a line with many call sites grow, their histories are not copied.
func TestMergedBytes(t *testing.T) {
	const buffers = 100_000
	c := job{5, buffers / 5, true, func(site, step int) bool { return site == 0 && step == 0 },
		func(site, step int) int64 { return int64(1+(site*7919+step*104729)>>4%9) << 12 }}.capture(t) // 5 are too few to be judged together
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	finding.Find(judge.Of(c), c.Spaces, finding.Settings{Rules: finding.LeakRules()})
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / buffers; per > 250 {
		t.Errorf("%d bytes per buffer", per)
	}
}

// BenchmarkFind runs the rules on a quarter of a million buffers.
func BenchmarkFind(b *testing.B) {
	const buffers = 1 << 18
	for _, sites := range []int{500, 5000} {
		for name, j := range jobs(buffers, sites) {
			c := j.capture(b)
			b.Run(fmt.Sprintf("%s/%d", name, sites), func(b *testing.B) {
				b.ReportAllocs()
				found := 0
				for b.Loop() {
					found = len(judge.Of(c).Findings())
				}
				b.ReportMetric(float64(found), "findings")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(c.Spaces[0].Buffers)), "ns/buffer")
			})
		}
	}
}
