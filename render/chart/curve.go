package chart

import (
	"iter"
	"math/bits"

	gochart "github.com/wcharczuk/go-chart/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// window is the part of an axis that a curve shows, in columns at least as many as
// there are pixels.
type window struct {
	from, to int64
	columns  int
}

// column returns the column that t falls into; inside is false when t is the very
// beginning of it.
func (w window) column(t int64) (k int, inside bool) {
	t = min(max(t, w.from), w.to)
	hi, lo := bits.Mul64(uint64(t)-uint64(w.from), uint64(w.columns))
	q, rem := bits.Div64(hi, lo, uint64(w.to)-uint64(w.from))
	return int(q), rem != 0
}

// curve is a value over a window: per column the lowest, the highest and the last.
type curve struct {
	window
	first         int // column in which it begins; those before have no value
	low, high, at []int64
	known         []bool // columns that have a value
}

// newCurve samples levels, which are in order of time. Of several at one instant
// the last counts: what lies between was never the state.
func newCurve(w window, levels iter.Seq[lifetime.Level]) *curve {
	c := &curve{w, w.columns, make([]int64, w.columns), make([]int64, w.columns), make([]int64, w.columns), make([]bool, w.columns)}
	var last lifetime.Level
	any := false
	for l := range levels {
		if any && l.At > last.At {
			c.hold(last.Bytes, last.At, l.At)
		}
		last, any = l, true
	}
	if any {
		c.hold(last.Bytes, last.At, w.to)
	}
	return c
}

// hold enters that the value was v over [since, until).
func (c *curve) hold(v, since, until int64) {
	first, _ := c.column(since)
	last, inside := c.column(until)
	if !inside {
		last--
	}
	for k := first; k <= min(last, c.columns-1); k++ {
		if !c.known[k] {
			c.low[k], c.high[k], c.known[k] = v, v, true
		}
		c.low[k], c.high[k], c.at[k] = min(c.low[k], v), max(c.high[k], v), v
		c.first = min(c.first, k)
	}
}

// highest returns the highest value.
func (c *curve) highest() (most int64) {
	for k := c.first; k < c.columns; k++ {
		most = max(most, c.high[k])
	}
	return most
}

// same reports whether two curves look the same.
func (c *curve) same(o *curve) bool {
	for k := range c.at {
		if c.low[k] != o.low[k] || c.high[k] != o.high[k] || c.at[k] != o.at[k] {
			return false
		}
	}
	return c.first == o.first
}

// coarser returns the curve with by columns made one; by divides their number.
func (c *curve) coarser(by int) *curve {
	w := window{c.from, c.to, c.columns / by}
	o := &curve{w, w.columns, make([]int64, w.columns), make([]int64, w.columns), make([]int64, w.columns), make([]bool, w.columns)}
	for k := c.first; k < c.columns; k++ {
		to := k / by
		if !o.known[to] {
			o.low[to], o.high[to], o.known[to] = c.low[k], c.high[k], true
		}
		o.low[to], o.high[to], o.at[to] = min(o.low[to], c.low[k]), max(o.high[to], c.high[k]), c.at[k]
		o.first = min(o.first, to)
	}
	return o
}

// steps calls add with the corners of the curve as steps, with a line to the lowest
// and the highest value of a column.
func (c *curve) steps(add func(column int, v int64)) {
	before := int64(-1)
	for k := c.first; k < c.columns; k++ {
		if c.low[k] == before && c.high[k] == before && k < c.columns-1 {
			continue
		}
		if before >= 0 {
			add(k, before)
		}
		if c.high[k] != c.at[k] || c.low[k] != c.at[k] {
			add(k, c.low[k])
			add(k, c.high[k])
		}
		add(k, c.at[k])
		before = c.at[k]
	}
	if c.first < c.columns {
		add(c.columns, c.at[c.columns-1])
	}
}

// series returns the curve for go-chart. Values are divided by unit.
func (c *curve) series(unit float64, axis gochart.YAxisType, fill, line canvas.Look, width float64) gochart.ContinuousSeries {
	s := gochart.ContinuousSeries{YAxis: axis, Style: gochart.Style{StrokeColor: ofLook(line), StrokeWidth: width}}
	if fill != (canvas.Look{}) {
		s.Style.FillColor = ofLook(fill)
	}
	c.steps(func(column int, v int64) {
		s.XValues, s.YValues = append(s.XValues, float64(column)), append(s.YValues, float64(v)/unit)
	})
	return s
}

// draw draws the curve and the area below it on the bottom of a plot, from its left
// edge to right. title shows when a reader points at the area.
func (c *curve) draw(p *plot.Plot, right canvas.Length, height plot.Scale, fill, line canvas.Look, title string) {
	var area, edge canvas.Path
	across := plot.Scale{From: uint64(c.columns), To: uint64(right - p.Left)}
	last := p.Left
	c.steps(func(column int, v int64) {
		x, y := p.Left+across.At(uint64(column)), p.Bottom-height.At(uint64(max(v, 0)))
		if edge.Empty() {
			area.Move(x, p.Bottom)
			edge.Move(x, y)
		} else {
			edge.Line(x, y)
		}
		area.Line(x, y)
		last = x
	})
	if edge.Empty() {
		return
	}
	area.Line(last, p.Bottom)
	p.Page.Fill(&area, fill, []byte(title))
	p.Page.Stroke(&edge, canvas.Pen{Role: line.Role, RGB: line.RGB, Width: 10}, nil)
}
