package chart

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Miniature is the usage of a space for a small panel. It does not keep the capture in
// memory, so many captures can be read one after the other.
type Miniature struct {
	Name    string // of the rank or the capture
	Outlier string // the figure that differs from other ranks, "" if none does
	Why     string // a sentence that explains the difference

	device string
	peak   lifetime.Level
	length string // of the window, with its unit
	curve  *curve
}

// miniatureColumns is the number of columns of a miniature. It is divisible by 2, 3
// and 4, and about the width of the widest panel in pixels.
const miniatureColumns = 432

// NewMiniature returns the usage of a space. It fails if nothing was in use.
func NewMiniature(name string, s *lifetime.Space) (*Miniature, error) {
	m := &Miniature{Name: name, device: plot.Device(s), peak: s.Peak(lifetime.Occupied),
		length: units.Span(s.End-max(s.Begin, plot.Origin(s)), s.Axis.Unit())}
	if m.peak.Bytes <= 0 || s.Begin >= s.End {
		return nil, fmt.Errorf("space %s: %w", s.ID(), errNothing)
	}
	m.curve = newCurve(plot.Window{From: s.Begin, To: s.End, Columns: miniatureColumns}, s.Levels(lifetime.Occupied))
	return m, nil
}

// The sizes of a grid of panels.
const (
	gridLeft   canvas.Length = 720
	gridTop    canvas.Length = 600
	panelNames canvas.Length = 360 // above a panel
	panelGap   canvas.Length = 180
	panelLeast canvas.Length = 1400 // minimum width
)

// multiples draws a picture of many panels.
type multiples struct {
	figure  // the page, and the panel that is being drawn
	o       Options
	what    string
	panels  []*Miniature
	more    int           // panels that are left out
	columns int           // panels in a row
	wide    canvas.Length // width of a panel
	high    canvas.Length // height of the plot of a panel
}

// Multiples draws panels side by side on one scale of bytes. what names them in the
// headline ("ranks"); more is the number of panels that are left out. It ignores
// Options.Height: the panels determine the height. The same input gives the same bytes.
func Multiples(w io.Writer, what string, panels []*Miniature, more int, o Options) error {
	m := &multiples{o: o.withDefaults(0, 0), what: what, panels: panels, more: more}
	m.layOut()
	var err error
	if m.Page, err = m.o.page(m.headline()+": "+m.spread(), m.explanation()); err != nil {
		return err
	}
	m.Heading(m.headline(), m.facts()...)
	for i, panel := range panels {
		m.panel(i, panel)
	}
	m.Left = gridLeft
	if more > 0 {
		y := canvas.Length(m.o.Height)*10 - 290
		text := fmt.Sprintf("Only the first %s are shown, %s more are not.", units.Count(int64(len(m.panels))), units.Count(int64(m.more)))
		m.Page.Text(canvas.Text{X: m.Left, Y: y, Bold: true, S: text}.Fit(m.Width - m.Left - 160))
	}
	m.Footer(m.o.Height, m.explanation())
	return m.Page.Finish(w)
}

// layOut computes the number of panels in a row, and their size.
func (m *multiples) layOut() {
	m.Width, m.Left = canvas.Length(m.o.Width)*10, gridLeft
	room := m.Width - gridLeft - 160 + panelGap
	m.columns = len(m.panels)
	if m.columns > 3 {
		m.columns = int(math.Ceil(math.Sqrt(float64(m.columns))))
	}
	m.columns = max(min(m.columns, int(room/(panelLeast+panelGap))), 1)
	m.wide = room/canvas.Length(m.columns) - panelGap
	m.high = min(max(m.wide*45/100, 640), 1800) / 10 * 10
	rows := (len(m.panels) + m.columns - 1) / m.columns
	height := gridTop + canvas.Length(rows)*(panelNames+m.high+panelGap) + 300
	if m.more > 0 {
		height += 200
	}
	m.o.Height = int(height / 10)
	for _, panel := range m.panels {
		m.ceiling = max(m.ceiling, uint64(panel.peak.Bytes))
	}
}

