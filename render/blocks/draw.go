package blocks

import (
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// style colours what is not a block. Its selectors name the picture, so that
// it may stand in a page beside others. Every colour stands twice, as converters
// that know no variables (librsvg) keep to the plain one.
const style = `<style>.memlane-blocks{--bg:#fff;--fg:#24292f;--dim:#646d76;--grid:#d8dee4;--room:#e8edf2;--bad:#c0283d}` +
	`@media(prefers-color-scheme:dark){.memlane-blocks{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--grid:#30363d;--room:#1b222b;--bad:#ff7b86}}` +
	`.memlane-blocks text{fill:#24292f;fill:var(--fg)}.memlane-blocks .dim{fill:#646d76;fill:var(--dim)}.memlane-blocks .bad{fill:#c0283d;fill:var(--bad);font-weight:600}` +
	`.memlane-blocks .bg{fill:#fff;fill:var(--bg)}.memlane-blocks .room{fill:#e8edf2;fill:var(--room)}` +
	`.memlane-blocks .grid{stroke:#d8dee4;stroke:var(--grid);fill:none}.memlane-blocks .line{stroke:#24292f;stroke:var(--fg);fill:none}` +
	`.memlane-blocks circle{fill:#24292f;fill:var(--fg)}.memlane-blocks .oom{stroke:#c0283d;stroke:var(--bad);stroke-width:1.5}` +
	`.memlane-blocks .halo{stroke:#fff;stroke:var(--bg);stroke-width:3;stroke-linejoin:round;paint-order:stroke}` +
	`.memlane-blocks .edge{stroke:#fff;stroke:var(--bg);stroke-width:.5}</style>` + "\n"

// draw writes the whole picture.
func (p *picture) draw() {
	var l layout
	var m *addressMap
	if p.o.Layout == Address {
		m = p.mapAddresses()
		l = p.place(m)
	} else {
		l = p.stack()
	}
	p.buf = make([]byte, 0, 16<<10+(blockCost+100)*len(l.shapes))
	// From back to front: SVG paints in the order of the file.
	p.open(&l)
	p.heading()
	if m != nil {
		p.addressAxis(m)
		p.regions(m)
	} else {
		p.bytesAxis()
		p.base()
	}
	p.mergedPaths(&l)
	p.blocks(&l)
	p.timeAxis()
	p.peakLine()
	p.marks()
	p.legend()
	p.footer(&l)
	p.str("</svg>\n")
}

// open writes the root element and what describes the picture to those who do
// not see it.
func (p *picture) open(l *layout) {
	w, h := strconv.Itoa(p.o.Width), strconv.Itoa(p.o.Height)
	p.str(`<svg xmlns="http://www.w3.org/2000/svg" class="memlane-blocks" role="img" width="`, w, `" height="`, h, `" viewBox="0 0 `, w, ` `, h,
		`" font-family="system-ui,Segoe UI,Helvetica,Arial,sans-serif" font-size="12">`, "\n<title>")
	p.text(p.title())
	p.str(": peak ", units.Bytes(p.peak.Bytes), "</title>\n<desc>")
	p.text(p.explanation(l))
	p.str("</desc>\n", style, "<defs>")
	for i := range p.leaks {
		p.str(`<pattern id="leak`, strconv.Itoa(i), `" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path fill="`, hatches[i],
			`" d="M0 0h6v6h-6z"/><path d="M1 0v6" stroke="#fff" stroke-opacity=".4" stroke-width="2"/></pattern>`)
	}
	p.str(`</defs>`, "\n", `<path class="bg" d="M0 0h`, w, `v`, h, `h-`, w, `z"/>`, "\n")
}

func (p *picture) title() string {
	if p.o.Title != "" {
		return cut(p.o.Title, 200)
	}
	device := p.s.Device
	if device == "" {
		device = p.s.ID()
	}
	if device == "" {
		device = "memory"
	}
	// The device alone is what people call a space; the line below has the rest.
	what := [...]string{" - allocated memory", " - addresses"}[p.o.Layout]
	by := [...]string{" by call site", " by size", " by end of life"}[p.o.Color]
	if p.o.Color == BySite && (p.s.Axis == lifetime.ProgramOrder || p.s.Facts&lifetime.Stacks == 0) {
		by = " by operation" // which scopes are, too
	}
	return cut(device, 60) + what + by
}

// explanation says how to read the picture and what is not drawn one by one.
func (p *picture) explanation(l *layout) string {
	s := "Each block is one buffer"
	if l.rest.count > 0 {
		s += "; " + units.Count(l.rest.count) + " small or short ones (" + units.Bytes(l.rest.bytes) + " at the peak) are drawn together"
	}
	if p.o.Layout == Address {
		return s + ". Gaps between regions are left out."
	}
	return s + ". Width is lifetime, height is size."
}

// heading writes the title and the line below it.
func (p *picture) heading() {
	width := point(p.o.Width)*10 - p.left - 160
	p.str(`<text x="78" y="24" font-size="16" font-weight="600">`)
	p.text(fit(p.title(), 17, width)) // a little more than 16: bold is wider
	p.str("</text>")
	parts := []string{}
	if file := baseName(p.c.Sources[p.s.Source].File); file != "" {
		parts = append(parts, fit(file, 12, width/3))
	}
	if id := p.s.ID(); id != "" {
		parts = append(parts, fit(id, 12, width/3))
	}
	length := units.Span(p.cols.to-max(p.cols.from, p.origin()), p.s.Axis.Unit())
	parts = append(parts, units.Count(int64(p.buffers))+" buffers", length, "peak "+units.Bytes(p.peak.Bytes))
	line := parts[0]
	for _, part := range parts[1:] {
		line += " · " + part
	}
	p.label12("78", "43", "", fit(line, 12, width))
	p.str("\n")
}

// base draws the bytes below the buffers: those that were alive all the time
// without being seen, and on them the stack of compiled programs.
func (p *picture) base() {
	height := scale{uint64(max(p.peak.Bytes, 1)), uint64(p.bottom - p.top)}
	bottom, top := make([]int64, len(p.floors)), slices.Repeat([]int64{p.s.Base}, len(p.floors))
	for _, band := range []struct {
		fill, title string
		d           []byte
	}{
		{baseFill, "before the window\n" + units.Exact(p.s.Base) + " that no event names", p.band(bottom, top, height)},
		{stackFill, "stack\n" + p.stackAtPeak() + ", beside the heap", p.band(top, p.floors, height)},
	} {
		if len(band.d) > 0 {
			p.str(`<path fill="`, band.fill, `" d="`, string(band.d), `"><title>`, band.title, "</title></path>\n")
		}
	}
}

func (p *picture) stackAtPeak() string {
	return units.Exact(p.s.StackAt(p.peak.At)) + " at the peak"
}

// regions draws reserved memory, behind the buffers.
func (p *picture) regions(m *addressMap) {
	if len(p.s.Regions) == 0 {
		return
	}
	var small []byte
	p.str(`<g class="room edge">`, "\n")
	for i := range p.s.Regions {
		r := &p.s.Regions[i]
		rc := p.rect(m, &lifetime.Buffer{Begin: r.Begin, End: r.End, Addr: r.Addr, Size: r.Size, Edge: r.Edge})
		if rc.x >= p.right || rc.end <= rc.x || rc.hi <= rc.lo {
			continue
		}
		if rc.hi-rc.lo < smallest { // still drawn: free memory is to be seen
			small = appendOutline(small, []step{rc.step}, rc.end, p.bottom)
			continue
		}
		p.str(`<path d="`)
		p.buf = appendOutline(p.buf, []step{rc.step}, rc.end, p.bottom)
		p.str(`"><title>`)
		p.text(p.regionName(r))
		p.str("\n", units.Exact(r.Size), " at 0x", strconv.FormatUint(r.Addr, 16), "</title></path>\n")
	}
	if len(small) > 0 {
		p.str(`<path d="`, string(small), "\"/>\n")
	}
	p.str("</g>\n")
}

// regionName says what a region is for.
func (p *picture) regionName(r *lifetime.Region) string {
	name := "reserved"
	if p.s.Axis == lifetime.ProgramOrder {
		name = "allocation " + strconv.FormatInt(r.Index, 10)
	}
	for _, word := range append([]string{r.Kind}, r.Uses.Names()...) {
		if word != "" {
			name += ", " + cut(word, 40)
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
	p.str(`<g fill-opacity=".8">`, "\n")
	for _, m := range l.merged {
		p.str(`<path fill="`, p.classes[m.class].fill, `" d="`, string(m.d), `"><title>`)
		p.text(cut(p.classes[m.class].name, 80))
		p.str("\n", units.Count(m.rest.count), " small or short buffers, ", units.Bytes(m.rest.bytes), " at the peak</title></path>\n")
	}
	p.str("</g>\n")
}

// footer writes the explanation below everything.
func (p *picture) footer(l *layout) {
	y := strconv.Itoa(p.o.Height - 9)
	p.label12("78", y, "", fit(p.explanation(l), 12, point(p.o.Width)*10-p.left-100))
	p.str("\n")
}

// str appends markup of this package.
func (p *picture) str(parts ...string) {
	for _, s := range parts {
		p.buf = append(p.buf, s...)
	}
}

// text appends text of any origin.
func (p *picture) text(s string) { p.buf = appendText(p.buf, s) }

// label12 writes one line of dim text in the base size. anchor is "", "middle"
// or "end".
func (p *picture) label12(x, y, anchor, s string) {
	p.str(`<text class="dim" x="`, x, `" y="`, y, `"`)
	if anchor != "" {
		p.str(` text-anchor="`, anchor, `"`)
	}
	p.str(">")
	p.text(s)
	p.str("</text>")
}
