package blocks

import (
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/units"
)

// legend lists the classes at the right. A row is a swatch and two lines: who, and
// how much.
func (p *picture) legend() {
	y := p.top
	x := p.right + 200
	width := point(p.o.Width)*10 - x - 180 - 120
	row := func(look canvas.Look, name, place, below string, role canvas.Role) {
		p.page.Fill(canvas.Rect(x, y, x+120, y+120), look, nil)
		name, place = fitName(name, place, width)
		p.page.Text(canvas.Text{X: x + 180, Y: y + 100, S: name, Aside: place})
		p.page.Text(canvas.Text{X: x + 180, Y: y + 240, Role: role, Bold: role == canvas.Bad, S: below}.Fit(width))
		y += legendRow
	}
	for _, c := range p.classes {
		switch {
		case c.hidden:
		case c.leak != "":
			row(c.look, c.name, c.place, c.leak, canvas.Bad)
		default:
			row(c.look, c.name, c.place, atPeak(c.bytes), canvas.Dim)
		}
	}
	if p.s.Base > 0 {
		row(baseLook, "before the window", "", units.Bytes(p.s.Base)+", seen by no event", canvas.Dim)
	}
	if len(p.s.Stack) > 0 {
		row(stackLook, "stack, beside the heap", "", atPeak(p.s.StackAt(p.peak.At)), canvas.Dim)
	}
}

func atPeak(bytes int64) string {
	if bytes == 0 {
		return "none at the peak"
	}
	return units.Bytes(bytes) + " at the peak"
}

// fitName shortens a site's name: where it is matters more than all of its name,
// so the place keeps up to half of the width.
func fitName(name, place string, width point) (string, string) {
	if place != "" {
		place = canvas.Fit(place, canvas.TextSize, max(width/2, width-canvas.Width(name+" ", canvas.TextSize)))
		width -= canvas.Width(" "+place, canvas.TextSize)
	}
	return canvas.Fit(name, canvas.TextSize, width), place
}
