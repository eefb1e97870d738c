package chart

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// bar is a row of the list: the buffers of one call site and purpose, or one buffer of a compiled program.
type bar struct {
	name, place string
	look        canvas.Look
	bytes       int64
	requested   int64
	count       int64
	buffer      int  // the first; -1 for the rest
	chosen      bool // has the marked buffer
}

// Sizes of the list.
const (
	listMost               = 20
	barPitch canvas.Length = 200
	barHigh  canvas.Length = 140
	barLeast canvas.Length = 660 // with the distances to its texts
)

// group sums the buffers at the peak as bars, largest first. The last of room bars has the rest.
func (p *peak) group(room int) {
	type key struct {
		name, place string
		kind        *kind
		buffer      int
	}
	index := map[key]int{}
	for i, buffer := range p.live {
		b := &p.s.Buffers[buffer]
		k := key{kind: p.ofKind[i]}
		k.name, k.place = plot.Name(p.c, p.s, b.Site)
		if p.s.Axis == lifetime.ProgramOrder {
			k.buffer = buffer
		}
		row := *keyed.At(index, &p.bars, k, &bar{name: k.name, place: k.place, look: k.kind.look, buffer: buffer})
		row.add(b.Size, min(max(b.Requested, 0), b.Size), 1)
		row.chosen = row.chosen || buffer == p.chosen
	}
	slices.SortFunc(p.bars, func(a, b *bar) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.buffer, b.buffer)) })
	if len(p.bars) <= room {
		return
	}
	// The bar with the marked buffer is always visible.
	if at := slices.IndexFunc(p.bars, func(b *bar) bool { return b.chosen }); at >= room-1 && room > 1 {
		p.bars = slices.Insert(slices.Delete(slices.Clone(p.bars), at, at+1), room-2, p.bars[at])
	}
	rest := &bar{name: units.Count(int64(len(p.bars)-room+1)) + " more", look: plot.OtherLook, buffer: -1}
	for _, row := range p.bars[room-1:] {
		rest.add(row.bytes, row.requested, row.count)
	}
	p.bars = append(p.bars[:room-1:room-1], rest)
}

func (b *bar) add(bytes, requested, count int64) {
	b.bytes = units.AddSat(b.bytes, bytes)
	b.requested = units.AddSat(b.requested, requested)
	b.count += count
}

// list draws the bars. A row has a name, a bar, and the bytes with their share.
func (p *peak) list() {
	title := "by call site"
	if p.s.Axis == lifetime.ProgramOrder {
		title = "by buffer"
	} else if p.s.Facts&lifetime.Stacks == 0 {
		title = "by operation"
	}
	const left canvas.Length = 160
	p.Page.Text(canvas.Text{X: left, Y: p.listTop - 130, Bold: true, S: title, Aside: "largest first"})
	var rows []plot.Row
	name, amounts, longest := canvas.Length(0), canvas.Length(0), int64(1)
	for _, b := range p.bars {
		rows, longest = append(rows, plot.Row{Name: b.name, Place: b.place}), max(longest, b.bytes)
		amounts = max(amounts, canvas.Width(p.amount(b), canvas.TextSize))
		name = max(name, canvas.Width(strings.TrimSpace(b.name+" "+b.place), canvas.TextSize))
	}
	right := p.Right
	if len(p.legend()) == 0 || p.narrow() {
		right = p.Width - left
	}
	wide := max((right-left)*2/5, min(name, right-left-amounts-barLeast)) // names are whole while bars have room
	x := left + wide + 100
	scale := plot.Scale{From: uint64(longest), To: uint64(max(right-x-amounts-60, 10))}
	rows = plot.FitRows(rows, wide)
	for i, b := range p.bars {
		y := p.listTop + canvas.Length(i)*barPitch
		p.Page.Text(canvas.Text{X: left, Y: y + 110, S: rows[i].Name, Aside: rows[i].Place})
		end := p.bar(b, x, y, scale)
		p.Page.Text(canvas.Text{X: end + 60, Y: y + 110, Role: canvas.Dim, S: p.amount(b)})
	}
}

// narrow reports whether the picture has the list below its legend, not beside it.
func (p *peak) narrow() bool { return p.Width < 5500 }

// amount returns the bytes of a bar, their share, and the number of buffers.
func (p *peak) amount(b *bar) string {
	text := units.Bytes(b.bytes) + ", " + p.share(b.bytes)
	if b.count > 1 {
		text += " in " + units.Count(b.count)
	}
	return text
}

// bar draws a bar and returns its end. The part beyond the requested bytes is paler.
func (p *peak) bar(b *bar, x, y canvas.Length, scale plot.Scale) canvas.Length {
	solid, end := x+scale.At(uint64(b.requested)), x+max(scale.At(uint64(b.bytes)), 5)
	text := strings.TrimSpace(canvas.Cut(b.name, 80)+" "+canvas.Cut(b.place, 60)) + "\n" + p.amount(b)
	if b.count == 1 && b.buffer >= 0 {
		text = p.hoverText(b.buffer)
	}
	if solid > x {
		p.Page.Fill(canvas.Rect(x, y, solid, y+barHigh), b.look, []byte(text))
	}
	if end > solid {
		look := b.look
		look.Pale = true
		p.Page.Fill(canvas.Rect(solid, y, end, y+barHigh), look, []byte(text))
	}
	p.Page.Stroke(canvas.Rect(x, y, end, y+barHigh).Closed(), canvas.Pen{Role: canvas.Dim, Width: 10}, nil) // pale bars lack an edge on a light page
	if b.chosen {
		p.Page.Stroke(canvas.Rect(x-15, y-15, end+15, y+barHigh+15).Closed(), canvas.Pen{Role: canvas.Bad, Width: 15}, []byte("marked"))
	}
	return end
}
