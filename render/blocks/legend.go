package blocks

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/plot"
)

// legend lists the classes, and what lies below the buffers.
func (p *picture) legend() {
	var rows []plot.Row
	for _, c := range p.classes {
		switch {
		case c.hidden:
		case c.leak != "":
			rows = append(rows, plot.Row{Look: c.look, Name: c.name, Place: c.place, Below: c.leak, Bad: true})
		default:
			rows = append(rows, plot.Row{Look: c.look, Name: c.name, Place: c.place, Below: atPeak(c.bytes)})
		}
	}
	if p.s.Base > 0 {
		rows = append(rows, plot.Row{Look: baseLook, Name: "before the window", Below: units.Bytes(p.s.Base) + ", seen by no event"})
	}
	if len(p.s.Stack) > 0 {
		rows = append(rows, plot.Row{Look: stackLook, Name: "stack, beside the heap", Below: atPeak(p.s.StackAt(p.peak.At))})
	}
	p.Legend(p.Top, rows)
}

func atPeak(bytes int64) string {
	if bytes == 0 {
		return "none at the peak"
	}
	return units.Bytes(bytes) + " at the peak"
}
