package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// peak draws a picture of a peak.
type peak struct {
	usage
	live   []int   // buffers at the peak
	kinds  []*kind // their purposes, most bytes first
	ofKind []*kind // by index of live
	chosen int     // index of the marked buffer of the space
}

// kind is a purpose of memory at a peak.
type kind struct {
	name  string
	look  canvas.Look
	bytes int64
	count int64
}

// kindNames are the words for the parts of a compiled program's memory.
var kindNames = map[lifetime.Kind]string{
	lifetime.Parameter: "inputs", lifetime.Output: "outputs", lifetime.Temporary: "temporaries",
	lifetime.Constant: "constants", lifetime.ThreadLocal: "thread-local",
}

// Errors of Peak.
var (
	errNoBuffers = errors.New("no buffers were recorded, so the peak cannot be broken down")
	errNotFound  = errors.New("no buffer has this name")
)

// Peak draws the buffers at the peak as bars: by size, by padding and in order, with a
// colour for each purpose. Above are the curves of the bytes in use with and without
// padding. It marks the allocation and the free of one buffer. buffer is the number of
// this buffer, or the name of its instruction, operation or function; "" is the largest.
// Peak fails if there are no buffers or none has this name.
func Peak(w io.Writer, c *lifetime.Capture, s *lifetime.Space, buffer string, o Options) error {
	u, err := newUsage(c, s, o.withDefaults(640, 560))
	if err != nil {
		return err
	}
	p := &peak{usage: *u}
	if err := p.choose(buffer); err != nil {
		return fmt.Errorf("space %s: %w", s.ID(), err)
	}
	p.reserved = nil
	p.ceiling, p.Top, p.Bottom = p.most(), 1280, 3140
	p.split()
	if p.Page, err = p.o.page(p.headline()+": "+units.Bytes(p.peak.Bytes), p.explanation()); err != nil {
		return err
	}
	p.Heading(p.headline(), append(p.Source(c), units.Count(int64(len(p.live)))+" buffers",
		units.Bytes(p.peak.Bytes)+plot.OfLimit(s))...)
	p.curves(curveLook, freeLine)
	p.shares()
	p.Along()
	p.Peak(p.peak, p.level(p.peak.Bytes), p.Right)
	p.lifetime()
	p.bars()
	p.Legend(620, p.legend())
	p.Footer(p.o.Height, p.explanation())
	return p.Page.Finish(w)
}

// choose finds the buffers at the peak and the buffer to mark.
func (p *peak) choose(name string) error {
	p.live = p.s.LiveAt(p.peak.At)
	if len(p.live) == 0 {
		return errNoBuffers
	}
	bySize := func(i, j int) int {
		return cmp.Or(cmp.Compare(p.s.Buffers[j].Size, p.s.Buffers[i].Size), cmp.Compare(i, j))
	}
	p.chosen = slices.MinFunc(p.live, bySize)
	if name == "" {
		return nil
	}
	// Exact names come before parts of names, then buffers at the peak before others.
	all := make([]int, len(p.s.Buffers))
	for i := range all {
		all[i] = i
	}
	equal := func(have, name string) bool { return have == name }
	for _, matches := range []func(have, name string) bool{equal, strings.Contains} {
		for _, buffers := range [][]int{p.live, all} {
			found := slices.DeleteFunc(slices.Clone(buffers), func(i int) bool { return !p.hasName(i, name, matches) })
			if len(found) > 0 {
				p.chosen = slices.MinFunc(found, bySize)
				return nil
			}
		}
	}
	return fmt.Errorf("%q: %w", canvas.Cut(name, 60), errNotFound)
}

// hasName reports whether one of the names of a buffer matches.
func (p *peak) hasName(buffer int, name string, matches func(have, name string) bool) bool {
	b := &p.s.Buffers[buffer]
	site := &p.c.Sites[b.Site]
	function, place := plot.Name(p.c, p.s, b.Site)
	if p.s.ValueIDs != nil && strconv.FormatInt(p.s.ValueIDs[buffer], 10) == name {
		return true
	}
	return slices.ContainsFunc([]string{site.Instr, site.Op, function, place}, func(have string) bool { return have != "" && matches(have, name) })
}

