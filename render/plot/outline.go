package plot

import (
	"iter"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// Outline is what would be in use after a change of the program: a line over a picture of what was.
type Outline struct {
	Name   string // of the change
	Peak   string // with it, in words
	Levels []lifetime.Level
}

// Highest returns the highest of levels in each of n equal parts of [from, to). Levels are in order of time.
func Highest(levels iter.Seq[lifetime.Level], from, to int64, n int) []int64 {
	all, last, level := make([]int64, n), 0, int64(0)
	upTo := func(part int) { // a level lasts until the next one, which may be in a later part
		for all[last] = max(all[last], level); last < part; {
			last++
			all[last] = level
		}
	}
	for l := range levels {
		if l.At >= to && to > from {
			break
		}
		upTo(min(int(float64(max(l.At-from, 0))/float64(max(to-from, 1))*float64(n)), n-1))
		level = l.Bytes
		all[last] = max(all[last], level)
	}
	upTo(n - 1)
	return all
}

// Outline draws o over the plot. height maps bytes to distances from the bottom.
func (p *Plot) Outline(o *Outline, height func(bytes uint64) canvas.Length) {
	const wide = 10 // tenths of a pixel
	var line canvas.Path
	for k, level := range Highest(slices.Values(o.Levels), p.From, p.To, int(p.Right-p.Left)/wide) {
		x, y := p.Left+canvas.Length(k)*wide, p.Bottom-height(uint64(max(level, 0)))
		if k == 0 {
			line.Move(x, y)
		}
		line.Line(x, y)
		line.Line(x+wide, y)
	}
	p.Page.Stroke(&line, canvas.Pen{Role: canvas.Background, Width: 50}, nil)
	p.Page.Stroke(&line, canvas.Pen{Role: canvas.Foreground, Width: 20}, []byte("with "+o.Name+": "+o.Peak))
}

// Row returns a row for the legend. Without an outline it is nil.
func (o *Outline) Row() []Row {
	if o == nil {
		return nil
	}
	return []Row{{Look: canvas.Look{Role: canvas.Foreground}, Name: "with " + o.Name, Below: o.Peak}}
}
