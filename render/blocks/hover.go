package blocks

import (
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// title returns the tooltip of a buffer. The next call overwrites it. It runs once per
// block, so it uses neither fmt nor new memory.
func (p *picture) title(buffer int) []byte {
	b := &p.s.Buffers[buffer]
	out := append(p.hover[:0], p.caption(p.partOf(buffer))...)
	if b.Kind != lifetime.Plain {
		out = append(append(out, b.Kind.String()...), '\n')
	}
	out = append(out, p.size(b.Size)...)
	if b.Requested != b.Size {
		out = p.appendRequested(out, b)
	}
	if p.s.Facts&lifetime.Addresses != 0 {
		out = p.appendOffset(out, b.Addr)
	}
	out = p.appendLife(out, b)
	if h := p.c.HolderOf(p.s, buffer); h != nil {
		out = append(append(out, '\n'), canvas.Cut(h.Label(), 200)...)
	}
	if p.s.BufNotes != nil {
		if note := p.c.Notes[p.s.BufNotes[buffer]]; note != "" {
			out = append(append(out, '\n'), canvas.Cut(note, 200)...)
		}
	}
	p.hover = out
	return out
}

// appendRequested appends the requested bytes and the overhead of the buffer.
func (p *picture) appendRequested(out []byte, b *lifetime.Buffer) []byte {
	word, _ := plot.Words(p.s)
	out = append(append(append(out, '\n'), word...), ' ')
	out = append(out, p.size(b.Requested)...)
	if b.Requested <= 0 || b.Size < b.Requested {
		return out
	}
	out = append(out, ", overhead "...)
	out = strconv.AppendFloat(out, 100*float64(b.Size-b.Requested)/float64(b.Requested), 'f', 1, 64)
	return append(out, " %"...)
}

// appendOffset appends the address of a buffer, in a picture of addresses also its offset, for comparison with other
// buffers.
func (p *picture) appendOffset(out []byte, addr uint64) []byte {
	if p.lowest != 0 && p.m == nil {
		return strconv.AppendUint(append(out, "\naddress 0x"...), addr, 16)
	}
	out = append(out, "\noffset "...)
	out = strconv.AppendUint(out, addr-p.lowest, 10)
	out = append(out, " (0x"...)
	out = strconv.AppendUint(out, addr-p.lowest, 16)
	out = append(out, ')')
	if p.lowest != 0 {
		out = append(out, ", address 0x"...)
		out = strconv.AppendUint(out, addr, 16)
	}
	return out
}

// appendLife appends the lifetime of a buffer, and which ends were not recorded.
func (p *picture) appendLife(out []byte, b *lifetime.Buffer) []byte {
	unit := p.s.Axis.Unit()
	if p.s.Axis == lifetime.ProgramOrder {
		return appendInstructions(append(out, '\n'), b)
	}
	// Times start at the beginning of the window, as on the axis.
	if b.Edge&lifetime.BeginUnseen != 0 {
		out = append(out, "\nallocated before the recording"...)
	} else {
		out = append(out, "\nfrom "...)
		out = units.AppendSpan(out, b.Begin-p.s.Begin, unit)
	}
	if b.Edge&lifetime.EndOpen != 0 {
		out = append(out, ", alive at the end"...)
	} else {
		out = append(out, ", for "...)
		out = units.AppendSpan(out, b.End-b.Begin, unit)
	}
	if b.Edge&lifetime.Pending != 0 {
		out = append(out, " (free pending)"...)
	}
	if b.Edge&lifetime.EndInferred != 0 {
		out = append(out, " (free not recorded)"...)
	}
	return out
}

// appendInstructions appends the first and the last instruction of a buffer of a compiled program.
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

// caption returns the first lines of the tooltips of a part of a site.
func (p *picture) caption(part int) []byte {
	if text := p.captions[part]; text != nil {
		return text
	}
	site, l := lifetime.SiteID(part/2), p.label(part)
	text := []byte(canvas.Cut(l.name, 80))
	if l.place != "" {
		text = append(text, " ("+canvas.Cut(l.place, 60)+")"...)
	}
	text = append(text, '\n')
	for _, line := range p.details(&p.c.Sites[site], l) {
		text = append(append(text, line...), '\n')
	}
	if l.leak != "" {
		text = append(append(text, canvas.Cut(l.leak, 120)...), '\n')
	}
	p.captions[part] = text
	return text
}

// details returns the lines of a tooltip about the operation: its whole name, the
// instruction or tensor, and its source. They omit the parts that the label already has.
func (p *picture) details(s *lifetime.Site, l label) (lines []string) {
	if s.Op != "" && s.Op != l.name {
		lines = append(lines, canvas.Cut(s.Op, 200))
	}
	var words []string
	for _, word := range []string{s.Instr, s.DType, s.Shape, s.Region} {
		if word != "" && word != l.name && word != l.place && (word != s.DType || s.Instr == "") {
			// the shape of an instruction contains its type
			words = append(words, canvas.Cut(word, 100))
		}
	}
	if len(words) > 0 {
		lines = append(lines, strings.Join(words, " "))
	}
	for f := range p.c.FramesOf(s.Source) {
		if f.Kind == frame.User {
			if place := f.Place(); place != l.place {
				lines = append(lines, canvas.Cut(f.Function+" ("+place+")", 140))
			}
			break
		}
	}
	return lines
}

// size returns units.Exact(n) from a cache, because units.Exact is slow.
func (p *picture) size(n int64) []byte {
	text, ok := p.sizes[n]
	if !ok {
		text = []byte(units.Exact(n))
		p.sizes[n] = text
	}
	return text
}
