package blocks

import (
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

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
