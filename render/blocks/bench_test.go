package blocks

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
)

// large is a space of n buffers of a training loop: steps of 500 buffers with nested
// lifetimes, and every hundredth buffer stays alive for long. As in real programs, the
// sizes have few different values of all magnitudes.
func large(t testing.TB, n int) (*lifetime.Capture, *lifetime.Space) {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	p := newProgram("large.bin", cuda)
	var sites []lifetime.SiteID
	for i := range 40 {
		sites = append(sites, p.at(fmt.Sprintf("layer_%d", i), "model.py", 10+i))
	}
	now, top := int64(0), uint64(firstAddress)
	type block struct {
		addr uint64
		size int64
	}
	var kept []block
	for made := 0; made < n; {
		var stack []block
		for range min(500, n-made) {
			made++
			now += int64(1 + r.IntN(1000))
			b := block{top, int64(512) << r.IntN(14) * int64(1+r.IntN(7))}
			site := sites[r.IntN(len(sites))]
			if made%100 == 0 {
				b.addr = 2*firstAddress + uint64(made/100%80)*uint64(32*mib)
				kept = append(kept, b)
				if len(kept) > 60 {
					p.Free(p.space, now, build.Block{Addr: kept[0].addr, Requested: kept[0].size, Occupied: kept[0].size})
					kept = kept[1:]
					now++
				}
			} else {
				top += uint64(b.size)
				stack = append(stack, b)
			}
			p.Alloc(p.space, now, build.Block{Addr: b.addr, Requested: b.size, Occupied: b.size, Site: site})
		}
		for i := len(stack) - 1; i >= 0; i-- {
			now += int64(1 + r.IntN(1000))
			p.Free(p.space, now, build.Block{Addr: stack[i].addr, Requested: stack[i].size, Occupied: stack[i].size})
		}
		top = firstAddress
	}
	c, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c, c.Spaces[0]
}

// TestAllocations limits the allocations per buffer of a large space.
func TestAllocations(t *testing.T) {
	const n = 200_000
	c, s := large(t, n)
	for _, l := range []Layout{Stacked, Address} {
		var size counter
		per := testing.AllocsPerRun(1, func() {
			size = 0
			if err := Write(&size, judge.Of(c), s, Options{Layout: l}); err != nil {
				t.Fatal(err)
			}
		}) / n
		if per > 0.5 {
			t.Errorf("layout %d: %.3f allocations per buffer", l, per)
		}
		if size > 2_000_000 {
			t.Errorf("layout %d: %d bytes", l, size)
		}
	}
}

// BenchmarkWrite draws whole pictures.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000, 1000000} {
		c, s := large(b, n)
		for _, l := range []Layout{Stacked, Address} {
			b.Run(fmt.Sprintf("%s/%d", [...]string{"stacked", "address"}[l], n), func(b *testing.B) {
				var size counter
				b.ReportAllocs()
				for b.Loop() {
					size = 0
					if err := Write(&size, judge.Of(c), s, Options{Layout: l}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.Buffers)), "ns/buffer")
				b.ReportMetric(float64(size), "bytes")
			})
		}
	}
}

// BenchmarkBlock measures the work per written rectangle.
func BenchmarkBlock(b *testing.B) {
	c, s := large(b, 50000)
	p, err := newPicture(judge.Of(c), s, Options{Layout: Address})
	if err != nil {
		b.Fatal(err)
	}
	l := p.place(p.m)
	b.ReportAllocs()
	for b.Loop() {
		if p.Page, err = canvas.New(canvas.SVG, canvas.Page{}); err != nil {
			b.Fatal(err)
		}
		p.blocks(&l)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(l.shapes)), "ns/rectangle")
	b.ReportMetric(float64(len(l.shapes)), "rectangles")
}

// counter counts the written bytes.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
