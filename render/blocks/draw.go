package blocks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// draw draws the picture on a page, from back to front.
func (p *picture) draw() error {
	var l layout
	m := p.m
	if m != nil {
		l = p.place(m)
	} else {
		l = p.stack()
	}
	var err error
	p.Page, err = canvas.New(p.o.Format, canvas.Page{
		Width: p.o.Width, Height: p.o.Height, Theme: p.o.Theme,
		Title: p.headline(), Desc: p.finding() + p.explanation(&l),
	})
	if err != nil {
		return err
	}
	name, height := "bytes in use", p.height().At
	if m != nil {
		name, height = "offset, without gaps", m.height
	}
	facts := p.Source(p.c)
	if p.o.Title != "" {
		facts = append(facts, strings.TrimPrefix(p.subject(), " - "))
	}
	p.Heading(p.headline(), append(facts, units.Plural(p.buffers, "buffer"),
		units.Span(p.To-max(p.From, plot.Origin(p.s)), p.s.Axis.Unit()), "peak "+units.Bytes(p.peak.Bytes)+plot.OfLimit(p.s))...)
	p.Upwards(name)
	p.Sizes(p.ceiling, 500, height)
	if m != nil {
		p.regions(m)
	} else {
		p.drawFloors()
	}
	p.mergedPaths(&l)
	p.blocks(&l)
	if m == nil {
		p.Page.Stroke(p.topEdge(), canvas.Pen{Role: canvas.Dim, Width: 10}, nil)
	}
	p.Along()
	p.peakLine()
	p.Limit(height, p.ceiling)
	if m != nil {
		p.Refusals(nil, p.ceiling)
		p.largestFree(m)
	} else {
		p.Refusals(height, p.ceiling)
	}
	p.Steps()
	for _, name := range p.names { // last: nothing crosses them
		p.Plate(name.Text, name.look)
	}
	p.DrawLabels()
	rows := p.rows()
	p.Legend(p.Top, rows[:min(len(rows), int((point(p.o.Height)*10-p.Top)/plot.RowHeight))]) // it stays on the page
	p.Others(p.o.Height, p.other)
	p.Footer(p.o.Height, p.explanation(&l))
	return nil
}

// headline returns the title of the picture.
func (p *picture) headline() string {
	if p.o.Title != "" {
		return canvas.Cut(p.o.Title, 200)
	}
	return plot.Device(p.s) + p.subject() // the device is enough to identify a space; the line below has the rest
}

// subject says what is drawn.
func (p *picture) subject() string {
	what := [...]string{" - allocated memory", " - addresses"}[p.o.Layout]
	by := [...]string{" by call site", " by size", ", leaks", " by category", " by layer", " by operation", " by shape"}[p.o.Color]
	if p.o.Color == BySite && (p.s.Axis == lifetime.ProgramOrder || p.s.Facts&lifetime.Stacks == 0) {
		by = " by operation" // scopes are operations too
	}
	return what + by
}

// finding says in sentences what the picture shows: failed allocations, leaks, and what fills the peak.
func (p *picture) finding() string {
	text := p.Findings(p.c, p.peak)
	classes := slices.Clone(p.classes)
	slices.SortStableFunc(classes, func(a, b class) int { return cmp.Compare(b.bytes, a.bytes) })
	var parts []string
	for _, c := range classes {
		name := canvas.Cut(strings.TrimSpace(c.name+" "+c.place), 100)
		if c.leak != "" {
			text += name + ": " + c.leak + ". "
		}
		if c.bytes > 0 && len(parts) < 3 {
			parts = append(parts, name+" "+units.Bytes(c.bytes))
		}
	}
	if len(parts) > 0 {
		text += "Largest at the peak: " + strings.Join(parts, ", ") + ". "
	}
	return text
}

// explanation explains the picture and counts the buffers without a separate block.
func (p *picture) explanation(l *layout) string {
	s := "One block per buffer"
	if l.rest.count > 0 {
		small := units.Plural(l.rest.count, "small buffer")
		if l.rest.bytes > 0 {
			small += " (" + atPeak(l.rest.bytes) + ")"
		}
		if s += "; " + small + " drawn together"; l.rest.count == int64(p.buffers) {
			s = "Drawn together: " + small
		}
	}
	if p.Below > 0 && p.o.Advice != "" {
		s = p.o.Advice + " " + s
	}
	at := func(before int64) int64 { return p.Space.LevelAt(p.Space.AtEnd()-before, lifetime.Occupied) }
	if drawn, end := at((p.To-p.From)/500), at(0); max(end-drawn, drawn-end) > p.peak.Bytes/20 { // in the last pixel, and after it
		s = "At the end " + units.Bytes(end) + " are in use. " + s
	}
	return s + map[bool]string{true: ". Gaps between regions are not drawn.", false: ". Width is lifetime, height is size."}[p.o.Layout == Address]
}

