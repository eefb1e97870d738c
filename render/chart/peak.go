package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// peak draws a picture of a peak.
type peak struct {
	usage
	live   []int   // buffers at the peak
	kinds  []*kind // their purposes, most bytes first
	ofKind []*kind // by index of live
	chosen int     // index of the marked buffer of the space, -1 for none

	bars    []*bar
	listTop canvas.Length // of the first bar
}

// kind is a purpose of memory at a peak.
type kind struct {
	name  string
	look  canvas.Look
	bytes int64
	count int64
}

// Errors of Peak.
var (
	errNoBuffers = errors.New("no buffers were recorded, so the peak cannot be broken down")
	errNotFound  = errors.New("no buffer has this name")
)

// Peak draws what was alive at the peak as a list of bars with shares: a bar for each buffer of a compiled program,
// else for each call site, in the colours of the categories. Above are the curves of the bytes in use with and without
// padding, unless no history was recorded. buffer is the number of a buffer, or the name of its instruction, operation
// or function; Peak marks it and its lifetime. "" marks none. Peak fails if there are no buffers or none has this name.
//
// The list determines the height unless Options has one. The same input gives the same bytes.
func Peak(w io.Writer, c *lifetime.Capture, s *lifetime.Space, buffer string, o Options) error {
	height := o.Height
	if o = o.withDefaults(0, peakLeast); height == 0 {
		o.Height = 0
	}
	u, err := newUsage(c, s, o)
	if err != nil {
		return err
	}
	p := &peak{usage: *u, chosen: -1}
	if err := p.choose(buffer); err != nil {
		return fmt.Errorf("space %s: %w", s.ID(), err)
	}
	p.reserved = nil
	p.split()
	p.layOut()
	if p.Page, err = p.o.page(p.headline()+": "+units.Bytes(p.peak.Bytes), p.finding()+p.explanation()); err != nil {
		return err
	}
	p.Heading(p.headline(), append(p.Source(c), units.Plural(len(p.live), "buffer"), units.Bytes(p.peak.Bytes)+plot.OfLimit(s))...)
	if p.told() {
		p.stacked(p.kinds, sharesTop, sharesBottom, plot.Scale{From: uint64(max(p.peak.Bytes, 1)), To: uint64(p.Right - p.Left)}, p.share)
	}
	if p.over() {
		p.curves(curveLook, freeLine)
		p.Along()
		p.Limit(p.height, p.ceiling)
		p.Dot(p.peak, p.level(p.peak.Bytes))
		p.DrawLabels()
		p.lifetime()
	}
	p.list()
	p.Legend(sharesTop, p.legend())
	p.Footer(p.o.Height, p.explanation())
	return p.Page.Finish(w)
}

// Places of the parts.
const (
	sharesTop    canvas.Length = 620
	sharesBottom canvas.Length = 820
	curvesHeight canvas.Length = 1500
	peakLeast                  = 480 // pixels
)

// over reports whether there is something to draw over the axis. Without a history there is one instant.
func (p *peak) over() bool {
	return p.s.Axis == lifetime.ProgramOrder || p.s.Facts&lifetime.History != 0
}

// layOut places the curves and the list.
func (p *peak) layOut() {
	below := sharesBottom
	if !p.told() {
		below = sharesTop - 160
	}
	p.listTop = below + 480
	if p.over() {
		p.ceiling = p.most()
		p.Top = p.Labels(below-30, p.peak, p.most(), p.ceiling, p.Right)
		p.Bottom = p.Top + curvesHeight
		p.listTop = p.Bottom + 800
	}
	if p.narrow() {
		p.listTop = max(p.listTop, sharesTop+canvas.Length(len(p.legend()))*plot.RowHeight+260)
	}
	room := listMost
	if p.o.Height > 0 {
		room = max(int((canvas.Length(p.o.Height)*10-p.listTop-340)/barPitch), 1)
	}
	p.group(room)
	if p.o.Height == 0 {
		end := p.listTop + canvas.Length(len(p.bars))*barPitch
		p.o.Height = int(max(end, sharesTop+canvas.Length(len(p.legend()))*plot.RowHeight)/10) + 34
	}
}

// choose finds the buffers at the peak and the buffer to mark.
func (p *peak) choose(name string) error {
	p.live = p.s.LiveAt(p.peak.At)
	if len(p.live) == 0 {
		return errNoBuffers
	}
	if name == "" {
		return nil
	}
	bySize := func(i, j int) int {
		return cmp.Or(cmp.Compare(p.s.Buffers[j].Size, p.s.Buffers[i].Size), cmp.Compare(i, j))
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
	return slices.ContainsFunc([]string{site.Instr, site.Op, function, place},
		func(have string) bool { return have != "" && matches(have, name) })
}

// split groups the buffers at the peak by purpose.
func (p *peak) split() {
	p.kinds, p.ofKind = kindsOf(p.c, p.s, p.live)
	// Memory without buffers has the same colours as in the curves.
	p.kinds = append(p.kinds, &kind{name: plot.BaseRow(0, false).Name, look: plot.BaseLook, bytes: p.s.Base},
		&kind{name: plot.StackName, look: stackLook, bytes: p.s.StackAt(p.peak.At)})
	p.kinds = slices.DeleteFunc(p.kinds, func(k *kind) bool { return k.bytes <= 0 && k.count == 0 })
	slices.SortFunc(p.kinds, mostBytes)
	if !p.told() {
		p.kinds[0].look = heapLook // as in pictures of the usage
	}
}

func mostBytes(x, y *kind) int {
	return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.name, y.name))
}

