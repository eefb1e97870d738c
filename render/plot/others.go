package plot

import (
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
)

// MostOthers is the maximum number of panels of other spaces.
const MostOthers = 8

// OtherHeight is the height of the plot in a panel.
const OtherHeight canvas.Length = 700

// Sizes of the panels of other spaces.
const (
	othersRow                 = 4   // panels in a row
	othersTop   canvas.Length = 780 // from the end of the axis to the first row, with the heading
	othersPitch canvas.Length = 1000
	othersGap   canvas.Length = 200
	othersLeast canvas.Length = 1200 // minimum width of a panel
)

// FindOthers chooses the spaces that are drawn in small panels below the plot, and returns the height of the page in
// pixels and of all panels. The page grows for them; if its height is fixed, they are left out, and Source says so, if
// the rest would be less than least pixels.
func (p *Plot) FindOthers(spaces []*lifetime.Space, height, least int, fixed bool) (page int, panels canvas.Length) {
	p.others = spaces
	_, panels = p.otherRows()
	if !fixed {
		return height + int(panels/10), panels
	}
	if height-int(panels/10) < least {
		p.others, p.noRoom = nil, len(spaces)
		return height, 0
	}
	return height, panels
}

// otherRows returns the number of panels in a row, and the height of all rows.
func (p *Plot) otherRows() (inRow int, height canvas.Length) {
	n := canvas.Length(min(len(p.others), MostOthers))
	if n == 0 {
		return 0, 0
	}
	inRow = int(max(min(n, othersRow, (p.Right-p.Left+othersGap)/(othersLeast+othersGap)), 1))
	rows := (n + canvas.Length(inRow) - 1) / canvas.Length(inRow)
	return inRow, rows*othersPitch + 300
}

// Others draws the panels above the footer of a page whose height is in pixels. Each has its own axis. curve draws the
// bytes in use of panel.Space, on the scale of bytes of p; title is the text of its tooltip.
func (p *Plot) Others(height int, curve func(panel Plot, title string)) {
	inRow, below := p.otherRows()
	if inRow == 0 {
		return
	}
	shown := p.others[:min(len(p.others), MostOthers)]
	title := "other memory IDs, on one scale of bytes from 0"
	if more := len(p.others) - len(shown); more > 0 {
		title += "; " + units.Count(int64(more)) + " more are not shown"
	}
	y := canvas.Length(height-62)*10 - below + othersTop
	if canvas.Width(title, canvas.TextSize) > p.Right-p.Left {
		title, _, _ = strings.Cut(title, ",")
	}
	p.Page.Text(canvas.Text{X: p.Left, Y: y - 200, Role: canvas.Dim, S: title}.Fit(p.Right - p.Left))
	wide := (p.Right-p.Left+othersGap)/canvas.Length(inRow) - othersGap
	alike := p.alike()
	for i, s := range shown {
		column, row := canvas.Length(i%inRow), canvas.Length(i/inRow)
		p.other(s, s.ID()[alike:], p.Left+column*(wide+othersGap), y+row*othersPitch+50, wide, curve)
	}
}

// alike returns the length of what all IDs begin with, such as a host: the parts up to a slash that names have no need
// of.
func (p *Plot) alike() int {
	id := p.Space.ID()
	alike := strings.LastIndexByte(id, '/') + 1
	for _, s := range p.others {
		for !strings.HasPrefix(s.ID(), id[:alike]) {
			alike = strings.LastIndexByte(id[:alike-1], '/') + 1
		}
	}
	return alike
}

// other draws one panel under a name.
func (p *Plot) other(s *lifetime.Space, name string, left, top, wide canvas.Length, curve func(panel Plot, title string)) {
	panel := Plot{Page: p.Page, Space: s, Width: p.Width, From: s.Begin, To: s.End, Left: left, Right: left + wide,
		Top: top, Bottom: top + OtherHeight}
	peak := s.Peak(lifetime.Occupied).Bytes
	aside := units.Bytes(peak)
	p.Page.Text(canvas.Text{X: left, Y: top - 50, S: name, Aside: aside}.Fit(wide - canvas.Width(" "+aside, canvas.TextSize)))
	p.Page.Stroke(canvas.Line(left, panel.Bottom, panel.Right, panel.Bottom), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
	if s.Begin < s.End {
		curve(panel, canvas.Cut(s.ID(), 80)+"\npeak "+units.Exact(peak))
	}
}
