package plot

import (
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/canvas"
)

// ribbonHeight is the height that the ribbon of phases takes below a plot, and ribbonHigh that of its bar.
const (
	ribbonHeight canvas.Length = 220
	ribbonHigh   canvas.Length = 140
)

// Phases are the looks of the parts of a program over time. They differ in lightness, and from those of categories.
var Phases = map[string]canvas.Look{
	"forward": {RGB: 0xd8f0cc}, "backward": {RGB: 0x664ed2}, "optimizer": {RGB: 0x42240c},
	"evaluation": {RGB: 0xfcfcf6}, "other": {RGB: 0xffffff},
}

// phaseName returns the name of what a program does in a span.
func phaseName(s *program.PhaseSpan) string {
	if s.Part == purpose.Evaluation {
		return s.Part.String()
	}
	return s.Phase.String()
}

// FindPhases finds the phases of the program for the ribbon below the plot. It returns the height that this needs; 0 if
// fewer than two phases are known.
func (p *Plot) FindPhases(of *program.Program) canvas.Length {
	p.phases = of.Timeline(p.Space)
	names := map[string]bool{}
	for i := range p.phases.Spans {
		names[phaseName(&p.phases.Spans[i])] = true
	}
	if len(names) < 2 {
		p.phases.Spans = nil
		return 0
	}
	return ribbonHeight
}

// FindSteps finds only the steps of the program.
func (p *Plot) FindSteps(of *program.Program) { p.phases.Steps = of.Steps(p.Space) }

// under returns the y of the axis: below the ribbon, if there is one.
func (p *Plot) under() canvas.Length {
	if len(p.phases.Spans) == 0 {
		return p.Bottom
	}
	return p.Bottom + ribbonHeight
}

// run is a part of the ribbon with one phase.
type run struct {
	span     int // its first
	from, to canvas.Length
	several  bool // spans
}

// runs returns the ribbon in whole pixels. Of several phases in one pixel, the last one is visible.
func (p *Plot) runs() (all []run) {
	columns := make([]int, (p.Right-p.Left)/10) // span + 1
	for i := range p.phases.Spans {
		s := &p.phases.Spans[i]
		if s.End <= p.From || s.Begin >= p.To {
			continue
		}
		first, end := int((p.X(s.Begin)-p.Left)/10), int((p.X(s.End)-p.Left+9)/10)
		for k := first; k < min(end, len(columns)); k++ {
			columns[k] = i + 1
		}
	}
	for k, span := range columns {
		if span == 0 {
			continue
		}
		x := p.Left + canvas.Length(k)*10
		if n := len(all); n > 0 && all[n-1].to == x && phaseName(&p.phases.Spans[all[n-1].span]) == phaseName(&p.phases.Spans[span-1]) {
			all[n-1].to = x + 10
			all[n-1].several = all[n-1].several || all[n-1].span != span-1
			continue
		}
		all = append(all, run{span: span - 1, from: x, to: x + 10})
	}
	return all
}

// ribbon draws the phases of the program below the plot: forward, backward, optimizer and so on. Names that do not fit
// are initials; it returns their key.
func (p *Plot) ribbon() (key []string) {
	if len(p.phases.Spans) == 0 {
		return nil
	}
	top := p.Bottom + 70
	p.Page.Text(canvas.Text{X: p.Left - 80, Y: top + 110, Anchor: canvas.End, Role: canvas.Dim, S: "phase"})
	narrow := map[string]*canvas.Path{}
	var names []string // of narrow
	runs := p.runs()
	for _, r := range runs {
		s := &p.phases.Spans[r.span]
		name := phaseName(s)
		if r.to-r.from < narrowRun {
			if narrow[name] == nil {
				narrow[name], names = &canvas.Path{}, append(names, name)
			}
			narrow[name].Rect(r.from, top, r.to, top+ribbonHigh)
			continue
		}
		title := name
		if !r.several {
			title += p.stepText(s) + "\npeak " + units.Exact(s.Peak.Bytes) + "\n" + units.Exact(s.Left) + " stay in use after it"
		}
		p.fillPhase(canvas.Rect(r.from, top, r.to, top+ribbonHigh), name, title)
	}
	for _, name := range names {
		p.fillPhase(narrow[name], name, name)
	}
	initials := map[string]bool{}
	for _, r := range runs {
		name := phaseName(&p.phases.Spans[r.span])
		text := canvas.Text{X: (r.from + r.to) / 2, Y: top + 110, Anchor: canvas.Middle, Role: canvas.On(Phases[name]), S: name}
		if text.Extent()+40 > r.to-r.from {
			if name == purpose.OtherPhase.String() {
				continue // its initial is that of the optimizer
			}
			text.S = strings.ToUpper(name[:1])
		}
		if text.Extent()+20 <= r.to-r.from {
			p.Page.Text(text)
			if text.S != name {
				initials[text.S+" "+name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(initials))
}

// narrowRun is the width below which the runs of a phase share a path and a tooltip: the mouse can hardly tell them
// apart.
const narrowRun canvas.Length = 200

func (p *Plot) fillPhase(path *canvas.Path, name, title string) {
	look := Phases[name]
	look.Crisp = true
	p.Page.Fill(path, look, []byte(title))
}

// stepText returns the step of a span as text.
func (p *Plot) stepText(s *program.PhaseSpan) string {
	if s.Step < 0 {
		return ""
	}
	if name := p.phases.Steps.Name(s.Step); name != "" {
		return ", " + canvas.Cut(name, 60)
	}
	return ", step " + units.Count(int64(s.Step+p.phases.Steps.Lost)+1)
}
