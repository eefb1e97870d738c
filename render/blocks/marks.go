package blocks

import "github.com/memlane/memlane/render/canvas"

// peakLine marks the peak: its height in the stacked layout, its instant in
// both.
func (p *picture) peakLine() {
	x, y := p.X(p.peak.At), p.Top
	dashes := canvas.Pen{Role: canvas.Foreground, Width: 10, Dashed: true}
	if p.o.Layout == Address {
		p.Page.Stroke(canvas.Line(x, p.Top, x, p.Bottom), dashes, nil)
	} else {
		y = p.Bottom - p.height().At(uint64(p.peak.Bytes))
		p.Page.Stroke(canvas.Line(p.Left, y, p.Right, y), dashes, nil)
	}
	// Right of the plot there is nothing at the height of the text: the exact
	// figure may reach there in narrow pictures.
	p.Peak(p.peak, y, p.Width-100)
}
