package chart

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// panel is one of the bar charts below the curves. bars are indexes of peak.live.
type panel struct {
	title       string
	bars        []int
	height      func(b *lifetime.Buffer) int64
	left, right canvas.Length
	top, bottom canvas.Length
}

// bars draws the buffers at the peak in three orders, with the same colours.
func (p *peak) bars() {
	top, bottom := p.Bottom+900, canvas.Length(p.o.Height-34)*10
	width := (p.Right - p.Left - 2*200) / 3
	size := func(b *lifetime.Buffer) int64 { return b.Size }
	padding := func(b *lifetime.Buffer) int64 { return b.Size - b.Requested }
	most := int(width / 30) // each bar takes two pixels and a gap
	largest := p.first(most, size)
	order := slices.Clone(largest)
	slices.Sort(order) // live is in order of allocation
	_, padded := plot.Words(p.s)
	inOrder := "oldest first"
	if p.s.Axis == lifetime.ProgramOrder {
		inOrder = "program order"
	}
	for i, pn := range []panel{
		{title: "by size", bars: largest, height: size},
		{title: "by " + padded, bars: p.first(most, padding), height: padding},
		{title: inOrder, bars: order, height: size},
	} {
		pn.left = p.Left + canvas.Length(i)*(width+200)
		pn.right, pn.top, pn.bottom = pn.left+width, top, bottom
		p.panel(&pn)
	}
}

// first returns the n buffers with the largest figures, largest first, as indexes of
// peak.live. It omits buffers whose figure is not positive.
func (p *peak) first(n int, figure func(*lifetime.Buffer) int64) []int {
	var list []int
	for i, buffer := range p.live {
		if figure(&p.s.Buffers[buffer]) > 0 {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(i, j int) int {
		return cmp.Or(cmp.Compare(figure(&p.s.Buffers[p.live[j]]), figure(&p.s.Buffers[p.live[i]])), cmp.Compare(i, j))
	})
	return list[:min(n, len(list))]
}

// panel draws one bar chart: its title, its highest figure and a bar per buffer.
func (p *peak) panel(pn *panel) {
	p.Page.Text(canvas.Text{X: pn.left, Y: pn.top - 220, Bold: true, S: pn.title}.Fit(pn.right - pn.left + 150))
	most := int64(0)
	for _, i := range pn.bars {
		most = max(most, pn.height(&p.s.Buffers[p.live[i]]))
	}
	facts := "none"
	switch {
	case len(pn.bars) > 0 && len(pn.bars) < len(p.live):
		facts = units.Count(int64(len(pn.bars))) + " of " + units.Count(int64(len(p.live))) + ", up to " + units.Bytes(most)
	case len(pn.bars) > 0:
		facts = "up to " + units.Bytes(most)
	}
	p.Page.Text(canvas.Text{X: pn.left, Y: pn.top - 70, Role: canvas.Dim, S: facts}.Fit(pn.right - pn.left + 150))
	p.Page.Stroke(canvas.Line(pn.left, pn.bottom, pn.right, pn.bottom), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
	if len(pn.bars) == 0 {
		return
	}
	step := min((pn.right-pn.left)/canvas.Length(len(pn.bars)), 240)
	gap := max(step/6, 5)
	scale := plot.Scale{From: uint64(max(most, 1)), To: uint64(pn.bottom - pn.top)}
	p.Page.Group(canvas.Look{})
	for k, i := range pn.bars {
		x := pn.left + canvas.Length(k)*step
		p.bar(x, x+step-gap, pn, i, scale)
	}
	p.Page.End()
}

// bar draws one buffer: the requested bytes, and in a paler colour the rest of its size.
func (p *peak) bar(x, right canvas.Length, pn *panel, i int, scale plot.Scale) {
	b := &p.s.Buffers[p.live[i]]
	look := p.ofKind[i].look
	if p.live[i] == p.chosen {
		look = chosenLook
	}
	v := pn.height(b)
	top := pn.bottom - max(scale.At(uint64(v)), 5)
	solid := pn.bottom - min(scale.At(uint64(min(max(b.Requested, 0), v))), pn.bottom-top)
	if v != b.Size { // this chart shows only the padding
		solid = top
	}
	title := []byte(p.hoverText(p.live[i]))
	p.Page.Fill(canvas.Rect(x, solid, right, pn.bottom), look, title)
	if solid > top {
		look.Hatched, look.Pale = false, true
		p.Page.Fill(canvas.Rect(x, top, right, solid), look, title)
	}
}
