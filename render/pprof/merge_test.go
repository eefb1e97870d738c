package pprof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// site merges buffers with the given sizes and lifetimes and formats the cells as "count x mean size / mean
// lifetime".
func site(buffers [][2]int64) []string {
	var g siteCells
	for _, b := range buffers {
		g.add(&cell{size: b[0], life: b[1], count: 1, sizes: total{lo: uint64(b[0])}, lifes: total{lo: uint64(b[1])}})
	}
	g.sort()
	var out []string
	for _, c := range g.cells {
		out = append(out, fmt.Sprintf("%dx%d/%d", c.count, c.sizes.mean(c.count), c.lifes.mean(c.count)))
	}
	return out
}

func TestCells(t *testing.T) {
	var octaves, sizes [][2]int64
	for i := range 40 {
		octaves = append(octaves, [2]int64{1 << 20, 1 << i}, [2]int64{3 << 20, 1 << i})
		sizes = append(sizes, [2]int64{1 << i, 100})
	}
	for _, test := range []struct {
		name    string
		buffers [][2]int64
		want    []string
	}{
		{"one size", [][2]int64{{512, 10}, {512, 11}, {512, 12}}, []string{"3x512/11"}},
		{"classes apart", [][2]int64{{512, 1000}, {1024, 1}, {512, 1}}, []string{"1x512/1", "1x512/1000", "1x1024/1"}},
		{"two sizes of all lifetimes stay exact", octaves, []string{
			"31x1048576/69273666", "9x1048576/121929349347", "31x3145728/69273666", "9x3145728/121929349347"}},
		{"sizes of all classes blur", sizes, []string{
			"15x2184/100", "16x134215680/100", "9x121929349347/100"}},
	} {
		got := site(test.buffers)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: cells %q, want %q", test.name, got, test.want)
		}
	}
}

// TestCellsAnyOrder: a site has the same cells at the end in any order of its buffers.
func TestCellsAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		buffers := make([][2]int64, 1+r.IntN(60))
		shift, spread := r.IntN(40), r.IntN(40)
		for i := range buffers {
			buffers[i] = [2]int64{r.Int64N(1 << (1 + shift)), r.Int64N(1 << (1 + spread))}
		}
		want := site(buffers)
		if len(want) > maxCells {
			t.Fatalf("%d cells of %v, want at most %d", len(want), buffers, maxCells)
		}
		r.Shuffle(len(buffers), func(i, j int) { buffers[i], buffers[j] = buffers[j], buffers[i] })
		if got := site(buffers); !slices.Equal(got, want) {
			t.Fatalf("another order of %v: %q, want %q", buffers, got, want)
		}
	}
}

// TestLadder: each step joins whole classes of the previous step, and the last step fits any site.
func TestLadder(t *testing.T) {
	for i := 1; i < len(ladder); i++ {
		for v := int64(1); v < 1<<40; v = v*5/4 + 1 {
			for w := v; w < 1<<40; w = w*9/4 + 1 {
				fine, coarse := ladder[i-1], ladder[i]
				if class(v, fine.size) == class(w, fine.size) && class(v, coarse.size) != class(w, coarse.size) ||
					class(v, fine.life) == class(w, fine.life) && class(v, coarse.life) != class(w, coarse.life) {
					t.Fatalf("step %d parts %d and %d", i, v, w)
				}
			}
		}
	}
	last := ladder[len(ladder)-1]
	classes := (class(math.MaxInt64, last.size) + 1) * (class(math.MaxInt64, last.life) + 1)
	if classes > maxCells {
		t.Errorf("the last step has %d classes, a site only %d cells", classes, maxCells)
	}
}

func TestTotal(t *testing.T) {
	var sum total
	for range 10 {
		sum.add(total{lo: math.MaxInt64})
	}
	if got := sum.mean(10); got != math.MaxInt64 {
		t.Errorf("mean %d, want %d", got, int64(math.MaxInt64))
	}
	if got := units.AddSat(math.MaxInt64-1, 2); got != math.MaxInt64 {
		t.Errorf("saturated sum %d", got)
	}
}

// large returns a space of n buffers at a number of sites. The stacks of the sites are distinct and share most
// frames; lifetimes are up to a second.
func large(t testing.TB, n, sites, depth int) *lifetime.Capture {
	r := rand.New(rand.NewPCG(1, 2))
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "large.pickle", Format: "torchsnap"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0"})
	ids := make([]lifetime.SiteID, sites)
	for i := range ids {
		frames := make([]lifetime.FrameID, depth)
		for d := range frames {
			f := i / (d + 1) // deeper frames are shared by more stacks
			frames[d] = b.Frame(frame.Frame{Function: fmt.Sprintf("layer%d_f%d", d, f), File: fmt.Sprintf("/src/m%d.py", f%97), Line: f % 500})
		}
		ids[i] = b.Site(lifetime.Site{Stack: b.Stack(frames)})
	}
	type block struct {
		addr uint64
		size int64
	}
	var live []block
	for i := range n {
		at := int64(i) * 1000
		size := int64(512) << r.IntN(14) * int64(1+r.IntN(3))
		addr := uint64(i+1) << 25
		b.Alloc(s, at, build.Block{Addr: addr, Requested: size, Occupied: size, Site: ids[r.IntN(sites)]})
		live = append(live, block{addr, size})
		if len(live) > 1000 {
			k := r.IntN(len(live))
			b.Free(s, at+500, build.Block{Addr: live[k].addr, Requested: live[k].size, Occupied: live[k].size})
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		}
	}
	return finish(t, b)
}

// TestSamplesBounded: the number of samples depends on the sites, not on the buffers.
func TestSamplesBounded(t *testing.T) {
	c := large(t, 50_000, 100, 3)
	p := mustProfile(t, c, Options{})
	if len(p.Sample) > 100*maxCells {
		t.Errorf("%d samples for 100 sites", len(p.Sample))
	}
	if got, want := sums(p, "cuda:0")[inuseSpace], c.Spaces[0].Summary().Peak.Bytes; got != want {
		t.Errorf("%d bytes in use, want the peak %d", got, want)
	}
}

// BenchmarkProfile builds and writes the profile of a long training run: a million buffers on 5,000 stacks of
// 20 frames.
func BenchmarkProfile(b *testing.B) {
	captures := []*lifetime.Capture{large(b, 1_000_000, 5000, 20)}
	b.ReportAllocs()
	for b.Loop() {
		var w counter
		if err := Write(&w, captures, Options{}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(w), "file-bytes")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1_000_000, "ns/buffer")
}

// TestAllocations: memory is allocated once per sample, not per buffer.
func TestAllocations(t *testing.T) {
	const n = 200_000
	captures := []*lifetime.Capture{large(t, n, 50, 20)}
	per := testing.AllocsPerRun(1, func() {
		if err := Write(new(counter), captures, Options{}); err != nil {
			t.Fatal(err)
		}
	}) / n
	if per > 0.05 {
		t.Errorf("%.3f allocations per buffer", per)
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
