package lifetime

import (
	"math/rand/v2"
	"testing"
)

// benchEvents makes n events of a training loop: buffers of a step are freed in
// the step, every 50th stays.
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
		e := event{op: opAlloc, t: t, addr: addr, size: 1 + rng.Int64N(1<<20), site: SiteID(rng.IntN(200))}
		events, open = append(events, e), append(open, e)
	}
	return events
}

func finishBench(b *testing.B, events []event, inOrder bool) *Space {
	builder := NewBuilder()
	builder.Source(Source{})
	for i := range 200 {
		builder.Site(Site{Op: string(rune('a' + i))})
	}
	s := builder.Space()
	if inOrder {
		builder.InOrder(s)
	}
	builder.Describe(s, Space{Facts: Clock})
	for i := range events {
		if e := &events[i]; e.op == opAlloc {
			builder.Alloc(s, e.t, e.addr, e.size, 0, e.site)
		} else {
			builder.Free(s, e.t, e.addr, e.size, e.site)
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

// BenchmarkQueries asks for what every command asks for, over half a million
// buffers.
func BenchmarkQueries(b *testing.B) {
	s := finishBench(b, benchEvents(1<<20), true)
	for _, q := range []struct {
		name string
		ask  func()
	}{
		{"Peak", func() { s.Peak(Occupied) }},
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