// kindsOf groups buffers by purpose. of is the kind of each.
func kindsOf(c *lifetime.Capture, s *lifetime.Space, buffers []int) (all, of []*kind) {
	index := map[string]int{}
	for _, i := range buffers {
		b := &s.Buffers[i]
		category := c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i))
		name := cmp.Or(purpose.Words(category), noCategory)
		k := *keyed.At(index, &all, name, &kind{name: name})
		k.bytes, k.count, k.look = units.AddSat(k.bytes, b.Size), k.count+1, plot.CategoryLook(category)
		of = append(of, k)
	}
	return all, of
}

const noCategory = "no category recorded"

// told reports whether the purposes say something: there is more than one, or its name is known.
func (p *peak) told() bool { return len(p.kinds) > 1 || p.kinds[0].name != noCategory }

func (p *peak) headline() string {
	if !p.over() {
		return plot.Device(p.s) + " - memory at the end"
	}
	return plot.Device(p.s) + " - memory at the peak"
}

// finding returns sentences on the peak and its largest parts.
func (p *peak) finding() string {
	var parts []string
	for _, k := range p.kinds[:min(len(p.kinds), 3)] {
		parts = append(parts, canvas.Cut(k.name, 60)+" "+p.share(k.bytes))
	}
	text := p.Findings(p.c, p.peak)
	if p.told() {
		text += "It consists of " + strings.Join(parts, ", ") + ". "
	}
	return text + "The largest bar is " +
		canvas.Cut(strings.TrimSpace(p.bars[0].name+" "+p.bars[0].place), 120) + ", " + p.share(p.bars[0].bytes) + ". "
}

func (p *peak) explanation() string {
	_, padding := plot.Words(p.s)
	text := "One bar per call site" + map[bool]string{true: " and category"}[p.told()] + ", with its share of all bytes; the pale part is " + padding + "."
	if p.s.Axis == lifetime.ProgramOrder {
		text = "One bar per buffer, with its share of the peak; the pale part is " + padding + "."
	}
	if !p.over() {
		text += " No history was recorded."
	}
	return text
}

// stacked draws one bar of kinds, from the left. Parts that are long enough carry their names and what text says of their bytes.
func (f *figure) stacked(kinds []*kind, top, bottom canvas.Length, scale plot.Scale, text func(bytes int64) string) {
	at := int64(0)
	for _, k := range kinds {
		left := f.Left + scale.At(uint64(at))
		at = units.AddSat(at, k.bytes)
		right, l := f.Left+scale.At(uint64(at)), k.look
		l.Edged = true
		f.Page.Fill(canvas.Rect(left, top, right, bottom), l, []byte(canvas.Cut(k.name, 80)+"\n"+units.Exact(k.bytes)+", "+text(k.bytes)))
		name := canvas.Text{X: left + 60, Y: (top+bottom)/2 + 40, Role: canvas.On(k.look), S: canvas.Clean(k.name + " " + text(k.bytes))}
		if name.Extent()+100 <= right-left {
			f.Page.Text(name)
		}
	}
	f.Page.Stroke(canvas.Rect(f.Left, top, f.Left+scale.At(uint64(at)), bottom).Closed(), canvas.Pen{Role: canvas.Dim, Width: 10}, nil) // pale parts lack an edge on a light page
}

func (p *peak) share(bytes int64) string { return shareOf(bytes, p.peak.Bytes) }

// shareOf returns bytes as a share of all, in percent.
func shareOf(bytes, all int64) string {
	return strconv.FormatFloat(100*float64(bytes)/float64(max(all, 1)), 'f', 1, 64) + " %"
}

// lifetime marks the allocation and the free of the chosen buffer.
func (p *peak) lifetime() {
	if p.chosen < 0 {
		return
	}
	b := &p.s.Buffers[p.chosen]
	from, to := p.X(b.Begin), p.X(b.End)
	if b.Edge&lifetime.EndOpen != 0 {
		to = p.Right
	}
	pen := canvas.Pen{Role: canvas.Bad, Width: 15, Dashed: true}
	p.Page.Fill(canvas.Rect(from, p.Bottom-60, max(to, from+10), p.Bottom), chosenLook, []byte(p.hoverText(p.chosen)))
	for _, x := range []canvas.Length{from, to} {
		p.Page.Stroke(canvas.Line(x, p.Top, x, p.Bottom), pen, nil)
	}
}

// The curve is grey because the colours mean purposes.
var curveLook = canvas.Look{Role: canvas.Stays}

// It is not hatched, because that means a leak.
var chosenLook = canvas.Look{RGB: 0xd1495b}

// legend returns rows for the purposes, the curves and the marked buffer.
func (p *peak) legend() []plot.Row {
	var rows []plot.Row
	for _, k := range p.kinds {
		if !p.told() {
			break
		}
		below := units.Bytes(k.bytes) + ", " + p.share(k.bytes)
		if k.count > 0 {
			below += " in " + units.Count(k.count)
		}
		rows = append(rows, plot.Row{Look: k.look, Name: k.name, Below: below})
	}
	const most = 8
	rows = rows[:min(len(rows), most)]
	if p.over() {
		rows = append(rows, p.inUse(curveLook)...)
	}
	if p.chosen >= 0 {
		b := &p.s.Buffers[p.chosen]
		name, place := plot.Name(p.c, p.s, b.Site)
		rows = append(rows, plot.Row{Look: chosenLook, Name: name, Place: place, Below: units.Bytes(b.Size) + ", marked"})
	}
	return rows
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
