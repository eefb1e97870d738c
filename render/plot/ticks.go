package plot

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// Scale maps [0, From] to [0, To] and rounds to the nearest. It uses integers so that
// every machine draws the same picture. If Below is not 0, the scale has a break: [0, Below] is mapped to [0, Band],
// and the rest to the rest.
type Scale struct{ From, To, Below, Band uint64 }

// Above returns the scale of lengths above the break.
func (s Scale) Above() Scale { return Scale{From: s.From - s.Below, To: s.To - s.Band} }

// At maps v. Values above From are mapped to To.
func (s Scale) At(v uint64) canvas.Length {
	switch {
	case s.Below > 0 && v <= s.Below:
		return Scale{From: s.Below, To: s.Band}.At(v)
	case s.Below > 0:
		return canvas.Length(s.Band) + s.Above().At(v-s.Below)
	}
	hi, lo := bits.Mul64(min(v, s.From), s.To)
	lo, carry := bits.Add64(lo, s.From/2, 0)
	q, _ := bits.Div64(hi+carry, lo, s.From)
	return canvas.Length(q)
}

// Tick is a labelled place on an axis.
type Tick struct {
	At    uint64 // distance from the beginning of the axis, in its unit
	Label string
}

// Bytes returns ticks at round sizes from 0 to most: at most lines+1 of them, or at most 3 if lines is less than 2.
func Bytes(most uint64, lines int) (ticks []Tick) {
	step := uint64(1)
	for most/step > uint64(max(lines, 2)) {
		step *= 2
	}
	for i := range most/step + 1 {
		ticks = append(ticks, Tick{i * step, roundSize(i * step)})
	}
	return ticks
}

// roundSize writes a multiple of a power of two exactly: "768 MiB", "1.25 GiB".
func roundSize(v uint64) string {
	if v == 0 {
		return "0"
	}
	names := [...]string{" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"}
	i := 0
	// Labels have quarters of a unit; finer values stay in the smaller unit.
	for i+1 < len(names) && v>>(10*(i+1)) > 0 && v&(1<<(10*(i+1)-2)-1) == 0 {
		i++
	}
	return strconv.FormatFloat(math.Ldexp(float64(v), -10*i), 'f', -1, 64) + names[i]
}

// unit is a unit of the horizontal axis.
type unit struct {
	size uint64 // in units of the space's axis
	name string
}

// timeUnits are those of units.Span, so that ticks agree with the times in texts.
var timeUnits = []unit{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}}

// Origin returns the zero of a space's horizontal axis: the beginning of the window.
// In a compiled program this is instruction 0; buffers before it have negative times.
func Origin(s *lifetime.Space) int64 {
	if s.Axis == lifetime.ProgramOrder && s.Begin < 0 && s.End > 0 {
		return 0
	}
	return s.Begin
}

// Instants returns the ticks and the name of an axis over [from, to), for an axis of
// the given width. Ticks are at round distances from the origin.
func Instants(s *lifetime.Space, from, to int64, width canvas.Length) (ticks []Tick, name string) {
	u, name := unit{1, ""}, "events since the start of the recording"
	length := uint64(to) - uint64(from)
	switch s.Axis {
	case lifetime.ProgramOrder:
		name = "program order (instructions)"
	case lifetime.Time:
		for _, u = range timeUnits {
			if length >= u.size {
				break
			}
		}
		name = "time since the start of the recording (" + u.name + ")"
	}
	begin := uint64(max(Origin(s), from))
	before := begin - uint64(from) // the part without ticks
	begin -= uint64(Origin(s))
	// Labels get longer with the distance from the origin.
	label := max(700, 160+canvas.Width(tickText(begin+length, u.size), canvas.TextSize))
	step := roundStep(length, uint64(width/label), u.size)
	// The loop counts ticks because times of damaged captures may wrap around.
	first := before + (step-begin%step)%step
	for i := uint64(0); first <= length && i <= (length-first)/step; i++ {
		d := first + i*step
		ticks = append(ticks, Tick{d, tickText(begin+d-before, u.size)})
	}
	return ticks, name
}

// roundStep returns the smallest of 1, 2, 5, 10, ... tenths of unit that divides length
// into at most n steps. Labels have one decimal, so a tenth of unit is the minimum.
func roundStep(length, n, unit uint64) uint64 {
	step := max(unit/10, 1)
	for i := 0; length/step > max(n, 1) && step < math.MaxUint64/8; i++ {
		if i%3 == 1 {
			step = step / 2 * 5
		} else {
			step *= 2
		}
	}
	return step
}

// tickText returns v as a multiple of size, with one decimal if needed.
func tickText(v, size uint64) string {
	text := units.Count(int64(min(v/size, math.MaxInt64)))
	if tenth := v % size * 10 / size; tenth != 0 {
		text += "." + strconv.FormatUint(tenth, 10)
	}
	return text
}
