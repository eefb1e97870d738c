package blocks

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/plot"
)

// usageAt counts the bytes alive at t, one buffer after the other.
func usageAt(s *lifetime.Space, t int64) int64 {
	sum := s.Base + s.StackAt(t)
	for i := range s.Buffers {
		if b := &s.Buffers[i]; b.Begin <= t && (t < b.End || b.Edge&lifetime.EndOpen != 0) {
			sum += b.Size
		}
	}
	return sum
}

// envelope returns the highest usage in each of n equal parts of [from, to): at the
// start of the part, and at every change inside.
func envelope(s *lifetime.Space, from, to int64, n int) []int64 {
	var times []int64
	for i := range s.Buffers {
		times = append(times, s.Buffers[i].Begin, s.Buffers[i].End)
	}
	for _, l := range s.Stack {
		times = append(times, l.At)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	levels := make([]int64, len(times))
	for i, t := range times {
		levels[i] = usageAt(s, t)
	}
	env := make([]int64, n)
	for k := range env {
		// The part is [from + lo/n, from + hi/n).
		lo, hi := int64(k)*(to-from), int64(k+1)*(to-from)
		env[k] = usageAt(s, from+lo/int64(n))
		for i, t := range times {
			if at := (t - from) * int64(n); at >= lo && at < hi {
				env[k] = max(env[k], levels[i])
			}
		}
	}
	return env
}

// checkStack checks that the blocks of every column have neither gaps nor overlaps, and
// that their top is the usage, to scale, above a break of the axis too.
func checkStack(t *testing.T, c *lifetime.Capture, s *lifetime.Space, o Options) {
	t.Helper()
	p, err := newPicture(judge.Of(c), s, o)
	if err != nil {
		t.Fatal(err)
	}
	d := read(t, render(t, c, s, o))
	env := envelope(s, p.From, p.To, len(p.cols.at))
	peak := slices.Max(env)
	if p.peak.Bytes != peak {
		t.Errorf("peak %d, want %d", p.peak.Bytes, peak)
	}
	for k, bytes := range env {
		x20 := 2*int(p.columnX(k)) + columnWidth
		var spans [][2]int
		for i := range d.outlines {
			spans = append(spans, d.outlines[i].at(x20)...)
		}
		slices.SortFunc(spans, func(a, b [2]int) int { return b[1] - a[1] })
		y := int(p.Bottom)
		for _, sp := range spans {
			if sp[1] != y {
				t.Fatalf("column %d: a block begins at %d, the block below ends at %d", k, sp[1], y)
			}
			y = sp[0]
		}
		below, band := int64(p.Below), int64(0)
		if below > 0 {
			band = plot.BreakHeight
		}
		want := int(band + ((bytes-below)*(int64(p.Bottom-p.Top)-band)+(peak-below)/2)/(peak-below))
		if got := int(p.Bottom) - y; got != want {
			t.Fatalf("column %d: the blocks have a height of %d, want %d", k, got, want)
		}
	}
}

func TestStackIsUsage(t *testing.T) {
	for seed := range uint64(12) {
		desc := cuda
		if seed%3 == 1 {
			desc = lifetime.SpaceInfo{Device: "cpu", Axis: lifetime.Event}
		}
		p := random(seed, 30+int(seed*seed)*9, desc)
		if seed%4 == 2 { // bytes without events
			p.Total(p.space, lifetime.Total{T: p.now + 5, Bytes: 300 * mib, Measure: lifetime.Requested})
		}
		if seed%3 == 0 { // a stack outside the heap that changes, also between two events
			for i := range int64(1 + seed) {
				p.StackReserved(p.space, p.now*i/int64(1+seed), (i*7%5)*40*mib)
			}
		}
		c, s := p.finish(t)
		if (seed%4 == 2) != (s.Base > 0) {
			t.Errorf("seed %d: base %d", seed, s.Base)
		}
		for i, o := range []Options{
			{}, {MaxBlocks: 15}, {MaxBlocks: 1, Color: BySize}, {Color: ByLeak, Width: 500, Height: 300},
		} {
			t.Run(fmt.Sprintf("%d/%d", seed, i), func(t *testing.T) { checkStack(t, c, s, o) })
		}
	}
	p := training(9, 4, true)
	c, s := p.finish(t)
	checkStack(t, c, s, Options{Marks: p.marks(s)})
	checkStack(t, c, s, Options{Marks: p.marks(s), Color: ByLeak})
	checkStack(t, c, s, Options{Marks: p.marks(s), Color: ByLeak, MaxBlocks: 9})
	if p, _ := newPicture(judge.Of(c), s, Options{}); p.peak != s.Peak(lifetime.Occupied) {
		t.Errorf("peak %v, want %v", p.peak, s.Peak(lifetime.Occupied))
	}
}

// TestAddressesDoNotOverlap checks that blocks are rectangles that do not overlap.
func TestAddressesDoNotOverlap(t *testing.T) {
	for seed := range uint64(8) {
		p := random(seed, 200+int(seed)*300, cuda)
		if seed%2 == 0 {
			for i := range uint64(40) {
				p.LiveRegion(p.space, lifetime.Region{Addr: firstAddress + i*uint64(2*mib), Size: 2 * mib, Kind: "small"})
			}
		}
		c, s := p.finish(t)
		d := read(t, render(t, c, s, Options{Layout: Address}))
		var blocks []shapeBox
		for _, o := range d.outlines {
			if strings.Contains(o.title, "\noffset ") {
				blocks = append(blocks, o)
			}
		}
		if len(blocks) < 20 {
			t.Fatalf("%d blocks", len(blocks))
		}
		for i, a := range blocks {
			a0, a1 := a.points[0], a.points[2]
			if len(a.points) != 4 && len(a.points) != 5 || a1[0]-a0[0] < smallest || a1[1]-a0[1] < smallest {
				t.Fatalf("not a rectangle: %v", a)
			}
			for _, b := range blocks[:i] {
				b0, b1 := b.points[0], b.points[2]
				if a0[0] < b1[0] && b0[0] < a1[0] && a0[1] < b1[1] && b0[1] < a1[1] {
					t.Fatalf("overlap:\n%v\n%v", a, b)
				}
			}
		}
	}
}

func TestSameBytes(t *testing.T) {
	for _, l := range []Layout{Stacked, Address} {
		var first []byte
		for range 3 {
			p := training(6, 5, true)
			c, s := p.finish(t)
			svg := render(t, c, s, Options{Layout: l, Marks: p.marks(s), MaxBlocks: 100})
			if first != nil && !bytes.Equal(svg, first) {
				t.Errorf("layout %d: two drawings differ", l)
			}
			first = svg
		}
	}
}

// TestMillionBuffers checks the size of a picture of a million buffers, and its count of
// buffers that were drawn together.
func TestMillionBuffers(t *testing.T) {
	n := 1000000
	if testing.Short() {
		n = 50000
	}
	c, s := large(t, n)
	for _, l := range []Layout{Stacked, Address} {
		svg := render(t, c, s, Options{Layout: l})
		d := read(t, svg)
		if len(svg) > 2e6 {
			t.Errorf("layout %d: %d bytes", l, len(svg))
		}
		p, err := newPicture(judge.Of(c), s, Options{Layout: l})
		if err != nil {
			t.Fatal(err)
		}
		lay := p.stack()
		if l == Address {
			lay = p.place(p.m)
		}
		if got := int64(len(lay.shapes)) + lay.rest.count; got != int64(n) {
			t.Errorf("layout %d: %d of %d buffers", l, got, n)
		}
		if want := fmt.Sprintf("%d,%03d small", lay.rest.count/1000, lay.rest.count%1000); !strings.Contains(d.desc, want) {
			t.Errorf("layout %d: %q does not contain %q", l, d.desc, want)
		}
		together := lay.rest.bytes + s.Base
		for _, sh := range lay.shapes {
			if b := &s.Buffers[sh.buffer]; aliveAt(b, p.peak.At) {
				together += b.Size
			}
		}
		if together != p.peak.Bytes {
			t.Errorf("layout %d: shapes and the rest sum to %d bytes at the peak, want %d", l, together, p.peak.Bytes)
		}
	}
}

// TestOthers checks that panels of other spaces have the scale of the picture: their areas are as high as their levels.
func TestOthers(t *testing.T) {
	c, s := random(3, 300, cuda).finish(t)
	for i, n := range []int{1, 5, 11} {
		o := Options{}
		var want []int64
		for k := range n {
			_, other := random(uint64(20*i+k), 60, lifetime.SpaceInfo{Device: fmt.Sprint("cuda:", k+1), Axis: lifetime.Time}).finish(t)
			o.Others = append(o.Others, other)
			want = append(want, other.Peak(lifetime.Occupied).Bytes)
		}
		p, err := newPicture(judge.Of(c), s, o)
		if err != nil {
			t.Fatal(err)
		}
		d := read(t, render(t, c, s, o))
		heights := map[string]int{} // an area may have several outlines
		for _, a := range d.outlines {
			if device, _, ok := strings.Cut(a.title, "\npeak "); ok {
				low, high := a.points[0][1], a.points[0][1]
				for _, q := range a.points {
					low, high = max(low, q[1]), min(high, q[1])
				}
				heights[device] = max(heights[device], low-high)
			}
		}
		if len(heights) != min(n, plot.MostOthers) {
			t.Fatalf("%d panels, want %d", len(heights), min(n, plot.MostOthers))
		}
		for k := range len(heights) {
			h := heights[fmt.Sprint("cuda:", k+1)]
			if exact := float64(min(want[k], int64(p.ceiling))) * float64(plot.OtherHeight) / float64(p.ceiling); float64(h) < exact-1 || float64(h) > exact+1 {
				t.Errorf("panel %d: %d high, want %.1f", k, h, exact)
			}
		}
		if more := strings.Contains(string(render(t, c, s, o)), "3 more are not shown"); more != (n == 11) {
			t.Errorf("%d panels: more are not shown: %v", n, more)
		}
	}
}

// TestAddressAreas checks that the area of a colour is its bytes over time, as far as pixels can show it: two cells per column.
func TestAddressAreas(t *testing.T) {
	for seed := range uint64(6) {
		desc := cuda
		p := random(seed, 300+int(seed)*700, desc)
		c, s := p.finish(t)
		for _, height := range []int{240, 900} {
			o := Options{Layout: Address, Color: BySize, Height: height}
			q, err := newPicture(judge.Of(c), s, o)
			if err != nil {
				t.Fatal(err)
			}
			l := q.place(q.m)
			if l.rest.count < 50 {
				t.Fatalf("seed %d: only %d buffers are drawn together", seed, l.rest.count)
			}
			want, got := make([]float64, len(q.classes)), make([]float64, len(q.classes))
			q.each(func(i int, class uint8) {
				a := q.exact(q.m, &s.Buffers[i])
				want[class] += (a.end - a.x) * (a.hi - a.lo)
			})
			for _, sh := range l.shapes {
				a := q.exact(q.m, &s.Buffers[sh.buffer])
				got[sh.class] += (a.end - a.x) * (a.hi - a.lo)
			}
			for _, o := range read(t, render(t, c, s, o)).outlines {
				name, rest, _ := strings.Cut(o.title, "\n")
				if !strings.Contains(rest, "small or short-lived") {
					continue
				}
				class := slices.IndexFunc(q.classes, func(c class) bool { return c.name == name })
				low, high := o.points[0], o.points[0]
				for _, at := range o.points {
					low, high = [2]int{min(low[0], at[0]), min(low[1], at[1])}, [2]int{max(high[0], at[0]), max(high[1], at[1])}
				}
				got[class] += float64(high[0]-low[0]) * float64(high[1]-low[1])
			}
			most := 2 * 10 * float64(q.Right-q.Left)
			for k := range want {
				if d := got[k] - want[k]; d > most || d < -most {
					t.Errorf("seed %d, height %d, %s: drawn %.0f, bytes over time %.0f, at most %.0f apart", seed, height, q.classes[k].name, got[k], want[k], most)
				}
			}
		}
	}
}
