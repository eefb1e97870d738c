package blocks

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Sizes of the panels of other spaces.
const (
	othersMost          = 8   // panels
	othersRow           = 4   // panels in a row
	othersTop     point = 780 // from the end of the axis to the first row, with the heading
	othersHigh    point = 700
	othersPitch   point = 1000
	othersGap     point = 200
	othersPerLine point = 1200 // minimum width of a panel
)

// otherRows returns the number of panels in a row, and the height of all rows.
func (p *picture) otherRows() (inRow int, height point) {
	n := point(min(len(p.o.Others), othersMost))
	if n == 0 {
		return 0, 0
	}
	inRow = int(max(min(n, othersRow, (p.Right-p.Left+othersGap)/(othersPerLine+othersGap)), 1))
	rows := (n + point(inRow) - 1) / point(inRow)
	return inRow, rows*othersPitch + 300
}

// others draws the bytes in use of other spaces in small panels, on the scale of bytes of the plot. Each has its own axis.
func (p *picture) others() {
	inRow, height := p.otherRows()
	if inRow == 0 {
		return
	}
	shown := p.o.Others[:min(len(p.o.Others), othersMost)]
	title := "other memory IDs, on the same scale of bytes"
	if more := len(p.o.Others) - len(shown); more > 0 {
		title += "; " + units.Count(int64(more)) + " more are not shown"
	}
	y := point(p.o.Height-62)*10 - height + othersTop
	p.Page.Text(canvas.Text{X: p.Left, Y: y - 200, Role: canvas.Dim, S: title}.Fit(p.Right - p.Left))
	wide := (p.Right-p.Left+othersGap)/point(inRow) - othersGap
	for i, s := range shown {
		left, top := p.Left+point(i%inRow)*(wide+othersGap), y+point(i/inRow)*othersPitch
		p.other(s, left, top+50, wide)
	}
}

// other draws one panel.
func (p *picture) other(s *lifetime.Space, left, top, wide point) {
	q := picture{Plot: p.Plot, s: s, o: p.o, ceiling: max(p.ceiling, 1)}
	q.Space, q.From, q.To, q.Left, q.Right, q.Top, q.Bottom = s, s.Begin, s.End, left, left+wide, top, top+othersHigh
	peak := s.Peak(lifetime.Occupied).Bytes
	p.Page.Text(canvas.Text{X: left, Y: top - 50, S: s.ID(), Aside: "peak " + units.Bytes(peak)}.Fit(wide - canvas.Width(" peak "+units.Bytes(peak), canvas.TextSize)))
	p.Page.Stroke(canvas.Line(left, q.Bottom, q.Right, q.Bottom), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
	cols, err := sample(s, plot.Window{From: s.Begin, To: s.End, Columns: int(wide) / columnWidth})
	if err != nil {
		return // damaged sizes
	}
	q.cols = cols
	band := q.band(make([]int64, len(cols.level)), cols.level, q.height())
	if !band.Empty() {
		p.Page.Fill(band, canvas.Look{Role: canvas.Stays}, []byte(canvas.Cut(s.ID(), 80)+"\npeak "+units.Exact(peak)))
	}
}
