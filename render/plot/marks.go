package plot

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/canvas"
)

// Steps draws the program's steps as ticks along the top. They are at least two
// pixels apart, because more of them would look like a solid bar.
func (p *Plot) Steps() {
	last := canvas.Length(-100)
	count := int64(0)
	var path canvas.Path
	if p.phases.Steps == nil {
		return // of several captures
	}
	for _, begin := range p.phases.Steps.Begins {
		if begin < p.From || begin >= p.To {
			continue
		}
		count++
		if x := p.X(begin); x-last >= 20 {
			path.Move(x, p.Top-100)
			path.Line(x, p.Top-40)
			last = x
		}
	}
	if count == 0 {
		return
	}
	how := map[bool]string{true: ", inferred"}[p.phases.Steps.Inferred()]
	p.Page.Stroke(&path, canvas.Pen{Role: canvas.Dim, Width: 10}, []byte(units.Count(count)+" steps"+how))
	p.Page.Text(canvas.Text{X: p.Left - 80, Y: p.Top - 90, Anchor: canvas.End, Role: canvas.Dim, S: "steps"})
}

// Limit draws the capacity as a line, unless it exceeds ceiling, the bytes at the top. height converts bytes to a
// distance from the bottom.
func (p *Plot) Limit(height func(bytes uint64) canvas.Length, ceiling uint64) {
	capacity, text := Capacity(p.Space)
	if capacity <= 0 || uint64(capacity) > ceiling {
		return
	}
	y := p.Bottom - height(uint64(capacity))
	p.Page.Stroke(canvas.Line(p.Left, y, p.Right, y), canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(text))
	if p.limitAbove {
		return // its label is above the plot
	}
	label := canvas.Text{X: p.Left + 60, Y: y - 50, Role: canvas.Bad, Halo: true, S: text}
	for _, r := range p.refused {
		if p.X(r.Begin) < label.X+label.Extent()+RefusedWidth {
			label.X, label.Anchor = p.Right-60, canvas.End
		}
	}
	p.Page.Text(label)
}

// Capacity returns the bytes that the device has for a space, with a text; 0 if they are not known. If they were not recorded, these are the bytes that were
// reserved and free when an allocation failed; or only reserved, if the device had what was requested: the program's own limit is not much higher.
func Capacity(s *lifetime.Space) (bytes int64, text string) {
	if s.Limit > 0 {
		return s.Limit, "capacity " + units.Bytes(s.Limit)
	}
	for i := len(s.Marks) - 1; i >= 0; i-- {
		m := &s.Marks[i]
		if m.Kind != lifetime.OOM || !m.Free.Known() {
			continue
		}
		reserved := int64(0)
		for _, level := range region.Levels(s) {
			if level.At <= m.Begin {
				reserved = level.Bytes
			}
		}
		if reserved <= 0 {
			return 0, ""
		}
		if bytes = units.AddSat(reserved, m.Free.Or(0)); m.Requested > 0 && m.Free.Or(0) >= units.AddSat(m.Requested, 20<<20) { // the device had even a rounded segment
			return reserved, "own limit: at least " + units.Bytes(reserved)
		}
		return bytes, "reserved + free " + units.Bytes(bytes)
	}
	return 0, ""
}

// refusal is a failed allocation, or several equal ones.
type refusal struct {
	*lifetime.Mark       // the last
	level          int64 // bytes in use at that time
	text           string
	times          int64
}

// refusedMost is the maximum number of different failed allocations with labels and blocks.
const refusedMost = 4

// RefusedWidth is the width of the block of a failed allocation. It has no lifetime.
const RefusedWidth canvas.Length = 140

// FindRefusals collects the failed allocations in view for the other methods. Of many it keeps the last ones, because
// these ended the program.
func (p *Plot) FindRefusals() {
	index := map[string]int{}
	for i := range p.Space.Marks {
		m := &p.Space.Marks[i]
		if m.Kind != lifetime.OOM || m.Begin < p.From || m.Begin >= p.To {
			continue
		}
		text := refusedText(m)
		r := keyed.At(index, &p.refused, text, refusal{text: text})
		r.Mark, r.times = m, r.times+1
	}
	slices.SortStableFunc(p.refused, func(a, b refusal) int { return cmp.Compare(a.Begin, b.Begin) })
	p.refused = p.refused[max(len(p.refused)-refusedMost, 0):]
	for i := range p.refused {
		r := &p.refused[i]
		r.level = max(p.Space.LevelAt(r.Begin, lifetime.Occupied), 0)
		if r.times > 1 {
			r.text += " (" + units.Count(r.times) + " times)"
		}
	}
}

