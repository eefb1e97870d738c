package plot

import "math/bits"

// Window is a part [From, To) of an axis, cut into equal columns.
type Window struct {
	From, To int64
	Columns  int
}

// Column returns the column of t. inside is false if t is the start of the column. The
// end of the window is column Columns.
func (w Window) Column(t int64) (k int, inside bool) {
	t = min(max(t, w.From), w.To)
	hi, lo := bits.Mul64(uint64(t)-uint64(w.From), uint64(w.Columns))
	q, rem := bits.Div64(hi, lo, uint64(w.To)-uint64(w.From))
	return int(q), rem != 0
}

// Span returns the columns [first, end) that contain a part of [since, until).
func (w Window) Span(since, until int64) (first, end int) {
	first, _ = w.Column(since)
	end, inside := w.Column(until)
	if inside {
		end++
	}
	return first, end
}
