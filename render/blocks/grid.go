package blocks

import "github.com/memlane/memlane/render/canvas"

// grid counts the buffers of each class that touch each cell of the plot.
type grid struct {
	left, right, bottom point
	cell                point
	columns, rows       int
	counts              [][]int32 // by class; rows of columns+1 differences
}

func (p *picture) newGrid(cell point, classes int) *grid {
	g := &grid{left: p.Left, right: p.Right, bottom: p.Bottom, cell: cell, counts: make([][]int32, classes)}
	g.columns = int((p.Right - p.Left + cell - 1) / cell)
	g.rows = int((p.Bottom - p.Top + cell - 1) / cell)
	return g
}

// add counts one buffer. It changes only the first cell of a row and the one after the
// last, because a buffer may be one cell high and as wide as the plot.
func (g *grid) add(r rect, class int) {
	if g.counts[class] == nil {
		g.counts[class] = make([]int32, g.rows*(g.columns+1))
	}
	first := min(int((r.x-g.left)/g.cell), g.columns-1)
	last := max(min(int((r.end-1-g.left)/g.cell), g.columns-1), first)
	low := min(int(r.lo/g.cell), g.rows-1)
	high := max(min(int((r.hi-1)/g.cell), g.rows-1), low)
	for row := low; row <= high; row++ {
		at := row * (g.columns + 1)
		g.counts[class][at+first]++
		g.counts[class][at+last+1]--
	}
}

// none marks a cell without buffers.
const none = 255

// paths returns the outlines of every class and the total number of pieces. Adjacent
// equal cells of a row are one piece, and adjacent equal rows share their pieces.
func (g *grid) paths() (paths []canvas.Path, pieces int) {
	paths = make([]canvas.Path, len(g.counts))
	above := make([]uint8, g.columns)
	row := make([]uint8, g.columns)
	begin := 0 // first of the rows that are equal to above
	emit := func(end int) {
		for x := 0; x < g.columns; {
			from := x
			for x < g.columns && above[x] == above[from] {
				x++
			}
			if class := above[from]; class != none {
				g.addPiece(&paths[class], from, x, begin, end)
				pieces++
			}
		}
	}
	for r := range g.rows {
		g.dominant(row, r)
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

// dominant writes the class of most buffers of each cell of row r.
func (g *grid) dominant(row []uint8, r int) {
	best := make([]int32, g.columns)
	for x := range row {
		row[x] = none
	}
	for class, counts := range g.counts {
		if counts == nil {
			continue
		}
		n := int32(0)
		for x := range row {
			n += counts[r*(g.columns+1)+x]
			if n > best[x] { // of equal counts, the class that is higher in the legend
				best[x], row[x] = n, uint8(class)
			}
		}
	}
}

func (g *grid) addPiece(path *canvas.Path, from, to, low, high int) {
	x, end := g.left+point(from)*g.cell, min(g.left+point(to)*g.cell, g.right)
	path.Rect(x, g.bottom-point(high)*g.cell, end, g.bottom-point(low)*g.cell)
}
