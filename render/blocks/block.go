package blocks

import (
	"strings"

	"github.com/memlane/memlane/render/canvas"
)

// outlined is the minimum height of a block with a line around it, and the minimum width
// of its steps, in tenths of a pixel. A line would cover most of a smaller block.
const outlined = 80

// blocks draws the shapes in groups by class, so that the colour is in the file once per
// group. Without groups, browsers take minutes for so many blocks with tooltips. Blocks without a tooltip are one path
// per group.
func (p *picture) blocks(l *layout) {
	groups := make([][]int32, 2*len(p.classes))
	for i := range l.shapes {
		k := int(l.shapes[i].class)
		sh := &l.shapes[i]
		first := l.steps[sh.first]
		// A block that moves often is narrow at each height.
		if first.hi-first.lo >= outlined && int(sh.end-first.x) >= outlined*sh.n {
			k += len(p.classes)
		}
		groups[k] = append(groups[k], int32(i))
	}
	p.Page.Group(canvas.Look{})
	for k, shapes := range groups {
		if len(shapes) == 0 {
			continue
		}
		look := p.classes[k%len(p.classes)].look
		look.Edged = k >= len(p.classes)
		look.Crisp = !look.Edged
		p.Page.Group(look)
		var plain canvas.Path
		for _, i := range shapes {
			if sh := &l.shapes[i]; sh.titled {
				p.Page.Fill(p.outlineOf(l, sh), canvas.Look{}, p.title(sh.buffer))
			} else {
				outline(&plain, l.steps[sh.first:sh.first+sh.n], sh.end, p.Bottom)
			}
		}
		if !plain.Empty() {
			class := &p.classes[k%len(p.classes)]
			p.Page.Fill(&plain, canvas.Look{}, []byte(canvas.Cut(strings.TrimSpace(class.name+" "+class.place), 80)))
		}
		p.Page.End()
	}
	p.Page.End()
}

// outlineOf returns the outline of a block. The next call overwrites it.
func (p *picture) outlineOf(l *layout, sh *shape) *canvas.Path {
	p.path.Reset()
	outline(&p.path, l.steps[sh.first:sh.first+sh.n], sh.end, p.Bottom)
	return &p.path
}

// outline adds the outline of a block: along the upper edge and back along the lower.
func outline(path *canvas.Path, steps []step, end, bottom point) {
	first, last := steps[0], steps[len(steps)-1]
	path.Move(first.x, bottom-first.hi)
	for i := 1; i < len(steps); i++ {
		if s, before := steps[i], steps[i-1]; s.hi != before.hi {
			path.Line(s.x, bottom-before.hi)
			path.Line(s.x, bottom-s.hi)
		}
	}
	path.Line(end, bottom-last.hi)
	path.Line(end, bottom-last.lo)
	for i := len(steps) - 1; i > 0; i-- {
		if s, before := steps[i], steps[i-1]; s.lo != before.lo {
			path.Line(s.x, bottom-s.lo)
			path.Line(s.x, bottom-before.lo)
		}
	}
	path.Line(first.x, bottom-first.lo)
}