func refusedText(m *lifetime.Mark) string {
	text := "out of memory"
	if m.Requested > 0 {
		text += ": " + units.Bytes(m.Requested) + " requested"
	}
	if m.Free.Known() {
		text += ", " + units.Bytes(m.Free.Or(0)) + " free on the device"
	}
	return text
}

// Ceiling returns the bytes at the top of a plot that must show most bytes, the capacity of the device, unless it would
// leave more than half of the plot empty, and failed allocations. If these are very large, their blocks are cut. What
// is below a break takes no part.
func (p *Plot) Ceiling(most uint64) uint64 {
	capacity, _ := Capacity(p.Space)
	return p.WithRefused(p.Below + WithLimit(most-p.Below, capacity-int64(p.Below)))
}

// WithRefused returns ceiling, or the top of failed allocations above it.
func (p *Plot) WithRefused(ceiling uint64) uint64 {
	cut := ceiling + (ceiling-p.Below)/2
	for _, r := range p.refused {
		if r.Requested > 0 {
			ceiling = max(ceiling, min(uint64(r.level)+uint64(r.Requested), cut))
		}
	}
	return ceiling
}

// Refusals draws the failed allocations: a line, and where height is not nil a hollow block of the requested bytes
// above the bytes in use. height converts bytes to a distance from the bottom.
func (p *Plot) Refusals(height func(bytes uint64) canvas.Length, ceiling uint64) {
	for i := range p.Space.Marks {
		if m := &p.Space.Marks[i]; m.Kind == lifetime.OOM && m.Begin >= p.From && m.Begin < p.To {
			x := p.X(m.Begin)
			p.Page.Stroke(canvas.Line(x, p.Top, x, p.Bottom), canvas.Pen{Role: canvas.Bad, Width: 10}, []byte(refusedText(m)))
		}
	}
	if height == nil {
		return
	}
	for _, r := range p.refused {
		top := min(uint64(r.level)+uint64(max(r.Requested, 0)), ceiling)
		if r.Requested <= 0 || uint64(r.level) >= top {
			continue
		}
		x, lo, hi := p.X(r.Begin), p.Bottom-height(uint64(r.level)), p.Bottom-height(top)
		p.Page.Fill(canvas.Rect(x, hi, x+RefusedWidth, lo), RefusedLook, []byte(r.text))
		outline := canvas.Line(x, hi, x, lo)
		outline.Line(x+RefusedWidth, lo)
		outline.Line(x+RefusedWidth, hi)
		if uint64(r.level)+uint64(r.Requested) <= ceiling { // else the block is cut at the top
			outline.Closed()
		}
		p.Page.Stroke(outline, canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(r.text))
	}
}

// Refused returns the request that failed last, nil without one.
func (p *Plot) Refused() *lifetime.Mark {
	if len(p.refused) == 0 {
		return nil
	}
	return p.refused[len(p.refused)-1].Mark
}

// RefusedLook is the look of failed allocations. It is hollow because they got no memory.
var RefusedLook = canvas.Look{Role: canvas.Bad, Hollow: true}

// RefusedRows returns the legend row of failed allocations, none if there are none.
func (p *Plot) RefusedRows() []Row {
	last := p.Refused()
	if last == nil || last.Requested <= 0 {
		return nil
	}
	return []Row{{Look: RefusedLook, Name: "refused", Below: units.Bytes(last.Requested) + " requested"}}
}