// place moves the figure to a panel and draws its grid lines.
func (m *multiples) place(i int) {
	row, column := canvas.Length(i/m.columns), canvas.Length(i%m.columns)
	m.Left = gridLeft + column*(m.wide+panelGap)
	m.Right = m.Left + m.wide
	m.Top = gridTop + row*(panelNames+m.high+panelGap) + panelNames
	m.Bottom = m.Top + m.high
	for _, tick := range plot.Bytes(m.ceiling, int(m.high/400)) {
		if column > 0 {
			tick.Label = ""
		}
		m.GridLine(m.Bottom-m.height(tick.At), tick.Label)
	}
}

// panel draws a panel.
func (m *multiples) panel(i int, panel *Miniature) {
	m.place(i)
	m.words(panel)
	title := canvas.Cut(panel.Name, 200) + ": peak " + units.Exact(panel.peak.Bytes)
	if panel.Outlier != "" {
		title += "; " + panel.Why
		m.Page.Stroke(canvas.Rect(m.Left-30, m.Top-panelNames+20, m.Right+30, m.Bottom+50).Closed(),
			canvas.Pen{Role: canvas.Bad, Width: 15}, []byte(panel.Why))
	}
	curve := panel.curve.coarser(m.coarseness())
	m.From, m.To = curve.From, curve.To
	m.draw(curve, heapLook, heapLine, title)
	m.Page.Dot(m.X(panel.peak.At), m.level(panel.peak.Bytes), 25, canvas.Look{Role: canvas.Foreground})
}

// coarseness returns how many columns of a curve to merge into one, so that a column is
// at most a pixel wide, but not much less.
func (m *multiples) coarseness() int {
	for by := 4; by > 1; by-- {
		if m.wide/10 <= canvas.Length(miniatureColumns/by) {
			return by
		}
	}
	return 1
}

// words writes the name and the peak of a panel above it.
func (m *multiples) words(panel *Miniature) {
	name := canvas.Text{X: m.Left, Y: m.Top - 210, Bold: true, S: panel.Name}.Fit(m.wide)
	m.Page.Text(withAside(name, panel.device, m.wide))
	peak := canvas.Text{X: m.Left, Y: m.Top - 60, S: "peak " + units.Bytes(panel.peak.Bytes)}
	if panel.Outlier != "" {
		peak.Role, peak.Bold, peak.S = canvas.Bad, true, peak.S+", outlier"
	}
	m.Page.Text(withAside(peak.Fit(m.wide), panel.length, m.wide))
}

// withAside adds aside to a text if both fit the width.
func withAside(t canvas.Text, aside string, width canvas.Length) canvas.Text {
	longer := t
	if longer.Aside = aside; longer.Extent() <= width {
		return longer
	}
	return t
}

func (m *multiples) headline() string {
	return fmt.Sprintf("memory in use - %s %s", units.Count(int64(len(m.panels)+m.more)), m.what)
}

// factName is the maximum length of a name in the line of facts, in characters.
const factName = 28

// spread returns the lowest and the highest peak as text.
func (m *multiples) spread() string {
	byPeak := func(a, b *Miniature) int { return cmp.Compare(a.peak.Bytes, b.peak.Bytes) }
	most, least := slices.MaxFunc(m.panels, byPeak), slices.MinFunc(m.panels, byPeak)
	if most.peak.Bytes == least.peak.Bytes {
		return "peak " + units.Bytes(most.peak.Bytes) + " on each"
	}
	return fmt.Sprintf("peaks from %s (%s) to %s (%s)", units.Bytes(least.peak.Bytes), canvas.Cut(least.Name, factName),
		units.Bytes(most.peak.Bytes), canvas.Cut(most.Name, factName))
}

// facts returns the lowest and the highest peak, and the outliers.
func (m *multiples) facts() []string {
	var outliers []string
	for _, p := range m.panels {
		if p.Outlier != "" {
			outliers = append(outliers, canvas.Cut(p.Name, factName)+" ("+p.Outlier+")")
		}
	}
	if outliers == nil {
		return []string{m.spread()}
	}
	return []string{m.spread(), "outliers: " + strings.Join(outliers, ", ")}
}

func (m *multiples) explanation() string {
	return "All panels share one scale of bytes; each has its own time scale. The dot marks the peak."
}
