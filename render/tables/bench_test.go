package tables_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/render/tables"
	_ "github.com/memlane/memlane/render/tables/parquet"
)

// history is a space of n buffers at a thousand sites. Each buffer lives until a thousand more were allocated.
func history(t testing.TB, n int) *lifetime.Capture {
	const sites = 1000
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.InOrder(s)
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	var ids []lifetime.SiteID
	for i := range sites {
		frame := b.Frame(frame.Frame{Function: fmt.Sprint("f", i), File: "model.py", Line: i})
		ids = append(ids, b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{frame})}))
	}
	for i := range int64(n) {
		b.Alloc(s, 2*i, build.Block{Addr: uint64(i) << 20, Requested: 512 * (1 + i%99), Occupied: 512 * (1 + i%99), Site: ids[i%sites]})
		if old := i - sites; old >= 0 {
			b.Free(s, 2*i+1, build.Block{Addr: uint64(old) << 20, Requested: 0, Occupied: 0})
		}
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writers are the writers of tables with their limit of allocations per row. CSV formats each number into a
// string.
var writers = []struct {
	name  string
	write func(io.Writer, *lifetime.Capture, string) error
	most  float64
}{{"Parquet", tables.WriteParquet, 0.1}, {"CSV", tables.WriteCSV, 10}}

func TestAllocations(t *testing.T) {
	const n = 150_000 // more than a group of rows
	c := history(t, n)
	for _, w := range writers {
		per := testing.AllocsPerRun(1, func() {
			if err := w.write(io.Discard, c, tables.Buffers); err != nil {
				t.Fatal(err)
			}
		}) / n
		if per > w.most {
			t.Errorf("%s: %.2f allocations per buffer", w.name, per)
		}
	}
}

// BenchmarkWrite writes a table of a quarter of a million buffers.
func BenchmarkWrite(b *testing.B) {
	const n = 1 << 18
	c := history(b, n)
	for _, w := range writers {
		b.Run(w.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := w.write(io.Discard, c, tables.Buffers); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/buffer")
		})
	}
}
