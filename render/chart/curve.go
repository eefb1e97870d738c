package chart

import (
	"iter"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/plot"
)

// curve has the lowest, the highest and the last value of every column of a window.
type curve struct {
	plot.Window
	first         int // first column with a value
	low, high, at []int64
	known         []bool // columns with a value
}

// newBlank returns a curve without values.
func newBlank(w plot.Window) *curve {
	n := w.Columns
	return &curve{w, n, make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)}
}

// newCurve samples levels, which must be in order of time. Of several levels at one
// time it uses only the last: the others were never the state.
func newCurve(w plot.Window, levels iter.Seq[lifetime.Level]) *curve {
	c := newBlank(w)
	var last lifetime.Level
	any := false
	for l := range levels {
		if any && l.At > last.At {
			c.fill(last.Bytes, last.At, l.At)
		}
		last, any = l, true
	}
	if any {
		c.fill(last.Bytes, last.At, w.To)
	}
	return c
}

// fill adds the value v to the columns of [since, until).
func (c *curve) fill(v, since, until int64) {
	first, end := c.Span(since, until)
	for k := first; k < end; k++ {
		c.add(k, v, v, v)
	}
}

// add adds the extremes low and high to a column, and its last value at.
func (c *curve) add(k int, low, high, at int64) {
	if !c.known[k] {
		c.low[k], c.high[k], c.known[k] = low, high, true
	}
	c.low[k], c.high[k], c.at[k] = min(c.low[k], low), max(c.high[k], high), at
	c.first = min(c.first, k)
}

// highest returns the highest value, or 0 if there is no curve.
func (c *curve) highest() int64 {
	if c == nil {
		return 0
	}
	return max(slices.Max(c.high), 0)
}

// lowest returns the lowest value, or 0 if it is not known everywhere.
func (c *curve) lowest() int64 {
	if slices.Contains(c.known, false) {
		return 0
	}
	return max(slices.Min(c.low), 0)
}

// near reports whether two curves of one window differ by at most this many bytes in each column.
func (c *curve) near(o *curve, bytes int64) bool {
	for k := min(c.first, o.first); k < c.Columns; k++ {
		if k < max(c.first, o.first) || max(c.high[k]-o.high[k], o.high[k]-c.high[k], c.low[k]-o.low[k], o.low[k]-c.low[k]) > bytes {
			return false
		}
	}
	return true
}

// coarser returns the curve with every by columns merged into one. The number of columns must be a multiple of by.
func (c *curve) coarser(by int) *curve {
	o := newBlank(plot.Window{From: c.From, To: c.To, Columns: c.Columns / by})
	for k := c.first; k < c.Columns; k++ {
		o.add(k/by, c.low[k], c.high[k], c.at[k])
	}
	return o
}

// corners calls add with the corners of the curve. It consists of steps, and in each
// column a line from the lowest to the highest value.
func (c *curve) corners(add func(column int, v int64)) {
	before := int64(-1)
	for k := c.first; k < c.Columns; k++ {
		if c.low[k] == before && c.high[k] == before && k < c.Columns-1 {
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
	if c.first < c.Columns {
		add(c.Columns, c.at[c.Columns-1])
	}
}
