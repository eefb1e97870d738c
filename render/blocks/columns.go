package blocks

import (
	"errors"
	"iter"
	"math"
	"math/bits"

	"github.com/memlane/memlane/lifetime"
)

// columnWidth is the width of a column in tenths of a pixel. Half a pixel is
// one dot of the screens on which such a picture is looked at closely.
const columnWidth = 5

// mostBytes bounds what may be alive at once, so that no sum overflows.
const mostBytes = 1 << 60

var errTooLarge = errors.New("the sizes add up to more than an exbibyte: the capture is damaged, or read wrong")

// columns is a space sampled for drawing: per column of the plot one instant,
// the one at which most bytes are alive in it.
type columns struct {
	from, to int64
	at       []int64 // never decreases
	level    []int64 // bytes alive at that instant, Base and Stack included
}

// changes yields every change of the bytes in use, in order of time: those of
// the buffers, and those of the stack beside the heap after its first level.
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

// sample picks the instants for n columns over [from, to).
func sample(s *lifetime.Space, from, to int64, n int) (columns, error) {
	c := columns{from: from, to: to, at: make([]int64, n), level: make([]int64, n)}
	for k := range c.level {
		c.level[k] = -1
	}
	level, since := s.Base, from
	if len(s.Stack) > 0 {
		level += s.Stack[0].Bytes
	}
	if level > mostBytes || level < 0 {
		return c, errTooLarge
	}
	for at, bytes := range changes(s) {
		if at >= to {
			break
		}
		// A level counts once all changes of its instant are in: what lies
		// between two of them was never the state of the heap.
		if at > since {
			c.hold(level, since, at)
			since = at
		}
		if level += bytes; level > mostBytes || level < 0 {
			return c, errTooLarge
		}
	}
	c.hold(level, since, to)
	return c, nil
}

// hold enters that level bytes were alive over [since, until).
func (c *columns) hold(level, since, until int64) {
	first, _ := c.column(since)
	last, inside := c.column(until)
	if !inside {
		last--
	}
	for k := first; k <= last; k++ {
		if level > c.level[k] {
			c.level[k], c.at[k] = level, since
		}
	}
}

// column returns the column that t falls into; inside is false when t is the
// very beginning of it.
func (c *columns) column(t int64) (k int, inside bool) {
	hi, lo := bits.Mul64(uint64(t)-uint64(c.from), uint64(len(c.at)))
	q, rem := bits.Div64(hi, lo, uint64(c.to)-uint64(c.from))
	return int(q), rem != 0
}

// floors returns, per column, the bytes below the buffers: Base, and with it the
// stack.
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

// first returns the first column whose instant is not before t, a time at
// which a buffer begins or ends.
func (c *columns) first(t int64) int {
	if t <= c.from {
		return 0
	}
	if t >= c.to {
		return len(c.at)
	}
	// Columns before t's own hold earlier instants. The next one holds t or
	// later, because the level that t begins reaches into it.
	k, _ := c.column(t)
	if c.at[k] < t {
		k++
	}
	return k
}

// span returns the columns [k0, k1) in which a buffer is seen.
func (c *columns) span(b *lifetime.Buffer) (k0, k1 int) {
	k1 = len(c.at)
	if b.Edge&lifetime.EndOpen == 0 {
		k1 = c.first(b.End)
	}
	return c.first(b.Begin), k1
}

// holds says whether any of a buffer's life lies in the part that is drawn.
func (c *columns) holds(b *lifetime.Buffer) bool {
	return b.Begin < c.to && (b.End > c.from || b.Edge&lifetime.EndOpen != 0)
}

// peak returns the highest level and the first instant that has it.
func (c *columns) peak() lifetime.Level {
	peak := lifetime.Level{At: c.from, Bytes: -1}
	for k, level := range c.level {
		if level > peak.Bytes {
			peak = lifetime.Level{At: c.at[k], Bytes: level}
		}
	}
	return peak
}

// aliveAt says whether b is alive at t.
func aliveAt(b *lifetime.Buffer, t int64) bool {
	return b.Begin <= t && (b.End > t || b.Edge&lifetime.EndOpen != 0)
}
