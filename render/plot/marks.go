package plot

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// Steps draws the program's steps as ticks along the top. They are at least two
// pixels apart, because more of them would look like a solid bar.
func (p *Plot) Steps() {
	last := canvas.Length(-100)
	count := int64(0)
	var path canvas.Path
	for _, m := range p.Space.Marks {
		if m.Kind != lifetime.Step || m.Begin < p.From || m.Begin >= p.To {
			continue
		}
		count++
		if x := p.X(m.Begin); x-last >= 20 {
			path.Move(x, p.Top-100)
			path.Line(x, p.Top-40)
			last = x
		}
	}
	if count == 0 {
		return
	}
	p.Page.Stroke(&path, canvas.Pen{Role: canvas.Dim, Width: 10}, []byte(units.Count(count)+" steps"))
	p.Page.Text(canvas.Text{X: p.Left - 80, Y: p.Top - 90, Anchor: canvas.End, Role: canvas.Dim, S: "steps"})
}

// Limit draws the capacity of the device as a line, unless it exceeds ceiling, the
// bytes at the top. height converts bytes to a distance from the bottom.
func (p *Plot) Limit(height func(bytes uint64) canvas.Length, ceiling uint64) {
	if p.Space.Limit <= 0 || uint64(p.Space.Limit) > ceiling {
		return
	}
	y := p.Bottom - height(uint64(p.Space.Limit))
	text := "capacity " + units.Bytes(p.Space.Limit)
	p.Page.Stroke(canvas.Line(p.Left, y, p.Right, y), canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(text))
	base := y + 140
	if base > p.Bottom-20 { // two spaces share the scale and this device is much smaller
		base = y - 60
	}
	p.Page.Text(canvas.Text{X: p.Left + 60, Y: base, Role: canvas.Bad, Halo: true, S: text})
}

// oomLabels is the maximum number of labelled failed allocations: each label takes a
// line of text.
const oomLabels = 4

// OOMs draws failed allocations as vertical lines. Their labels are one below the
// other, so that they cannot overlap.
func (p *Plot) OOMs() {
	labelled := canvas.Length(0)
	for _, m := range p.Space.Marks {
		if m.Kind != lifetime.OOM || m.Begin < p.From || m.Begin >= p.To {
			continue
		}
		text := "out of memory"
		if m.Requested > 0 {
			text += ": " + units.Bytes(m.Requested) + " requested"
		}
		if m.Free >= 0 {
			text += ", " + units.Bytes(m.Free) + " free"
		}
		x := p.X(m.Begin)
		p.Page.Stroke(canvas.Line(x, p.Top, x, p.Bottom), canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(text))
		if labelled < oomLabels {
			p.TextAt(x, p.Top+330+labelled*160, p.Right, canvas.Text{Role: canvas.Bad, Bold: true, Halo: true, S: text})
			labelled++
		}
	}
}

// Peak marks the peak at y. A text above the plot gives the exact number of bytes; it
// ends before right.
func (p *Plot) Peak(peak lifetime.Level, y, right canvas.Length) {
	x := p.X(peak.At)
	p.Page.Dot(x, y, 30, canvas.Look{Role: canvas.Foreground})
	when := " after " + units.Span(peak.At-p.Space.Begin, p.Space.Axis.Unit())
	switch {
	case p.Space.Axis == lifetime.ProgramOrder && peak.At < 0:
		when = " from the beginning"
	case p.Space.Axis == lifetime.ProgramOrder:
		when = " at instruction " + units.Count(peak.At)
	}
	p.TextAt(x, p.Top-180, right, canvas.Text{Halo: true, S: "peak " + units.Exact(peak.Bytes) + when})
}
