package blocks

import (
	"strconv"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// draw puts the whole picture on a page, from back to front.
func (p *picture) draw() error {
	var l layout
	var m *addressMap
	if p.o.Layout == Address {
		m = p.mapAddresses()
		l = p.place(m)
	} else {
		l = p.stack()
	}
	var err error
	p.Page, err = canvas.New(p.o.Format, canvas.Page{
		Width: p.o.Width, Height: p.o.Height, Theme: p.o.Theme,
		Title: p.headline() + ": peak " + units.Bytes(p.peak.Bytes), Desc: p.explanation(&l),
	})
	if err != nil {
		return err
	}
	name, height, ceiling := "bytes in use", p.height().At, p.ceiling
	if m != nil {
		name, height, ceiling = "offset, without gaps", m.height, m.scale.From
	}
	p.heading()
	p.Upwards(name)
	p.Sizes(ceiling, 500, height)
	if m != nil {
		p.regions(m)
	} else {
		p.base()
	}
	p.mergedPaths(&l)
	p.blocks(&l)
	p.Along()
	p.Limit(height, ceiling)
	p.peakLine()
	p.Steps()
	p.OOMs()
	p.legend()
	p.Footer(p.o.Height, p.explanation(&l))
	return nil
}

// headline is what the picture is called.
func (p *picture) headline() string {
	if p.o.Title != "" {
		return canvas.Cut(p.o.Title, 200)
	}
	// The device alone is what people call a space; the line below has the rest.
	what := [...]string{" - allocated memory", " - addresses"}[p.o.Layout]
	by := [...]string{" by call site", " by size", ", leaks", " by category"}[p.o.Color]
	if p.o.Color == BySite && (p.s.Axis == lifetime.ProgramOrder || p.s.Facts&lifetime.Stacks == 0) {
		by = " by operation" // which scopes are, too
	}
	return plot.Device(p.s) + what + by
}

// explanation says how to read the picture and what is not drawn one by one.
func (p *picture) explanation(l *layout) string {
	s := "One block per buffer"
	if l.rest.count > 0 {
		ones := " small ones ("
		if l.rest.count == 1 {
			ones = " small one ("
		}
		s += "; " + units.Count(l.rest.count) + ones + units.Bytes(l.rest.bytes) + " at the peak) drawn together"
	}
	if p.o.Layout == Address {
		return s + ". Gaps between regions are left out."
	}
	return s + ". Width is lifetime, height is size."
}

// heading writes the title and the line below it.
func (p *picture) heading() {
	length := units.Span(p.To-max(p.From, plot.Origin(p.s)), p.s.Axis.Unit())
	p.Heading(p.headline(), append(p.Source(p.c), units.Count(int64(p.buffers))+" buffers", length,
		"peak "+units.Bytes(p.peak.Bytes)+plot.OfLimit(p.s))...)
}

// base draws the bytes below the buffers: those that were alive all the time
// without being seen, and on them the stack of compiled programs.
func (p *picture) base() {
	bottom, top := make([]int64, len(p.floors)), make([]int64, len(p.floors))
	for k := range top {
		top[k] = p.s.Base
	}
	for _, band := range []struct {
		look  canvas.Look
		title string
		path  *canvas.Path
	}{
		{baseLook, "before the window\n" + units.Exact(p.s.Base) + " that no event names", p.band(bottom, top, p.height())},
		{stackLook, "stack\n" + units.Exact(p.s.StackAt(p.peak.At)) + " at the peak, beside the heap", p.band(top, p.floors, p.height())},
	} {
		if !band.path.Empty() {
			p.Page.Fill(band.path, band.look, []byte(band.title))
		}
	}
}

// regions draws reserved memory, behind the buffers.
func (p *picture) regions(m *addressMap) {
	if len(p.s.Regions) == 0 {
		return
	}
	var small canvas.Path
	p.Page.Group(canvas.Look{Role: canvas.Room, Edged: true})
	for i := range p.s.Regions {
		r := &p.s.Regions[i]
		rc := p.rect(m, &lifetime.Buffer{Begin: r.Begin, End: r.End, Addr: r.Addr, Size: r.Size, Edge: r.Edge})
		if rc.x >= p.Right || rc.end <= rc.x || rc.hi <= rc.lo {
			continue
		}
		if rc.hi-rc.lo < smallest { // still drawn: free memory is to be seen
			outline(&small, []step{rc.step}, rc.end, p.Bottom)
			continue
		}
		p.path.Reset()
		outline(&p.path, []step{rc.step}, rc.end, p.Bottom)
		p.Page.Fill(&p.path, canvas.Look{}, []byte(p.regionName(r)+"\n"+units.Exact(r.Size)+" at 0x"+strconv.FormatUint(r.Addr, 16)))
	}
	if !small.Empty() {
		p.Page.Fill(&small, canvas.Look{}, nil)
	}
	p.Page.End()
}

// regionName says what a region is for.
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

// mergedPaths draws what has no shape of its own: one path per class.
func (p *picture) mergedPaths(l *layout) {
	if len(l.merged) == 0 {
		return
	}
	// A little paler than blocks: one can not point at a single buffer there.
	p.Page.Group(canvas.Look{Faint: true})
	for _, m := range l.merged {
		p.Page.Fill(m.path, p.classes[m.class].look, []byte(canvas.Cut(p.classes[m.class].name, 80)+"\n"+
			units.Count(m.rest.count)+" small or short buffers, "+units.Bytes(m.rest.bytes)+" at the peak"))
	}
	p.Page.End()
}
