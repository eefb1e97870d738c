package blocks

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/units"
)

// stepTicks draws the program's steps as ticks along the top, no two closer than
// two pixels: a fence says no more than that there are many.
func (p *picture) stepTicks() {
	last := point(-100)
	count := int64(0)
	p.path.Reset()
	for _, m := range p.s.Marks {
		if m.Kind != lifetime.Step || m.Begin < p.cols.from || m.Begin >= p.cols.to {
			continue
		}
		count++
		if x := p.timeX(m.Begin); x-last >= 20 {
			p.path.Move(x, p.top-80)
			p.path.Line(x, p.top-20)
			last = x
		}
	}
	if count == 0 {
		return
	}
	p.page.Stroke(&p.path, canvas.Pen{Role: canvas.Dim, Width: 10}, []byte(units.Count(count)+" steps"))
	p.page.Text(canvas.Text{X: p.right + 60, Y: p.top - 20, Role: canvas.Dim, S: "steps"})
}

// limitLine draws what the device can hold, where that is in reach.
func (p *picture) limitLine(height func(bytes uint64) point, ceiling uint64) {
	if p.s.Limit <= 0 || uint64(p.s.Limit) > ceiling {
		return
	}
	y := p.bottom - height(uint64(p.s.Limit))
	text := "capacity " + units.Bytes(p.s.Limit)
	p.page.Stroke(canvas.Line(p.left, y, p.right, y), canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(text))
	p.page.Text(canvas.Text{X: p.left + 60, Y: y + 140, Role: canvas.Bad, Halo: true, S: text})
}

// oomLabels bounds the failed allocations that are labelled: each label takes
// a line of text of its own.
const oomLabels = 4

// ooms draws failed allocations as lines from top to bottom.
func (p *picture) ooms() {
	labelled := point(0)
	for _, m := range p.s.Marks {
		if m.Kind != lifetime.OOM || m.Begin < p.cols.from || m.Begin >= p.cols.to {
			continue
		}
		text := "out of memory: " + units.Bytes(m.Requested) + " asked for"
		if m.Free >= 0 {
			text += ", " + units.Bytes(m.Free) + " free"
		}
		x := p.timeX(m.Begin)
		p.page.Stroke(canvas.Line(x, p.top, x, p.bottom), canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(text))
		// The lines say when, the labels one below the other how much.
		if labelled < oomLabels {
			p.beside(x, p.top+330+labelled*160, p.right, canvas.Text{Role: canvas.Bad, Bold: true, Halo: true, S: text})
			labelled++
		}
	}
}

// peakLine marks the peak: its height in the stacked layout, its instant in
// both, and the exact number of bytes.
func (p *picture) peakLine() {
	x, y := p.timeX(p.peak.At), p.top
	dashes := canvas.Pen{Role: canvas.Foreground, Width: 10, Dashed: true}
	if p.o.Layout == Address {
		p.page.Stroke(canvas.Line(x, p.top, x, p.bottom), dashes, nil)
	} else {
		y = p.bottom - p.height().At(uint64(p.peak.Bytes))
		p.page.Stroke(canvas.Line(p.left, y, p.right, y), dashes, nil)
	}
	p.page.Dot(x, y, 30, canvas.Look{Role: canvas.Foreground})
	// Right of the plot there is nothing at this height: the exact figure may
	// reach there in narrow pictures.
	when := " after " + units.Span(p.peak.At-p.s.Begin, p.s.Axis.Unit())
	switch {
	case p.s.Axis == lifetime.ProgramOrder && p.peak.At < 0:
		when = " from the beginning"
	case p.s.Axis == lifetime.ProgramOrder:
		when = " at instruction " + units.Count(p.peak.At)
	}
	p.beside(x, p.top-180, point(p.o.Width-10)*10, canvas.Text{Halo: true, S: "peak " + units.Exact(p.peak.Bytes) + when})
}

// beside writes a text next to x, up to right: after x where it fits, else before
// it, else wherever there is room.
func (p *picture) beside(x, y, right point, t canvas.Text) {
	t = t.Fit(right - p.left)
	width := t.Extent()
	t.X, t.Y = x+60, y
	if t.X+width > right {
		t.Anchor, t.X = canvas.End, max(x-60, p.left+width)
	}
	p.page.Text(t)
}
