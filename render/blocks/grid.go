package blocks

import (
	"math"

	"github.com/memlane/memlane/render/canvas"
)

// grid has for each cell of the plot which part of it the buffers of each class cover.
type grid struct {
	left, right, bottom point
	cell                point
	columns, rows       int
	parts               [][]float64 // by class; rows of columns+1 differences. The last class is drawn by others
}

// area is a rectangle with exact edges, in tenths of a pixel: x from the left of the page, lo and hi from the bottom of
// the plot.
type area struct{ x, end, lo, hi float64 }

// mosaic returns the outlines of classes of rectangles that fill adds to a grid. It doubles the size of the cells until
// there are few enough pieces.
func (p *picture) mosaic(classes int, fill func(*grid)) []canvas.Path {
	for cell := point(10); ; cell *= 2 {
		g := p.newGrid(cell, classes)
		fill(g)
		if paths, pieces := g.paths(); pieces <= mosaicMost {
			return paths
		}
	}
}

func (p *picture) newGrid(cell point, classes int) *grid {
	g := &grid{left: p.Left, right: p.Right, bottom: p.Bottom, cell: cell, parts: make([][]float64, classes+1)}
	g.columns = int((p.Right - p.Left + cell - 1) / cell)
	g.rows = int((p.Bottom - p.Top + cell - 1) / cell)
	return g
}

// add adds a rectangle. It changes at most four cells of a row, because a buffer may be one cell high and as wide as
// the plot.
func (g *grid) add(a area, class int) {
	x, end := (a.x-float64(g.left))/float64(g.cell), (a.end-float64(g.left))/float64(g.cell)
	lo, hi := a.lo/float64(g.cell), min(a.hi/float64(g.cell), float64(g.rows))
	if end <= x || hi <= lo {
		return
	}
	if g.parts[class] == nil {
		g.parts[class] = make([]float64, g.rows*(g.columns+1))
	}
	first := min(int(x), g.columns-1)
	last := max(min(int(math.Ceil(end))-1, g.columns-1), first)
	for row := int(lo); row < g.rows && float64(row) < hi; row++ {
		high := min(hi, float64(row+1)) - max(lo, float64(row))
		at := g.parts[class][row*(g.columns+1)+first : row*(g.columns+1)+last+2]
		begin, until := high*(float64(first+1)-x), high*(end-float64(last))
		if first == last {
			begin, until = high*(end-x), high*(end-x)
		} else {
			at[1] += high - begin
			at[last-first] += until - high
		}
		at[0] += begin
		at[last-first+1] -= until
	}
}

// none marks a cell without buffers.
const none = 255

// mosaicMost is the maximum number of pieces of a mosaic. At about ten bytes each,
// they take less of the file than the blocks.
const mosaicMost = 20000

// paths returns the outlines of every class and the total number of pieces. Adjacent
// equal cells of a row are one piece, and adjacent equal rows share their pieces.
func (g *grid) paths() (paths []canvas.Path, pieces int) {
	paths = make([]canvas.Path, len(g.parts)-1)
	above := make([]uint8, g.columns)
	row := make([]uint8, g.columns)
	owed := make([]float64, g.columns*(len(g.parts)+1))
	begin := 0 // first of the rows that are equal to above
	emit := func(end int) {
		for x := 0; x < g.columns; {
			from := x
			for x < g.columns && above[x] == above[from] {
				x++
			}
			if class := above[from]; class != none {
				left, right := g.left+point(from)*g.cell, min(g.left+point(x)*g.cell, g.right)
				paths[class].Rect(left, g.bottom-point(end)*g.cell, right, g.bottom-point(begin)*g.cell)
				pieces++
			}
		}
	}
	for r := range g.rows {
		g.choose(row, owed, r)
		if r == 0 || string(row) != string(above) {
			if r > 0 {
				emit(r)
			}
			begin = r
			copy(above, row)
		}
	}
	emit(g.rows)
	return paths, pieces
}

// choose writes the class of each cell of row r. A cell has one colour, so what it cannot show is owed to the cells
// above it in its column: the area of a class is right within two cells per column. owed has for each column the area
// owed to each class, and last to free memory.
func (g *grid) choose(row []uint8, owed []float64, r int) {
	for _, parts := range g.parts {
		if parts != nil { // from differences to parts
			for at := r*(g.columns+1) + 1; at < (r+1)*(g.columns+1); at++ {
				parts[at] += parts[at-1]
			}
		}
	}
	const (
		least = 1e-6 // of a cell: rounding, not a buffer
		near  = .5   // of a cell: a run of one colour is easier to see than dots
	)
	classes := len(g.parts)
	before := classes // what the cell on the left shows
	for x := range row {
		here, free, best := owed[x*(classes+1):(x+1)*(classes+1)], 1.0, classes
		for class := range g.parts {
			part := g.part(class, x, r)
			here[class] += part
			free -= part
			if part > least && (best == classes || here[class] > here[best]) { // of equal areas, the class that is higher in the legend
				best = class
			}
		}
		here[classes] += max(free, 0)
		if best < classes && free > least && here[classes] > here[best] {
			best = classes
		}
		if x > 0 && here[before]+near >= here[best] &&
			(before == classes && free > least || before < classes && g.part(before, x, r) > least) {
			best = before
		}
		here[best]--
		if before, row[x] = best, none; best < classes-1 {
			row[x] = uint8(best)
		}
	}
}

// part returns which part of a cell a class covers.
func (g *grid) part(class, x, r int) float64 {
	if g.parts[class] == nil {
		return 0
	}
	return g.parts[class][r*(g.columns+1)+x]
}