// peakLine marks the peak: its height in the stacked layout, its time in the other.
func (p *picture) peakLine() {
	if plot.Still(p.s) {
		return
	}
	x, y := p.X(p.peak.At), p.Top
	line := canvas.Line(x, p.Top, x, p.Bottom)
	if p.o.Layout == Stacked {
		y = p.Bottom - p.height().At(uint64(p.peak.Bytes))
		line = canvas.Line(p.Left, y, p.Right, y)
	}
	p.Page.Stroke(line, canvas.Pen{Role: canvas.Foreground, Width: 10, Dashed: true}, nil)
	p.Dot(p.peak, y)
}

// rows returns the legend: the classes, and the bytes below the buffers, which come first if only some rows fit.
func (p *picture) rows() (rows []plot.Row) {
	tops := plot.Tops(p.s, len(p.classes), p.seen(func(i int) int { return int(p.classOf(i)) }))
	for k, c := range p.classes {
		if below := atPeak(c.bytes); !c.hidden {
			if c.bytes == 0 {
				below = "at most " + units.Bytes(tops[k])
			}
			rows = append(rows, plot.Row{Look: c.look, Name: c.name, Place: c.place, Below: cmp.Or(c.leak, below), Bad: c.leak != ""})
		}
	}
	at := len(rows)
	if p.keys {
		at = 0
	}
	if len(p.s.Stack) > 0 {
		rows = slices.Insert(rows, at, plot.Row{Look: stackLook, Name: plot.StackName, Below: atPeak(p.s.StackAt(p.peak.At))})
	}
	if base := p.base(); base > 0 {
		rows = slices.Insert(rows, at, plot.BaseRow(base, p.Below > 0))
	}
	if p.m != nil && len(p.s.Regions) > 0 {
		row := plot.Row{Look: canvas.Look{Role: canvas.Room}, Name: "reserved but free"}
		if last := p.Refused(); last != nil {
			row.Name = "free at the failure"
			row.Below = units.Bytes(region.FreeAt(p.s, last.Begin).Total) + "; largest (red) " + units.Bytes(p.free.Largest)
		}
		rows = append(rows, row)
	}
	return append(rows, p.RefusedRows()...)
}

func atPeak(bytes int64) string { return units.Bytes(bytes) + " at the peak" }

// drawFloors draws the bytes below the buffers: those from before the window, and on them the
// stack of compiled programs.
func (p *picture) drawFloors() {
	bottom, top := make([]int64, len(p.floors)), make([]int64, len(p.floors))
	base := p.base()
	for k := range top {
		top[k] = base
	}
	row := plot.BaseRow(base, p.Below > 0)
	for _, band := range []struct {
		look  canvas.Look
		title string
		path  *canvas.Path
	}{
		{row.Look, row.Name + "\n" + units.Exact(base) + ", without events", p.band(bottom, top, p.height())},
		{stackLook, plot.StackName + "\n" + units.Exact(p.s.StackAt(p.peak.At)) + " at the peak, outside the heap", p.band(top, p.floors, p.height())},
	} {
		if !band.path.Empty() {
			p.Page.Fill(band.path, band.look, []byte(band.title))
		}
	}
	if p.Below > 0 {
		p.DrawBreak(row.Name+": "+units.Bytes(p.base())+", without events", plot.BaseLook)
	}
}

// topEdge returns the upper edge of the memory in use, which pale areas lack on a light page, in whole pixels.
func (p *picture) topEdge() *canvas.Path {
	var path canvas.Path
	height, last := p.height(), point(-1)
	for k, level := range p.cols.level {
		x, y := p.columnX(k)+5, (p.Bottom-height.At(uint64(max(level, 0))))/10*10+5
		if k == 0 {
			path.Move(x-5, y)
		} else if y != last {
			path.Line(x, last)
			path.Line(x, y)
		}
		last = y
	}
	path.Line(p.Right, last)
	return &path
}

