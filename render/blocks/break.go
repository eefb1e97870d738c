package blocks

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// breakHeight is the height of what is below a break of the vertical axis: room for one line of text.
const breakHeight = 240

// leastActivity is the part of the axis, as a divisor, below which the axis is broken: what happens, with its failed allocations, would be lower
// than an eighth of the plot, which has no room for the names of two groups.
const leastActivity = 8

// findBreak breaks the vertical axis if nearly all of it is memory that was there before the recording, without events and names.
func (p *picture) findBreak() {
	if plot.Still(p.s) {
		return
	}
	still, below := p.stillBuffers()
	if below <= 0 || below >= p.peak.Bytes {
		return
	}
	if (p.WithRefused(p.most())-uint64(below))*leastActivity >= p.ceiling {
		return
	}
	p.Below = uint64(below)
	p.still, p.ceiling = still, p.Ceiling(p.most())
	for k := range p.floors {
		p.floors[k] += below - p.s.Base
	}
}

// stillBuffers returns the buffers about which only their size is known, with their bytes and Base: they are there in all of the visible part.
func (p *picture) stillBuffers() (still map[int]bool, bytes int64) {
	still, bytes = map[int]bool{}, p.s.Base
	named := map[lifetime.Row]bool{}
	for i := range p.s.Buffers {
		b := &p.s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen == 0 || b.Begin > p.From || b.End < p.To && b.Edge&lifetime.EndOpen == 0 {
			continue
		}
		row := rowOf(p.s, i)
		known, ok := named[row]
		if !ok {
			known = answer.NamesCategory(p.c.Category(&p.s.SpaceInfo, row.Kind, row.Site, row.Purpose)) || b.Site != 0 && !p.c.Sites[b.Site].Unseen
			named[row] = known
		}
		if !known {
			still[i] = true
			bytes += b.Size
		}
	}
	return still, bytes
}

// base returns the bytes that were there before the recording and are drawn as one.
func (p *picture) base() int64 {
	if p.Below > 0 {
		return int64(p.Below)
	}
	return p.s.Base
}

// drawBreak marks the break of the axis: a torn line through all of it.
func (p *picture) drawBreak() {
	var tear canvas.Path
	y := p.Bottom - breakHeight + 40
	tear.Move(p.Left-60, y)
	for x, up := p.Left-20, true; x <= p.Right+20; x, up = x+40, !up {
		if up {
			tear.Line(x, y-30)
		} else {
			tear.Line(x, y+30)
		}
	}
	p.Page.Stroke(&tear, canvas.Pen{Role: canvas.Background, Width: 30}, nil)
	text := canvas.Text{X: p.Left + 60, Y: p.Bottom - 60, Role: canvas.On(plot.BaseLook), Over: plot.BaseLook.RGB, S: "before the recording: " + units.Bytes(p.base()) + ", without events, not to scale"}
	p.Page.Text(text.Fit(p.Right - p.Left - 120))
}
