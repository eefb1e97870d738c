package build

import (
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// benchEvents makes n events of a training loop. Each step frees its buffers, except every
// 50th.
func benchEvents(n int) []event {
	rng := rand.New(rand.NewPCG(1, 1))
	var events []event
	var open []event
	next, unused := uint64(1<<20), []uint64{}
	for t := int64(1); len(events) < n; t++ {
		if len(open) > 0 && rng.IntN(2) == 0 || len(open) > 2000 {
			i := rng.IntN(len(open))
			e := open[i]
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
			if rng.IntN(50) > 0 {
				events = append(events, event{op: opFree, t: t, addr: e.addr, size: e.size, site: e.site})
				unused = append(unused, e.addr)
			}
			continue
		}
		addr := next
		if k := len(unused); k > 0 {
			addr, unused = unused[k-1], unused[:k-1]
		} else {
			next += 1 << 20
		}
		e := event{op: opAlloc, t: t, addr: addr, size: 1 + rng.Int64N(1<<20), site: lifetime.SiteID(rng.IntN(200))}
		events, open = append(events, e), append(open, e)
	}
	return events
}

func finishBench(b testing.TB, events []event, inOrder bool) *lifetime.Space {
	builder := New(Everything)
	builder.Source(lifetime.Source{})
	for i := range 200 {
		builder.Site(lifetime.Site{Op: string(rune('a' + i))})
	}
	s := builder.Space()
	if inOrder {
		builder.InOrder(s)
	}
	builder.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock})
	for i := range events {
		if e := &events[i]; e.op == opAlloc {
			builder.Alloc(s, e.t, Block{Addr: e.addr, Requested: e.size, Occupied: e.size, Site: e.site})
		} else {
			builder.Free(s, e.t, Block{Addr: e.addr, Requested: e.size, Site: e.site})
		}
	}
	c, err := builder.Finish()
	if err != nil {
		b.Fatal(err)
	}
	return c.Spaces[0]
}

// BenchmarkPairing makes the model of a million events.
func BenchmarkPairing(b *testing.B) {
	events := benchEvents(1 << 20)
	for name, inOrder := range map[string]bool{"InOrder": true, "AnyOrder": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				finishBench(b, events, inOrder)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/event")
		})
	}
}

// BenchmarkFold takes a million reports and keeps only the peak and the end.
func BenchmarkFold(b *testing.B) {
	reports := benchReports(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		foldBench(b, reports)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(reports)), "ns/event")
}

// benchReports are benchEvents as an allocator reports them.
func benchReports(n int) []lifetime.AllocatorEvent {
	var reports []lifetime.AllocatorEvent
	allocated := int64(0)
	for _, e := range benchEvents(n) {
		r := lifetime.AllocatorEvent{Free: e.op == opFree, Addr: e.addr, Requested: e.size, Occupied: e.size, Site: e.site, Stack: -1, Available: -1, Peak: -1}
		if r.Free {
			allocated -= e.size
		} else {
			allocated += e.size
		}
		r.Allocated = allocated
		reports = append(reports, r)
	}
	return reports
}

func foldBench(tb testing.TB, reports []lifetime.AllocatorEvent) {
	builder := New(PeakAndEnd)
	builder.Source(lifetime.Source{})
	for i := range 200 {
		builder.Site(lifetime.Site{Op: string(rune('a' + i))})
	}
	s := builder.Space()
	builder.ReportsInOrder(s)
	builder.Describe(s, lifetime.SpaceInfo{Facts: lifetime.Clock})
	for i := range reports {
		builder.Report(s, int64(i), &reports[i])
	}
	if _, err := builder.Finish(); err == nil {
		tb.Fatal("not folded")
	}
	if _, err := builder.FinishOutline(); err != nil {
		tb.Fatal(err)
	}
}

// TestAllocations limits the allocations of building and querying a model. They must grow
// with chunks and sites, not with events.
func TestAllocations(t *testing.T) {
	small, large := benchEvents(10_000), benchEvents(50_000)
	more := float64(len(large) - len(small))
	for name, run := range map[string]func([]event) float64{
		"pairing in order": func(events []event) float64 {
			return testing.AllocsPerRun(2, func() { finishBench(t, events, true) })
		},
		"pairing in any order": func(events []event) float64 {
			return testing.AllocsPerRun(2, func() { finishBench(t, events, false) })
		},
		"fold": func(events []event) float64 {
			reports := benchReports(len(events))
			return testing.AllocsPerRun(2, func() { foldBench(t, reports) })
		},
		"peak and usage": func(events []event) float64 {
			s := finishBench(t, events, true)
			return testing.AllocsPerRun(2, func() {
				s.Peak(lifetime.Requested)
				s.Summary()
				s.LevelAt(s.AtEnd(), lifetime.Occupied)
			})
		},
		"breakdown": func(events []event) float64 {
			s := finishBench(t, events, true)
			return testing.AllocsPerRun(2, func() { s.Breakdown(s.AtEnd()) })
		},
	} {
		fixed, all := run(small), run(large)
		if perEvent := (all - fixed) / more; perEvent > 0.01 || fixed > 2000 {
			t.Errorf("%s: %.4f allocations per event, %.0f for the first %d", name, perEvent, fixed, len(small))
		}
	}
}

// BenchmarkQueries runs the queries of every command on half a million buffers.
func BenchmarkQueries(b *testing.B) {
	s := finishBench(b, benchEvents(1<<20), true)
	for _, q := range []struct {
		name string
		ask  func()
	}{
		{"Peak", func() { s.Peak(lifetime.Occupied) }},
		{"Summary", func() { s.Summary() }},
		{"Breakdown", func() { s.Breakdown(s.AtEnd()) }},
	} {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q.ask()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.Buffers)), "ns/buffer")
		})
	}
}
