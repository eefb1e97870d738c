package blocks

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/plot"
)

// older returns a program that had a buffer of the given size and bytes without events before its recording.
func older(seed uint64, buffer, base int64) *program {
	p := random(seed, 200, cuda)
	if base > 0 {
		p.Total(p.space, lifetime.Total{T: p.now + 5, Bytes: base, Measure: lifetime.Requested})
	}
	if buffer > 0 {
		p.Live(p.space, build.Block{Addr: 1 << 20, Requested: buffer, Occupied: buffer, Site: p.Site(lifetime.Site{Unseen: true})})
	}
	return p
}

// TestBreak checks where the axis is broken: exactly where all that has events would be lower than an eighth of it.
func TestBreak(t *testing.T) {
	for seed := range uint64(6) {
		for _, sizes := range [][2]int64{{0, 0}, {900 * mib, 0}, {0, 900 * mib}, {200 << 30, 600 << 30}, {5 * mib, 3 * mib}, {1 << 40, 0}} {
			t.Run(fmt.Sprint(seed, sizes), func(t *testing.T) {
				c, s := older(seed, sizes[0], sizes[1]).finish(t)
				p, err := newPicture(judge.Of(c), s, Options{})
				if err != nil {
					t.Fatal(err)
				}
				below := sizes[0] + s.Base
				if want := below > 0 && (p.peak.Bytes-below)*8 < p.peak.Bytes; (p.Below > 0) != want || want && p.Below != uint64(below) {
					t.Fatalf("the axis is broken at %d, want %v at %d; the peak is %d", p.Below, want, below, p.peak.Bytes)
				}
				checkStack(t, c, s, Options{})
				checkSizes(t, p, read(t, render(t, c, s, Options{})))
			})
		}
	}
}

// checkSizes checks that the labels of the vertical axis tell the bytes at their heights, and that the break is said.
func checkSizes(t *testing.T, p *picture, d *drawing) {
	t.Helper()
	labels, said := 0, false
	for _, b := range d.texts {
		said = said || strings.Contains(b.s, units.Bytes(int64(p.Below))+", without events, not to scale")
		at := float64(p.Bottom)/10 + 4 - b.y // above the axis
		if b.anchor != "end" || math.Abs(b.x-float64(p.Left-80)/10) > .01 || at < 0 || at > float64(p.Bottom-p.Top)/10 {
			continue
		}
		labels++
		want, above, band := 0.0, b.s, 0.0
		if p.Below > 0 {
			band = plot.BreakHeight / 10
			switch rest, plus := strings.CutPrefix(b.s, "+"); {
			case b.s == units.Bytes(int64(p.Below)):
				want, above = band, "0"
			case plus:
				want, above = band, rest
			case b.s != "0":
				t.Errorf("label %q", b.s)
			}
		}
		if above != "0" {
			bytes, err := units.ParseBytes(above)
			if err != nil {
				t.Fatal(err)
			}
			want += float64(bytes) / float64(p.ceiling-p.Below) * (float64(p.Bottom-p.Top)/10 - band)
		}
		if math.Abs(at-want) > .11 {
			t.Errorf("the label %q is at %.1f, want %.1f", b.s, at, want)
		}
	}
	if labels < 2 || said != (p.Below > 0) {
		t.Errorf("%d labels, break said: %v", labels, said)
	}
}
