package chart

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Sizes of the steps between two peaks, in tenths of a pixel.
const (
	stepsTitle canvas.Length = 280
	stepPitch  canvas.Length = 200
	stepHigh   canvas.Length = 130
	stepLeast  canvas.Length = 20 // width of a small change
	stepsEnd   canvas.Length = 80
)

// Looks of changes, as on the page.
var (
	grewLook   = canvas.Look{RGB: 0xc8323a}
	shrankLook = canvas.Look{RGB: 0x2768ab}
)

// stepsOf returns the steps from the peak before to that after.
func stepsOf(d *diff.Result, pair *diff.Pair) []diff.Step {
	for i := range d.Pairs {
		if &d.Pairs[i] == pair {
			return d.Waterfall(i)
		}
	}
	return nil
}

// stepsHeight returns the height of n steps, with both peaks.
func stepsHeight(n int) canvas.Length {
	if n == 0 {
		return 0
	}
	return stepsTitle + stepPitch*canvas.Length(n+2) + stepsEnd
}

// level is a row of the waterfall: the bytes from low to high.
type level struct {
	name, text string
	low, high  uint64
	look       canvas.Look
}

// levels returns the peak before, the steps, and the peak after.
func (p *comparison) levels() []level {
	whole := func(name string, bytes int64) level {
		return level{name, units.Bytes(bytes), 0, uint64(max(bytes, 0)), heapLook}
	}
	all := []level{whole("before", p.pair.Before.Peak)}
	from := all[0].high
	for _, s := range p.steps {
		look := grewLook
		if s.Delta < 0 {
			look = shrankLook
		}
		to := uint64(max(s.Level, 0))
		all = append(all, level{s.Words(), units.Signed(s.Delta), min(from, to), max(from, to), look})
		from = to
	}
	return append(all, whole("after", p.pair.After.Peak))
}

// waterfall draws from top how the peak before became that after, on one scale from 0.
func (p *comparison) waterfall(top canvas.Length) {
	if len(p.steps) == 0 {
		return
	}
	const edge, gap = 160, 80
	width := p.sides[0].Width
	all := p.levels()
	var names, texts canvas.Length
	most := uint64(1)
	for _, l := range all {
		names = max(names, canvas.Width(canvas.Clean(l.name), canvas.TextSize))
		texts = max(texts, canvas.Width(l.text, canvas.TextSize))
		most = max(most, l.high)
	}
	names = min(names, width*35/100)
	left := edge + names + gap
	scale := plot.Scale{From: most, To: uint64(width - edge - texts - gap - left)}
	aside := "from before to after"
	if p.pair.Moves() {
		aside = "of each: in the " + p.pair.Before.Phase.Words() + " before, in the " + p.pair.After.Phase.Words() + " after"
	}
	p.page.Text(canvas.Text{X: p.sides[0].Left, Y: top + 120, Bold: true, S: "at the peak", Aside: aside})
	y := top + stepsTitle
	for _, l := range all {
		from, to := left+scale.At(l.low), left+scale.At(l.high)
		if to-from < stepLeast {
			from = max(left, to-stepLeast)
			to = from + stepLeast
		}
		p.page.Text(canvas.Text{X: left - gap, Y: y + 100, Anchor: canvas.End, S: canvas.Fit(l.name, canvas.TextSize, names)})
		p.page.Fill(canvas.Rect(from, y, to, y+stepHigh), l.look, []byte(canvas.Cut(l.name, 80)+"\n"+l.text))
		p.page.Text(canvas.Text{X: to + gap, Y: y + 100, Role: canvas.Dim, S: l.text})
		y += stepPitch
	}
}
