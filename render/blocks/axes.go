package blocks

import (
	"math"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// gridLine draws a line across the plot with a label at its left.
func (p *picture) gridLine(y point, text string) {
	p.str(`<path class="grid" d="M`)
	p.buf = appendPoint(p.buf, p.left)
	p.buf = appendPoint(append(p.buf, ' '), y)
	p.str("H")
	p.buf = appendPoint(p.buf, p.right)
	p.str(`"/>`)
	p.label12("70", string(appendPoint(nil, y+40)), "end", text)
	p.str("\n")
}

// bytesAxis draws lines at round sizes.
func (p *picture) bytesAxis() {
	height := scale{uint64(max(p.peak.Bytes, 1)), uint64(p.bottom - p.top)}
	p.sizeLines(height.from, func(v uint64) point { return p.bottom - height.at(v) })
}

// addressAxis draws lines at round numbers of bytes of mapped memory.
func (p *picture) addressAxis(m *addressMap) {
	p.sizeLines(m.scale.from, func(v uint64) point {
		i := len(m.below) - 1
		for i > 0 && m.below[i] > v {
			i--
		}
		return p.bottom - m.scale.at(v) - point(i)*m.gap
	})
}

func (p *picture) sizeLines(most uint64, y func(uint64) point) {
	// A line every 50 pixels at most.
	step := uint64(1)
	for lines := uint64(max((p.bottom-p.top)/500, 2)); most/step > lines; {
		step *= 2
	}
	for i := range most/step + 1 {
		p.gridLine(y(i*step), roundSize(i*step))
	}
}

// roundSize writes a multiple of a power of two exactly: "768 MiB", "1.25 GiB".
func roundSize(v uint64) string {
	if v == 0 {
		return "0"
	}
	names := [...]string{" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"}
	i := 0
	// A quarter of a unit is short enough; what is finer stays in the smaller one.
	for i+1 < len(names) && v>>(10*(i+1)) > 0 && v&(1<<(10*(i+1)-2)-1) == 0 {
		i++
	}
	quarters := ""
	if i > 0 {
		quarters = [...]string{"", ".25", ".5", ".75"}[v>>(10*i-2)&3]
	}
	return strconv.FormatUint(v>>(10*i), 10) + quarters + names[i]
}

// axisUnit is a unit of the horizontal axis.
type axisUnit struct {
	size uint64 // in units of the space's axis
	name string
}

var timeUnits = []axisUnit{{3600e9, "h"}, {60e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}}

// origin is where the horizontal axis counts from: the beginning of the window,
// but instructions have numbers of their own. A compiled program begins before
// the first one.
func (p *picture) origin() int64 {
	if p.s.Axis == lifetime.ProgramOrder && p.s.Begin < 0 && p.s.End > 0 {
		return 0
	}
	return p.s.Begin
}

// timeAxis draws ticks at round distances from the origin, also where only a
// part of the window is drawn.
func (p *picture) timeAxis() {
	unit, name := axisUnit{1, ""}, "events since the window opened"
	length := uint64(p.cols.to) - uint64(p.cols.from)
	switch p.s.Axis {
	case lifetime.ProgramOrder:
		name = "program order (instructions)"
	case lifetime.Time:
		for _, unit = range timeUnits {
			if length >= unit.size {
				break
			}
		}
		name = "time since the window opened (" + unit.name + ")"
	}
	before := uint64(max(p.origin(), p.cols.from)) - uint64(p.cols.from) // which have no ticks
	begin := uint64(max(p.origin(), p.cols.from)) - uint64(p.origin())
	// Labels grow with the distance from the window's beginning.
	width := max(700, 160+textWidth(tickText(begin+length, unit.size), 12))
	step := roundStep(length, uint64((p.right-p.left)/width), unit.size)
	x := scale{length, uint64(p.right - p.left)}
	y := string(appendPoint(nil, p.bottom+180))
	// Ticks are counted, since times of damaged captures may wrap around.
	first := before + (step-begin%step)%step
	for i := uint64(0); first <= length && i <= (length-first)/step; i++ {
		d := first + i*step
		at, v := p.left+x.at(d), begin+d-before
		p.str(`<path class="grid" d="M`)
		p.buf = appendPoint(p.buf, at)
		p.buf = appendPoint(append(p.buf, ' '), p.bottom)
		p.str(`v4"/>`)
		p.label12(string(appendPoint(nil, at)), y, "middle", tickText(v, unit.size))
	}
	p.label12(string(appendPoint(nil, (p.left+p.right)/2)), string(appendPoint(nil, p.bottom+360)), "middle", name)
	p.str("\n")
}

// roundStep returns the smallest of 1, 2, 5, 10, ... that divides length into
// no more than n steps, and that a tenth of unit divides: labels have one
// decimal.
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

// tickText writes v in units of size with a decimal only where needed.
func tickText(v, size uint64) string {
	text := units.Count(int64(min(v/size, math.MaxInt64)))
	if tenth := v % size * 10 / size; tenth != 0 {
		text += "." + strconv.FormatUint(tenth, 10)
	}
	return text
}
