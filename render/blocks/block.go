package blocks

import (
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// outlined is the least height of a block that gets a line around it, and the
// least width of its steps, in tenths of a pixel: smaller ones would be all
// line.
const outlined = 40

// blocks writes the shapes, class by class: one group carries the colour of
// thousands. Browsers take minutes over so many blocks with hover texts when
// they do not stand in a group.
func (p *picture) blocks(l *layout) {
	groups := make([][]int32, 2*len(p.classes))
	for i := range l.shapes {
		k := int(l.shapes[i].class)
		if l.isOutlined(&l.shapes[i]) {
			k += len(p.classes)
		}
		groups[k] = append(groups[k], int32(i))
	}
	p.str("<g>\n")
	for k, shapes := range groups {
		if len(shapes) == 0 {
			continue
		}
		look := ` shape-rendering="crispEdges"`
		if k >= len(p.classes) {
			look = ` class="edge"`
		}
		p.str(`<g fill="`, p.classes[k%len(p.classes)].fill, `"`, look, ">\n")
		for _, i := range shapes {
			p.block(l, &l.shapes[i])
		}
		p.str("</g>\n")
	}
	p.str("</g>\n")
}

func (l *layout) isOutlined(sh *shape) bool {
	first := l.steps[sh.first]
	// A block that moves often is narrow in each place.
	return first.hi-first.lo >= outlined && int(sh.end-first.x) >= outlined*sh.n
}

// block writes one buffer. It runs once per block: no fmt, no memory of its own.
func (p *picture) block(l *layout, sh *shape) {
	b := &p.s.Buffers[sh.buffer]
	out := append(p.buf, `<path d="`...)
	out = appendOutline(out, l.steps[sh.first:sh.first+sh.n], sh.end, p.bottom)
	out = append(out, p.caption(b.Site)...)
	if p.s.Axis == lifetime.ProgramOrder {
		out = append(out, b.Kind.String()...)
		if b.Requested != b.Size {
			out = append(append(out, ", without padding "...), units.Exact(b.Requested)...)
		}
		out = append(out, '\n')
	}
	out = append(out, p.size(b.Size)...)
	if p.s.Facts&lifetime.Addresses != 0 {
		out = strconv.AppendUint(out, b.Addr, 16)
	}
	out = p.appendLife(out, b)
	if p.s.BufNotes != nil {
		if note := p.c.Notes[p.s.BufNotes[sh.buffer]]; note != "" {
			out = appendText(append(out, '\n'), cut(note, 200))
		}
	}
	p.buf = append(out, "</title></path>\n"...)
}

// appendLife says how long a buffer lived and which ends of it were not seen.
func (p *picture) appendLife(out []byte, b *lifetime.Buffer) []byte {
	unit := p.s.Axis.Unit()
	if p.s.Axis == lifetime.ProgramOrder {
		return appendInstructions(append(out, '\n'), b)
	}
	// Times count from the beginning of the window, as on the axis.
	if b.Edge&lifetime.BeginUnseen != 0 {
		out = append(out, "\nolder than the window"...)
	} else {
		out = append(out, "\nfrom "...)
		out = appendSpan(out, b.Begin-p.s.Begin, unit)
	}
	switch {
	case b.Edge&lifetime.EndOpen != 0:
		out = append(out, ", alive at the end"...)
	default:
		out = append(out, ", for "...)
		out = appendSpan(out, b.End-b.Begin, unit)
	}
	if b.Edge&lifetime.Pending != 0 {
		out = append(out, " (free pending)"...)
	}
	if b.Edge&lifetime.EndInferred != 0 {
		out = append(out, " (free not recorded)"...)
	}
	return out
}

// appendInstructions says between which instructions a buffer of a compiled
// program lives.
func appendInstructions(out []byte, b *lifetime.Buffer) []byte {
	open := b.Edge&lifetime.EndOpen != 0
	if b.Begin < 0 && open {
		return append(out, "through the whole program"...)
	}
	out = append(out, "instruction "...)
	out = append(out, units.Count(b.Begin)...)
	if open {
		return append(out, " to the end"...)
	}
	out = append(out, " to "...)
	return append(out, units.Count(b.End)...)
}

// caption returns what stands between the outline and the size of every block
// of a site: the markup, and the first line of the hover text.
func (p *picture) caption(site lifetime.SiteID) []byte {
	if text := p.captions[site]; text != nil {
		return text
	}
	l := p.label(site)
	text := appendText([]byte(`"><title>`), cut(l.name, 80))
	if l.place != "" {
		text = append(text, " ("...)
		text = appendText(text, cut(l.place, 60))
		text = append(text, ')')
	}
	text = append(text, '\n')
	for _, line := range details(&p.c.Sites[site], l) {
		text = append(appendText(text, line), '\n')
	}
	p.captions[site] = text
	return text
}

// details are the further lines of a hover text on what was computed: the whole
// name of the operation, and the instruction or tensor. A label may say some of
// it already.
func details(s *lifetime.Site, l label) (lines []string) {
	if s.Op != "" && s.Op != l.name {
		lines = append(lines, cut(s.Op, 200))
	}
	var words []string
	for _, word := range []string{s.Instr, s.DType, s.Shape, s.Region} {
		if word != "" && word != l.name && word != l.place && (word != s.DType || s.Instr == "") { // the shape of an instruction has its type
			words = append(words, cut(word, 100))
		}
	}
	if len(words) > 0 {
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// size returns the second line of a hover text, up to the address.
func (p *picture) size(n int64) []byte {
	text, ok := p.sizes[n]
	if !ok {
		text = []byte(units.Exact(n))
		if p.s.Facts&lifetime.Addresses != 0 {
			text = append(text, " at 0x"...)
		}
		p.sizes[n] = text
	}
	return text
}
