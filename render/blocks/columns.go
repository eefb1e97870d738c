package blocks

import (
	"errors"
	"iter"
	"math"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/plot"
)

// columnWidth is the width of a column in tenths of a pixel. Browsers may leave out narrower
// shapes without anti-aliasing, and a peak with them.
const columnWidth = 10

// mostBytes is the maximum number of bytes in use, so that no sum overflows.
const mostBytes = 1 << 60

var errTooLarge = errors.New("the sizes add up to more than 1 EiB: the capture is damaged or was misread")

// columns is a space sampled for drawing: for each column of the plot, the time at which most bytes are alive in it.
type columns struct {
	plot.Window
	at    []int64 // never decreases
	level []int64 // bytes alive at that time, with Base and Stack
}

// changes yields every change of the bytes in use as time and difference, in order of
// time: those of the buffers, and those of the stack after its first level.
func changes(s *lifetime.Space) iter.Seq2[int64, int64] {
	return func(yield func(at, bytes int64) bool) {
		next := 1
		stackUntil := func(t int64) bool {
			for ; next < len(s.Stack) && s.Stack[next].At <= t; next++ {
				if !yield(s.Stack[next].At, s.Stack[next].Bytes-s.Stack[next-1].Bytes) {
					return false
				}
			}
			return true
		}
		for ch := range s.Changes() {
			size := s.Buffers[ch.Buffer].Size
			if !ch.Begin {
				size = -size
			}
			if !stackUntil(ch.T) || !yield(ch.T, size) {
				return
			}
		}
		stackUntil(math.MaxInt64)
	}
}

// sample finds the times of the columns of w. It fails if too many bytes are in use.
func sample(s *lifetime.Space, w plot.Window) (columns, error) {
	c := columns{Window: w, at: make([]int64, w.Columns), level: make([]int64, w.Columns)}
	for k := range c.level {
		c.level[k] = -1
	}
	level, since := s.Base, w.From
	if len(s.Stack) > 0 {
		level += s.Stack[0].Bytes
	}
	if level > mostBytes || level < 0 {
		return c, errTooLarge
	}
	for at, bytes := range changes(s) {
		if at >= w.To {
			break
		}
		// A level counts after all changes of one time: levels between them were never the state of the heap.
		if at > since {
			c.fill(level, since, at)
			since = at
		}
		if level += bytes; level > mostBytes || level < 0 {
			return c, errTooLarge
		}
	}
	c.fill(level, since, w.To)
	return c, nil
}

// fill adds a level to the columns of [since, until).
func (c *columns) fill(level, since, until int64) {
	first, end := c.Span(since, until)
	for k := first; k < end; k++ {
		if level > c.level[k] {
			c.level[k], c.at[k] = level, since
		}
	}
}

// floors returns the bytes below the buffers in each column: Base and the stack.
func (c *columns) floors(s *lifetime.Space) []int64 {
	floors := make([]int64, len(c.at))
	stack, next := int64(0), 0
	for k, at := range c.at {
		for ; next < len(s.Stack) && (next == 0 || s.Stack[next].At <= at); next++ {
			stack = s.Stack[next].Bytes
		}
		floors[k] = s.Base + stack
	}
	return floors
}

// first returns the first column whose time is not before t, the begin or end of a buffer.
func (c *columns) first(t int64) int {
	// Columns before the one of t have earlier times. The next one has t or a later time,
	// because the level that begins at t extends into it.
	k, _ := c.Column(t)
	if k < c.Columns && c.at[k] < t {
		k++
	}
	return k
}

// ofBuffer returns the columns [k0, k1) that show a buffer.
func (c *columns) ofBuffer(b *lifetime.Buffer) (k0, k1 int) {
	k1 = c.Columns
	if b.Edge&lifetime.EndOpen == 0 {
		k1 = c.first(b.End)
	}
	return c.first(b.Begin), k1
}

// overlaps reports whether a buffer is alive in the window.
func (c *columns) overlaps(b *lifetime.Buffer) bool {
	return b.Begin < c.To && (b.End > c.From || b.Edge&lifetime.EndOpen != 0)
}

// peak returns the highest level and its first time.
func (c *columns) peak() lifetime.Level {
	peak := lifetime.Level{At: c.From, Bytes: -1}
	for k, level := range c.level {
		if level > peak.Bytes {
			peak = lifetime.Level{At: c.at[k], Bytes: level}
		}
	}
	return peak
}

// aliveAt reports whether b is alive at t.
func aliveAt(b *lifetime.Buffer, t int64) bool {
	return b.Begin <= t && (b.End > t || b.Edge&lifetime.EndOpen != 0)
}
