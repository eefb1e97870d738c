package leak_test

import (
	"fmt"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// BenchmarkFind looks for leaks among a million buffers of 500 stacks, five of
// which leak.
func BenchmarkFind(b *testing.B) {
	const n, sites = 1 << 20, 500
	builder := lifetime.NewBuilder()
	builder.Source(lifetime.Source{})
	s := builder.Space()
	builder.InOrder(s)
	main := builder.Frame(lifetime.Frame{Function: "main", File: "main.py", Line: 1})
	var ids []lifetime.SiteID
	for i := range sites {
		leaf := builder.Frame(lifetime.Frame{Function: fmt.Sprint("f", i), File: "main.py", Line: i + 2})
		ids = append(ids, builder.Site(lifetime.Site{Stack: builder.Stack([]lifetime.FrameID{leaf, main})}))
	}
	for i := range int64(n) {
		builder.Alloc(s, 2*i, uint64(i)<<20, 1<<20, 0, ids[i%sites])
		if old := i - 1000; old >= 0 && old%sites >= 5 {
			builder.Free(s, 2*i+1, uint64(old)<<20, 1<<20, 0)
		}
	}
	builder.Describe(s, lifetime.Space{})
	c, err := builder.Finish()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if found := leak.Find(c, c.Spaces, leak.Settings{}); len(found) < 5 {
			b.Fatalf("%d leaks", len(found))
		}
	}
}
