package chart

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// band is the memory of one category, drawn above the bands before it.
type band struct {
	name   string
	look   canvas.Look
	atPeak int64
	most   int64  // at any time
	top    *curve // this band and those below

	bytes, area float64 // of all its buffers; size times lifetime
}

// mostBands is the number of categories with a band of their own.
const mostBands = 6

// bandsOf returns the categories of the buffers of a space, those with long lives first; none without categories, or if
// other memory than that of buffers is in use.
func (u *usage) bandsOf(w plot.Window) []band {
	s := u.s
	if s.UsageOnly() || s.Base != 0 || len(s.Stack) > 0 {
		return nil
	}
	bands, bandOf := u.classes()
	if len(bands) < 2 {
		return nil
	}
	sums, total := make([]int64, len(bands)), int64(0)
	highest, levels := make([]int64, w.Columns), make([][]int64, w.Columns)
	fill := func(since, until int64) {
		first, end := w.Span(since, until)
		for k := first; k < end; k++ {
			if levels[k] == nil || total > highest[k] {
				highest[k], levels[k] = total, append(levels[k][:0], sums...)
			}
		}
	}
	last := s.Begin
	for c := range s.Changes() {
		if c.T > last {
			fill(last, c.T)
			last = c.T
		}
		size := s.Buffers[c.Buffer].Size
		if !c.Begin {
			size = -size
		}
		sums[bandOf[c.Buffer]] += size
		total += size
	}
	fill(last, s.End)
	for n := range bands {
		bands[n].top = newBlank(w)
		for k := range levels {
			if levels[k] == nil {
				continue
			}
			below := int64(0)
			for _, v := range levels[k][:n+1] {
				below = units.AddSat(below, v)
			}
			bands[n].top.add(k, below, below, below)
		}
	}
	return bands
}

// classes returns the bands, and that of each buffer. Small categories share one.
func (u *usage) classes() (bands []band, bandOf []uint8) {
	index := map[string]int{}
	var all []band
	class := make([]int, len(u.s.Buffers))
	rows := map[lifetime.Row]int{}
	for i := range u.s.Buffers {
		b := &u.s.Buffers[i]
		row := lifetime.Row{Site: b.Site, Kind: b.Kind, Purpose: u.s.PurposeOf(i)}
		k, ok := rows[row]
		if !ok {
			name := cmp.Or(u.c.Category(&u.s.SpaceInfo, b.Kind, b.Site, row.Purpose), purpose.UnknownCategory.String())
			if k, ok = index[name]; !ok {
				k = len(all)
				index[name], all = k, append(all, band{name: purpose.Words(name), look: plot.CategoryLook(name)})
			}
			rows[row] = k
		}
		class[i] = k
		all[k].bytes += float64(b.Size)
		all[k].area += float64(b.Size) * float64(b.End-b.Begin)
		if b.Begin <= u.peak.At && (u.peak.At < b.End || b.Edge&lifetime.EndOpen != 0) {
			all[k].atPeak = units.AddSat(all[k].atPeak, b.Size)
		}
	}
	for k, most := range plot.Tops(u.s, len(all), func(i int) int { return class[i] }) {
		all[k].most = most
	}
	order := make([]int, len(all))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(all[y].most, all[x].most) })
	own := order[:min(len(order), mostBands)]
	slices.SortStableFunc(own, func(x, y int) int { return cmp.Compare(all[y].area*all[x].bytes, all[x].area*all[y].bytes) })
	place := make([]uint8, len(all))
	for n, k := range own {
		place[k] = uint8(n)
		bands = append(bands, all[k])
	}
	if others := order[len(own):]; len(others) > 0 {
		bands = append(bands, band{name: "others", look: plot.OtherLook})
		for _, k := range others {
			place[k] = uint8(len(own))
			bands[len(own)].atPeak = units.AddSat(bands[len(own)].atPeak, all[k].atPeak)
			bands[len(own)].most = max(bands[len(own)].most, all[k].most)
		}
	}
	bandOf = make([]uint8, len(class))
	for i, k := range class {
		bandOf[i] = place[k]
	}
	return bands, bandOf
}

// drawBands draws the categories from back to front.
func (u *usage) drawBands() {
	for _, b := range slices.Backward(u.bands) {
		u.draw(b.top, b.look, canvas.Pen{}, b.name)
	}
}

// bandRows returns the legend rows of the categories, from top to bottom.
func (u *usage) bandRows() (rows []plot.Row) {
	for _, b := range slices.Backward(u.bands) {
		below := units.Bytes(b.atPeak) + " at the peak"
		if b.atPeak == 0 {
			below = "at most " + units.Bytes(b.most)
		}
		rows = append(rows, plot.Row{Look: b.look, Name: b.name, Below: below})
	}
	return rows
}
