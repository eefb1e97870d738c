package blocks

import (
	"github.com/memlane/memlane/render/axis"
	"github.com/memlane/memlane/render/canvas"
)

// gridLine draws a line across the plot with a label at its left.
func (p *picture) gridLine(y point, text string) {
	p.page.Stroke(canvas.Line(p.left, y, p.right, y), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
	p.page.Text(canvas.Text{X: p.left - 80, Y: y + 40, Anchor: canvas.End, Role: canvas.Dim, S: text})
}

// bytesAxis draws lines at round sizes.
func (p *picture) bytesAxis() {
	height := p.height()
	p.axisName("bytes in use")
	p.sizeLines(height.From, func(v uint64) point { return p.bottom - height.At(v) })
}

// addressAxis draws lines at round numbers of bytes of mapped memory.
func (p *picture) addressAxis(m *addressMap) {
	p.axisName("offset, without gaps")
	p.sizeLines(m.scale.From, func(v uint64) point { return p.bottom - m.height(v) })
}

// axisName says what the vertical axis counts.
func (p *picture) axisName(name string) {
	p.page.Text(canvas.Text{X: 150, Y: (p.top + p.bottom) / 2, Anchor: canvas.Middle, Role: canvas.Dim, Turned: true, S: name})
}

// height returns where v bytes of mapped memory lie above the bottom.
func (m *addressMap) height(v uint64) point {
	i := len(m.below) - 1
	for i > 0 && m.below[i] > v {
		i--
	}
	return m.scale.At(v) + point(i)*m.gap
}

// sizeLines draws a line every 50 pixels at most.
func (p *picture) sizeLines(most uint64, y func(uint64) point) {
	for _, tick := range axis.Bytes(most, int((p.bottom-p.top)/500)) {
		p.gridLine(y(tick.At), tick.Label)
	}
}

// timeAxis draws ticks at round distances from the origin, also where only a
// part of the window is drawn.
func (p *picture) timeAxis() {
	ticks, name := axis.Instants(p.s, p.cols.from, p.cols.to, p.right-p.left)
	x := axis.Scale{From: uint64(p.cols.to) - uint64(p.cols.from), To: uint64(p.right - p.left)}
	for _, tick := range ticks {
		at := p.left + x.At(tick.At)
		p.page.Stroke(canvas.Line(at, p.bottom, at, p.bottom+40), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
		p.page.Text(canvas.Text{X: at, Y: p.bottom + 180, Anchor: canvas.Middle, Role: canvas.Dim, S: tick.Label})
	}
	p.page.Text(canvas.Text{X: (p.left + p.right) / 2, Y: p.bottom + 360, Anchor: canvas.Middle, Role: canvas.Dim, S: name})
}