// split groups the buffers at the peak by purpose.
func (p *peak) split() {
	index := map[string]*kind{}
	add := func(name string, bytes int64) *kind {
		k := index[name]
		if k == nil {
			k = &kind{name: name}
			index[name], p.kinds = k, append(p.kinds, k)
		}
		k.bytes = units.AddSat(k.bytes, bytes)
		return k
	}
	for _, i := range p.live {
		b := &p.s.Buffers[i]
		category := p.c.Category(&p.s.SpaceInfo, b.Kind, b.Site, p.s.PurposeOf(i))
		k := add(cmp.Or(kindNames[b.Kind], category, "buffers"), b.Size)
		k.count++
		k.look = plot.CategoryLook(category)
		p.ofKind = append(p.ofKind, k)
	}
	// Memory without buffers has the same colours as in the curves.
	if p.s.Base > 0 {
		add("before the window", p.s.Base).look = plot.BaseLook
	}
	if n := p.s.StackAt(p.peak.At); n > 0 {
		add("stack, outside the heap", n).look = stackLook
	}
	slices.SortFunc(p.kinds, func(a, b *kind) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
}

func (p *peak) headline() string { return plot.Device(p.s) + " - peak by buffer" }

func (p *peak) explanation() string {
	_, padding := plot.Words(p.s)
	return "One bar per buffer at the peak; its pale part is " + padding + ". The curves show the bytes in use with and without it."
}

// shares draws one bar with all bytes at the peak, by purpose.
func (p *peak) shares() {
	scale := plot.Scale{From: uint64(max(p.peak.Bytes, 1)), To: uint64(p.Right - p.Left)}
	at := int64(0)
	for _, k := range p.kinds {
		x := p.Left + scale.At(uint64(at))
		at = units.AddSat(at, k.bytes)
		l := k.look
		l.Edged = true
		p.Page.Fill(canvas.Rect(x, 620, p.Left+scale.At(uint64(at)), 800), l, []byte(canvas.Cut(k.name, 80)+"\n"+units.Exact(k.bytes)+", "+p.share(k.bytes)))
	}
}

func (p *peak) share(bytes int64) string {
	return strconv.FormatFloat(100*float64(bytes)/float64(p.peak.Bytes), 'f', 1, 64) + " %"
}

// lifetime marks the allocation and the free of the chosen buffer.
func (p *peak) lifetime() {
	b := &p.s.Buffers[p.chosen]
	from, to, end := p.X(b.Begin), p.Right, "alive at the end"
	if b.Edge&lifetime.EndOpen == 0 {
		to, end = p.X(b.End), "freed"
	}
	begin := "allocated"
	if b.Edge&lifetime.BeginUnseen != 0 || b.Begin < plot.Origin(p.s) {
		begin = "allocated before the start"
	}
	pen := canvas.Pen{Role: canvas.Bad, Width: 15, Dashed: true}
	p.Page.Fill(canvas.Rect(from, p.Bottom-60, max(to, from+10), p.Bottom), chosenLook, []byte(p.hoverText(p.chosen)))
	for _, x := range []canvas.Length{from, to} {
		p.Page.Stroke(canvas.Line(x, p.Top, x, p.Bottom), pen, nil)
	}
	p.TextAt(from, p.Top+170, p.Right, canvas.Text{Role: canvas.Bad, Halo: true, S: begin})
	p.TextAt(to, p.Top+330, p.Right, canvas.Text{Role: canvas.Bad, Halo: true, S: end})
}

// The curve is grey because the colours mean purposes.
var curveLook = canvas.Look{Role: canvas.Stays}

// It is not hatched, because that means a leak.
var chosenLook = canvas.Look{RGB: 0xd1495b}

// legend returns rows for the purposes, the curves and the largest buffers.
func (p *peak) legend() []plot.Row {
	var rows []plot.Row
	for _, k := range p.kinds {
		below := units.Bytes(k.bytes) + ", " + p.share(k.bytes)
		if k.count > 0 {
			below += " in " + units.Count(k.count)
		}
		rows = append(rows, plot.Row{Look: k.look, Name: k.name, Below: below})
	}
	const most = 6
	rows = append(rows[:min(len(rows), most)], p.inUse(curveLook)...)
	rows = append(rows, p.row(p.chosen, chosenLook, ", marked"))
	// The largest buffers fill the rest of the page.
	room := (p.o.Height - 62 - 40) / int(plot.RowHeight/10)
	for _, i := range p.first(len(p.live), func(b *lifetime.Buffer) int64 { return b.Size }) {
		if len(rows) == room {
			break
		}
		if p.live[i] != p.chosen {
			rows = append(rows, p.row(p.live[i], p.ofKind[i].look, ""))
		}
	}
	return rows
}

// row returns the legend row of one buffer.
func (p *peak) row(buffer int, look canvas.Look, more string) plot.Row {
	b := &p.s.Buffers[buffer]
	name, place := plot.Name(p.c, p.s, b.Site)
	return plot.Row{Look: look, Name: name, Place: place, Below: units.Bytes(b.Size) + more}
}

// hoverText returns the tooltip of a buffer.
func (p *peak) hoverText(buffer int) string {
	b := &p.s.Buffers[buffer]
	name, place := plot.Name(p.c, p.s, b.Site)
	text := canvas.Cut(name, 80)
	if place != "" {
		text += " (" + canvas.Cut(place, 60) + ")"
	}
	if instr := p.c.Sites[b.Site].Instr; instr != "" && instr != name {
		text += "\n" + canvas.Cut(instr+" "+p.c.Sites[b.Site].Shape, 160)
	}
	text += "\n" + units.Exact(b.Size)
	if b.Size != b.Requested {
		requested, padding := plot.Words(p.s)
		text += fmt.Sprintf(", %s %s, %s %s", requested, units.Exact(b.Requested), padding, units.Bytes(b.Size-b.Requested))
	}
	if b.Kind != lifetime.Plain {
		text += "\n" + b.Kind.String()
	}
	return text
}
