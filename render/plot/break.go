package plot

import "github.com/memlane/memlane/render/canvas"

// BreakHeight is the height of what is below a break of the vertical axis: room for one line of text.
const BreakHeight = 240

// leastActivity is the part of the axis, as a divisor, below which the axis is broken: what happens, with its failed allocations, would be lower
// than an eighth of the plot, which has no room for the names of two groups.
const leastActivity = 8

// BreakAt breaks the vertical axis at below bytes, and reports whether it did: if what is above, up to most bytes, is low in a plot with ceiling
// bytes at its top.
func (p *Plot) BreakAt(below int64, most, ceiling uint64) bool {
	if Still(p.Space) || below <= 0 || uint64(below) >= most || (p.WithRefused(most)-uint64(below))*leastActivity >= ceiling {
		return false
	}
	p.Below = uint64(below)
	return true
}

// Heights returns the scale that maps bytes to the height of a plot with ceiling bytes at its top.
func (p *Plot) Heights(ceiling uint64) Scale {
	s := Scale{From: max(ceiling, 1), To: uint64(p.Bottom - p.Top)}
	if p.Below > 0 {
		s.Below, s.Band = p.Below, BreakHeight
	}
	return s
}

// DrawBreak marks the break of the axis: a torn line through all of it, and a text below it, over a look.
func (p *Plot) DrawBreak(text string, over canvas.Look) {
	var tear canvas.Path
	y := p.Bottom - BreakHeight + 40
	tear.Move(p.Left-60, y)
	for x, up := p.Left-20, true; x <= p.Right+20; x, up = x+40, !up {
		if up {
			tear.Line(x, y-30)
		} else {
			tear.Line(x, y+30)
		}
	}
	p.Page.Stroke(&tear, canvas.Pen{Role: canvas.Background, Width: 30}, nil)
	label := canvas.Text{X: p.Left + 60, Y: p.Bottom - 60, Role: canvas.On(over), Over: over.RGB, S: text + ", not to scale"}
	p.Page.Text(label.Fit(p.Right - p.Left - 120))
}
