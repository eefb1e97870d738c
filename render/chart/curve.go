package chart

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// window is the part of an axis that a curve shows, in at least one column per pixel.
type window struct {
	from, to int64
	columns  int
}

// column returns the column of t. inside is false if t is the beginning of the column.
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

// blank returns a curve without values.
func blank(w window) *curve {
	n := w.columns
	return &curve{w, n, make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)}
}

// newCurve samples levels, which are in order of time. Of several levels at one
// instant only the last counts: the others were never the state.
func newCurve(w window, levels iter.Seq[lifetime.Level]) *curve {
	c := blank(w)
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

// hold enters the value v for [since, until).
func (c *curve) hold(v, since, until int64) {
	first, _ := c.column(since)
	last, inside := c.column(until)
	if !inside {
		last--
	}
	for k := first; k <= min(last, c.columns-1); k++ {
		c.enter(k, v, v, v)
	}
}

// enter adds values to a column, of which at is the last.
func (c *curve) enter(k int, low, high, at int64) {
	if !c.known[k] {
		c.low[k], c.high[k], c.known[k] = low, high, true
	}
	c.low[k], c.high[k], c.at[k] = min(c.low[k], low), max(c.high[k], high), at
	c.first = min(c.first, k)
}

// highest returns the highest value, 0 without a curve.
func (c *curve) highest() (most int64) {
	if c == nil {
		return 0
	}
	for k := c.first; k < c.columns; k++ {
		most = max(most, c.high[k])
	}
	return most
}

// same reports whether two curves look the same.
func (c *curve) same(o *curve) bool {
	return c.first == o.first && slices.Equal(c.low, o.low) && slices.Equal(c.high, o.high) && slices.Equal(c.at, o.at)
}

// coarser returns the curve with every by columns merged into one. by divides their
// number.
func (c *curve) coarser(by int) *curve {
	o := blank(window{c.from, c.to, c.columns / by})
	for k := c.first; k < c.columns; k++ {
		o.enter(k/by, c.low[k], c.high[k], c.at[k])
	}
	return o
}

// steps calls add with the corners of the curve. It is made of steps, and of a line
// from the lowest to the highest value of each column.
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