// largestFree draws the request that failed last beside the largest free piece at that instant, from the same address on.
func (p *picture) largestFree(m *addressMap) {
	last := p.Refused()
	if last == nil || last.Requested <= 0 || len(p.s.Regions) == 0 {
		return
	}
	p.free = region.PiecesFor(p.s, last)
	lo, hi := m.span(p.free.At, p.free.Largest)
	x, high := min(max(p.X(last.Begin), p.Left+plot.RefusedWidth), p.Right-plot.RefusedWidth), min(m.scale.At(uint64(last.Requested)), p.Bottom-p.Top)
	lo = min(lo, p.Bottom-p.Top-high)
	request := canvas.Rect(x, p.Bottom-lo-high, x+plot.RefusedWidth, p.Bottom-lo)
	p.Page.Fill(request, plot.RefusedLook, []byte("refused: "+units.Exact(last.Requested)))
	p.Page.Stroke(request.Closed(), canvas.Pen{Role: canvas.Bad, Width: 15}, nil)
	if hi > lo {
		p.Page.Stroke(canvas.Rect(x-plot.RefusedWidth, p.Bottom-hi, x, p.Bottom-lo).Closed(), canvas.Pen{Role: canvas.Bad, Width: 15},
			[]byte("largest free piece: "+units.Exact(p.free.Largest)))
	}
}

// regions draws reserved memory, behind the buffers.
func (p *picture) regions(m *addressMap) {
	if len(p.s.Regions) == 0 {
		return
	}
	var small, large []int
	for i := range p.s.Regions {
		switch rc := p.rect(m, regionBlock(&p.s.Regions[i])); {
		case rc.x >= p.Right || rc.end <= rc.x:
		case rc.hi-rc.lo < smallest: // drawn too, to show free memory
			small = append(small, i)
		default:
			large = append(large, i)
		}
	}
	paths := p.mosaic(1, func(g *grid) {
		for _, i := range small {
			g.add(p.exact(m, regionBlock(&p.s.Regions[i])), 0)
		}
	})
	if !paths[0].Empty() {
		p.Page.Fill(&paths[0], canvas.Look{Role: canvas.Room, Crisp: true}, nil)
	}
	p.Page.Group(canvas.Look{Role: canvas.Room, Edged: true})
	for _, i := range large {
		r := &p.s.Regions[i]
		rc := p.rect(m, regionBlock(r))
		p.path.Reset()
		outline(&p.path, []step{rc.step}, rc.end, p.Bottom)
		p.Page.Fill(&p.path, canvas.Look{}, []byte(p.regionName(r)+"\n"+units.Exact(r.Size)+" at 0x"+strconv.FormatUint(r.Addr, 16)))
	}
	p.Page.End()
}

// regionBlock returns a buffer that fills a region.
func regionBlock(r *lifetime.Region) *lifetime.Buffer {
	return &lifetime.Buffer{Begin: r.Begin, End: r.End, Addr: r.Addr, Size: r.Size, Edge: r.Edge}
}

// regionName returns the kind and the uses of a region.
func (p *picture) regionName(r *lifetime.Region) string {
	name := "reserved"
	if p.s.Axis == lifetime.ProgramOrder {
		name = "allocation " + strconv.FormatInt(r.Index, 10)
	}
	for _, word := range append([]string{r.Kind}, r.Uses.Names()...) {
		if word != "" {
			name += ", " + canvas.Cut(word, 40)
		}
	}
	return name
}

// mergedPaths draws the buffers without a separate shape: one path per class.
func (p *picture) mergedPaths(l *layout) {
	if len(l.merged) == 0 {
		return
	}
	p.Page.Group(canvas.Look{})
	for _, m := range l.merged {
		look := p.classes[m.class].look
		look.Crisp = true // many bands are thin
		p.Page.Fill(m.path, look, []byte(canvas.Cut(p.classes[m.class].name, 80)+"\n"+
			units.Count(m.rest.count)+" small or short-lived buffers, "+units.Bytes(m.rest.bytes)+" at the peak"))
	}
	p.Page.End()
}

// other draws the bytes in use of another space in a small panel.
func (p *picture) other(panel plot.Plot, title string) {
	q := picture{Plot: panel, s: panel.Space, o: p.o, ceiling: max(p.ceiling, 1)}
	var err error
	if q.cols, err = sample(q.s, plot.Window{From: q.From, To: q.To, Columns: int(q.Right-q.Left) / columnWidth}); err != nil {
		return // damaged sizes
	}
	if band := q.band(make([]int64, len(q.cols.level)), q.cols.level, q.height()); !band.Empty() {
		p.Page.Fill(band, canvas.Look{Role: canvas.Stays}, []byte(title))
	}
}
