package chart

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

func miniature(t *testing.T, name string, sizes ...int64) *Miniature {
	t.Helper()
	m, err := NewMiniature(name, run(t, name, sizes...).Spaces[0])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func drawnMultiples(t *testing.T, panels []*Miniature, more int, o Options) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := Multiples(&w, "ranks", panels, more, o); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

func TestMultiplesGoldens(t *testing.T) {
	panels := []*Miniature{
		miniature(t, "rank 0", 30<<20, 50<<20, 20<<20), miniature(t, "rank <&> \"1\"", 30<<20, 20<<20, 10<<20, 5<<20),
		miniature(t, "rank 2, and a name that is much longer than its panel is wide", 1<<20, 2<<20, 3<<20, 4<<20, 3<<20, 2<<20, 1<<20),
		miniature(t, "rank 3", 150<<20, 90<<20),
	}
	golden(t, "multiples-two", drawnMultiples(t, panels[:2], 0, Options{Theme: canvas.Dark}))
	panels[3].Outlier, panels[3].Why = "peak", "rank 3 differs from the other 3 ranks"
	golden(t, "multiples-odd", drawnMultiples(t, panels, 3, Options{Width: 600}))
}

// TestMultiplesScale checks that every panel is inside the picture, and that its peak
// has the right height on the common axis, for 1 to 64 panels.
func TestMultiplesScale(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := 1; n <= 64; n += 1 + n/3 {
		var panels []*Miniature
		want := map[string]int64{}
		for i := range n {
			c := run(t, "a", sizes(r)[:4+r.IntN(4)]...)
			if i%2 == 0 {
				c = run(t, "a", sizes(r)...)
			}
			m, err := NewMiniature(fmt.Sprint("rank ", i), c.Spaces[0])
			if err != nil {
				t.Fatal(err)
			}
			panels, want[m.Name] = append(panels, m), c.Spaces[0].Peak(lifetime.Occupied).Bytes
		}
		picture := drawnMultiples(t, panels, 0, Options{Width: 480 + r.IntN(1000)})
		peaks, pixel := peaksOf(t, string(picture))
		if len(peaks) != n || len(picture) > 1e6 {
			t.Errorf("%d panels of %d, in %d bytes", len(peaks), n, len(picture))
		}
		for name, bytes := range want {
			if math.Abs(peaks[name]-float64(bytes)) > pixel {
				t.Errorf("%d panels: %s has a drawn peak of %.0f, want %d; a pixel is %.0f", n, name, peaks[name], bytes, pixel)
			}
		}
		inside(t, string(picture))
	}
}

// inside checks that every area is inside the picture.
func inside(t *testing.T, picture string) {
	t.Helper()
	var width, height float64
	_, size, _ := strings.Cut(picture, `viewBox="0 0 `)
	if _, err := fmt.Sscanf(size, "%f %f", &width, &height); err != nil {
		t.Fatal(err)
	}
	for _, m := range areas.FindAllStringSubmatch(picture, -1) {
		x, y := 0.0, 0.0
		for _, move := range moves.FindAllStringSubmatch(m[1], -1) {
			switch move[1] {
			case "M":
				x, y = number(t, move[2]), number(t, move[3])
			case "h":
				x += number(t, move[2])
			case "v":
				y += number(t, move[2])
			}
			if x < 0 || x > width || y < 0 || y > height {
				t.Fatalf("%s reaches %.1f, %.1f in a picture of %.0f x %.0f", m[2], x, y, width, height)
			}
		}
	}
}

// TestCoarser checks that merging columns gives the same curve as sampling fewer columns.
func TestCoarser(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		s := run(t, "a", sizes(r)...).Spaces[0]
		for _, by := range []int{1, 2, 3, 4} {
			fine := newCurve(plot.Window{From: s.Begin, To: s.End, Columns: miniatureColumns}, s.Levels(lifetime.Occupied))
			if want := newCurve(plot.Window{From: s.Begin, To: s.End, Columns: miniatureColumns / by}, s.Levels(lifetime.Occupied)); !fine.coarser(by).near(want, 0) || !slices.Equal(fine.coarser(by).at, want.at) {
				t.Errorf("merging %d columns into one gives another curve than sampling", by)
			}
		}
	}
}

func TestMultiplesRefuses(t *testing.T) {
	if _, err := NewMiniature("a", run(t, "a").Spaces[0]); !errors.Is(err, errNothing) {
		t.Error(err)
	}
}

// TestOthers checks that the panels of other spaces below a picture have its scale of bytes, and are inside it.
func TestOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	c := run(t, "a", 2<<30, 1<<30, 1<<30)
	s := c.Spaces[0]
	for n := 1; n <= plot.MostOthers; n++ {
		o := Options{Width: 480 + r.IntN(1000)}
		want := map[string]float64{}
		u, err := newUsage(c, s, o.withDefaults(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			other := run(t, "a", sizes(r)[:4+r.IntN(4)]...).Spaces[0]
			other.Device = fmt.Sprint("cuda:", i+1)
			o.Others = append(o.Others, other)
			peak := other.Peak(lifetime.Occupied).Bytes
			want[other.Device] = float64(peak) / float64(u.Ceiling(u.most())) * float64(plot.OtherHeight) / 10
		}
		var picture bytes.Buffer
		if err := Usage(&picture, judge.Of(c), s, o); err != nil {
			t.Fatal(err)
		}
		peaks, pixel := peaksOf(t, picture.String())
		for device, high := range want {
			if drawn := peaks[device] / pixel; math.Abs(drawn-high) > 0.2 {
				t.Errorf("%d panels: %q is %.1f pixels high, want %.1f", n, device, drawn, high)
			}
		}
		inside(t, picture.String())
	}
}
