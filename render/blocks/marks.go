package blocks

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// marks draws steps as ticks along the top and failed allocations as lines.
func (p *picture) marks() {
	p.stepTicks()
	p.ooms()
}

// stepTicks draws no two ticks closer than two pixels: a fence says no more
// than that there are many.
func (p *picture) stepTicks() {
	last := point(-100)
	count := 0
	var d []byte
	for _, m := range p.s.Marks {
		if m.Kind != lifetime.Step || m.Begin < p.cols.from || m.Begin >= p.cols.to {
			continue
		}
		count++
		if x := p.timeX(m.Begin); x-last >= 20 {
			d = appendPoint(append(d, 'M'), x)
			d = appendPoint(append(d, ' '), p.top-80)
			d = append(d, "v6"...)
			last = x
		}
	}
	if count == 0 {
		return
	}
	p.str(`<path class="line" stroke-opacity=".6" d="`, string(d), `"><title>`, units.Count(int64(count)), ` steps</title></path>`)
	p.label12("70", string(appendPoint(nil, p.top-120)), "end", "steps")
	p.str("\n")
}

// oomLabels bounds the failed allocations that are labelled: each label takes
// a line of text of its own.
const oomLabels = 4

func (p *picture) ooms() {
	labelled := point(0)
	for _, m := range p.s.Marks {
		if m.Kind != lifetime.OOM || m.Begin < p.cols.from || m.Begin >= p.cols.to {
			continue
		}
		text := "out of memory: " + units.Bytes(m.Requested) + " asked for"
		if m.Free >= 0 {
			text += ", " + units.Bytes(m.Free) + " free"
		}
		x := p.timeX(m.Begin)
		p.str(`<path class="oom" d="M`)
		p.buf = appendPoint(p.buf, x)
		p.buf = appendPoint(append(p.buf, ' '), p.top)
		p.str("V")
		p.buf = appendPoint(p.buf, p.bottom)
		p.str(`"><title>`)
		p.text(text)
		p.str("</title></path>")
		// The lines say when, the labels one below the other how much.
		if labelled < oomLabels {
			p.beside(x, p.top+170+labelled*160, p.right, "bad halo", text)
			labelled++
		}
		p.str("\n")
	}
}

// peakLine marks the peak: its height in the stacked layout, its instant in
// both, and the exact number of bytes.
func (p *picture) peakLine() {
	x := p.timeX(p.peak.At)
	p.str(`<path class="line" stroke-dasharray="2 3" d="M`)
	if p.o.Layout == Address {
		p.buf = appendPoint(p.buf, x)
		p.buf = appendPoint(append(p.buf, ' '), p.top)
		p.str("V")
		p.buf = appendPoint(p.buf, p.bottom)
	} else {
		p.buf = appendPoint(p.buf, p.left)
		p.buf = appendPoint(append(p.buf, ' '), p.top)
		p.str("H")
		p.buf = appendPoint(p.buf, p.right)
	}
	p.str(`"/><circle r="2.5" cx="`)
	p.buf = appendPoint(p.buf, x)
	p.str(`" cy="`)
	p.buf = appendPoint(p.buf, p.top)
	p.str(`"/>`)
	// Right of the plot there is nothing at this height: the exact figure may
	// reach there in narrow pictures.
	when := " after " + units.Span(p.peak.At-p.s.Begin, p.s.Axis.Unit())
	switch {
	case p.s.Axis == lifetime.ProgramOrder && p.peak.At < 0:
		when = " from the beginning"
	case p.s.Axis == lifetime.ProgramOrder:
		when = " at instruction " + units.Count(p.peak.At)
	}
	p.beside(x, p.top-130, point(p.o.Width-10)*10, "halo", "peak "+units.Exact(p.peak.Bytes)+when)
	p.str("\n")
}

// beside writes text next to x, up to the point right: after x where it fits,
// else before it, else wherever there is room.
func (p *picture) beside(x, y, right point, class, text string) {
	text = fit(text, 12, right-p.left)
	width := textWidth(text, 12)
	anchor, at := "start", x+60
	if at+width > right {
		anchor, at = "end", max(x-60, p.left+width)
	}
	p.str(`<text class="`, class, `" text-anchor="`, anchor, `" x="`)
	p.buf = appendPoint(p.buf, at)
	p.str(`" y="`)
	p.buf = appendPoint(p.buf, y)
	p.str(`">`)
	p.text(text)
	p.str("</text>")
}

// legend lists the classes at the right.
func (p *picture) legend() {
	y := p.top
	x := p.right + 200
	width := point(p.o.Width)*10 - x - 180 - 120
	// A row is a swatch and two lines: who, and how much.
	row := func(fill string, name, place, below, class string) {
		p.str(`<rect width="12" height="12" rx="2" fill="`, fill, `" x="`)
		p.buf = appendPoint(p.buf, x)
		p.str(`" y="`)
		p.buf = appendPoint(p.buf, y)
		p.str(`"/><text x="`)
		p.buf = appendPoint(p.buf, x+180)
		p.str(`" y="`)
		p.buf = appendPoint(p.buf, y+100)
		p.str(`">`)
		p.name(name, place, width)
		p.str(`</text><text class="`, class, `" x="`)
		p.buf = appendPoint(p.buf, x+180)
		p.str(`" y="`)
		p.buf = appendPoint(p.buf, y+240)
		p.str(`">`)
		p.text(fit(below, 12, width))
		p.str("</text>\n")
		y += legendRow
	}
	for _, c := range p.classes {
		switch {
		case c.hidden:
		case c.leak != "":
			row(c.fill, c.name, c.place, c.leak, "bad")
		default:
			row(c.fill, c.name, c.place, atPeak(c.bytes), "dim")
		}
	}
	if p.s.Base > 0 {
		row(baseFill, "before the window", "", units.Bytes(p.s.Base)+", seen by no event", "dim")
	}
	if len(p.s.Stack) > 0 {
		row(stackFill, "stack, beside the heap", "", atPeak(p.s.StackAt(p.peak.At)), "dim")
	}
}

func atPeak(bytes int64) string {
	if bytes == 0 {
		return "none at the peak"
	}
	return units.Bytes(bytes) + " at the peak"
}

// name writes a site: where it is matters more than all of its name, so the
// place keeps up to half of the width.
func (p *picture) name(name, place string, width point) {
	if place != "" {
		place = fit(place, 12, max(width/2, width-textWidth(name+" ", 12)))
		width -= textWidth(" "+place, 12)
	}
	p.text(fit(name, 12, width))
	if place != "" {
		p.str(` <tspan class="dim">`)
		p.text(place)
		p.str("</tspan>")
	}
}