// Labels arranges the labels above the plot in rows: of the peak, of failed allocations, and of a capacity whose line
// has no free room above it, because it is at the top or below most, the highest bytes in the plot. No label is on
// another one or on the plot. It returns the top of the plot for a heading that ends at y. A peak without bytes has no
// label.
func (p *Plot) Labels(y canvas.Length, peak lifetime.Level, most, ceiling uint64, right canvas.Length) canvas.Length {
	var all []canvas.Text
	if peak.Bytes > 0 {
		text := PeakWord(p.Space) + units.Exact(peak.Bytes) + p.when(peak.At)
		if Still(p.Space) {
			text = units.Exact(peak.Bytes) + p.when(peak.At)
		}
		all = append(all, p.beside(p.X(peak.At), right, canvas.Text{Halo: true, S: text}))
	}
	for _, r := range p.refused {
		t := canvas.Text{Role: canvas.Bad, Bold: true, Halo: true, S: r.text}
		if _, figures, ok := strings.Cut(r.text, ": "); ok && t.Extent() > right-p.Left {
			t.S = figures
		}
		all = append(all, p.beside(p.X(r.Begin), right, t))
	}
	capacity, text := Capacity(p.Space)
	bytes := uint64(max(capacity, 0))
	if p.limitAbove = bytes < most || bytes > ceiling/100*93; p.limitAbove && bytes > 0 && bytes <= ceiling {
		all = append(all, p.beside(p.Left-60, right, canvas.Text{Role: canvas.Bad, Halo: true, S: text}))
	}
	var rows [][][2]canvas.Length // the ranges that are taken
	for _, t := range all {
		from, to := t.X, t.X+t.Extent()
		if t.Anchor == canvas.End {
			from, to = t.X-t.Extent(), t.X
		}
		row := 0
		for row < len(rows) && slices.ContainsFunc(rows[row],
			func(taken [2]canvas.Length) bool { return from < taken[1]+80 && taken[0] < to+80 }) {
			row++
		}
		if row == len(rows) {
			rows = append(rows, nil)
		}
		rows[row] = append(rows[row], [2]canvas.Length{from, to})
		t.Y = -180 - canvas.Length(row)*labelRow
		p.labels = append(p.labels, t)
	}
	return y + 230 + canvas.Length(len(rows))*labelRow
}

// Relative reports whether only changes of the usage of s were recorded: levels are above the lowest one, which is not known.
func Relative(s *lifetime.Space) bool {
	return s != nil && s.UsageOnly() && s.Allocations+s.Frees > 0
}

// PeakWord returns what stands before the bytes of a peak.
func PeakWord(s *lifetime.Space) string {
	if Relative(s) {
		return "rose by "
	}
	return "peak "
}

// labelRow is the height of a row of labels.
const labelRow canvas.Length = 160

// when returns the time of a peak as text.
func (p *Plot) when(at int64) string {
	switch {
	case Still(p.Space):
		return " at the end"
	case p.Space.Axis == lifetime.ProgramOrder && at < 0:
		return " from the beginning"
	case p.Space.Axis == lifetime.ProgramOrder:
		return " at instruction " + units.Count(at)
	}
	return " after " + units.Span(at-p.Space.Begin, p.Space.Axis.Unit())
}

// DrawLabels draws what Labels arranged.
func (p *Plot) DrawLabels() {
	for _, t := range p.labels {
		t.Y += p.Top
		p.Page.Text(t)
	}
}

// Dot marks the peak at y.
func (p *Plot) Dot(peak lifetime.Level, y canvas.Length) {
	p.Page.Dot(p.X(peak.At), y, 30, canvas.Look{Role: canvas.Foreground})
}

// Findings returns sentences on the failed allocations and the peak, for the description of the picture.
func (p *Plot) Findings(c *lifetime.Capture, peak lifetime.Level) string {
	var b strings.Builder
	for _, r := range p.refused {
		_, figures, _ := strings.Cut(r.text, ": ")
		b.WriteString("Out of memory" + p.when(r.Begin) + ": " + strings.TrimPrefix(figures+", ", ", ") + units.Bytes(r.level) + " in use")
		if r.Site != 0 {
			name, place := Name(c, p.Space, r.Site)
			b.WriteString("; the request is of " + canvas.Cut(strings.TrimSpace(name+" "+place), 120))
		}
		b.WriteString(". ")
	}
	b.WriteString("The peak is " + units.Bytes(peak.Bytes) + OfLimit(p.Space) + p.when(peak.At) + ". ")
	return b.String()
}
