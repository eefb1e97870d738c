package chart

import (
	"fmt"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// pieces is the fragmentation over time, as XProf defines it: the share of the free
// memory outside its largest piece.
type pieces struct {
	curve   *curve // in hundredths of a percent; nil if not recorded
	samples int    // 0 if the allocator reported the fragmentation
}

// whole is a fragmentation of 1.
const whole = 10000

func newPieces(w plot.Window, s *lifetime.Space) pieces {
	if levels := reported(s); len(levels) > 0 {
		return pieces{newCurve(w, slices.Values(levels)), 0}
	}
	if len(s.Regions) == 0 || len(s.Buffers) == 0 || s.Axis == lifetime.ProgramOrder || s.Facts&lifetime.Addresses == 0 {
		return pieces{}
	}
	levels := computed(w, s)
	return pieces{newCurve(w, slices.Values(levels)), len(levels)}
}

// reported returns the fragmentation that the allocator reported.
func reported(s *lifetime.Space) (levels []lifetime.Level) {
	for _, t := range s.Totals {
		if t.HasFragmentation && !math.IsNaN(float64(t.Fragmentation)) {
			levels = append(levels, lifetime.Level{At: t.T, Bytes: int64(math.Round(float64(t.Fragmentation) * whole))})
		}
	}
	return levels
}

// computedMost limits the work of computing the fragmentation: every sample visits all
// buffers that were allocated before it.
const computedMost = 2e7

// computed returns the fragmentation computed from the holes in reserved memory. Its
// samples are at equal distances and may miss a spike.
func computed(w plot.Window, s *lifetime.Space) (levels []lifetime.Level) {
	n := min(max(computedMost/len(s.Buffers), 24), w.Columns/2)
	n = int(min(uint64(n), uint64(w.To)-uint64(w.From)))
	step := (uint64(w.To) - uint64(w.From)) / uint64(n)
	for i := range n {
		t := w.From + int64(uint64(i)*step)
		if share, ok := region.FreeAt(s, t).Fragmentation(); ok {
			levels = append(levels, lifetime.Level{At: t, Bytes: int64(math.Round(share * whole))})
		}
	}
	return levels
}

// room returns the width of the percent axis.
func (p *pieces) room() canvas.Length {
	if p.curve == nil {
		return 0
	}
	return 490
}

// draw draws the curve on a plot, and on its right an axis in percent.
func (p *pieces) draw(on plot.Plot) {
	if p.curve == nil {
		return
	}
	f := figure{Plot: on, ceiling: whole}
	x := f.Right + 10 // the curves reach the edge of the plot
	axis := canvas.Line(x, f.Top, x, f.Bottom)
	for percent := int64(0); percent <= 100; percent += 25 {
		y := f.level(percent * whole / 100)
		axis.Move(x, y)
		axis.Line(x+50, y)
		f.Page.Text(canvas.Text{X: x + 100, Y: y + 40, Role: canvas.Dim, S: fmt.Sprintf("%d %%", percent)})
	}
	f.Page.Stroke(axis, canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
	f.draw(p.curve, canvas.Look{}, fragmentLine, "")
}

func (p *pieces) legend() []plot.Row {
	if p.curve == nil {
		return nil
	}
	below := fmt.Sprintf("maximum %.1f %%", float64(p.curve.highest())*100/whole)
	if p.samples > 0 {
		below += fmt.Sprintf(", %d samples", p.samples)
	}
	return []plot.Row{{Look: swatch(fragmentLine), Name: "fragmentation", Below: below}}
}
