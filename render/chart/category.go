package chart

import (
	"cmp"
	"iter"
	"slices"
	"strings"

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
	bands, changes := u.recorded()
	if bands == nil && !s.UsageOnly() && s.Base == 0 && len(s.Stack) == 0 {
		bands, changes = u.classes()
	}
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
	for c := range changes {
		if c.t > last {
			fill(last, c.t)
			last = c.t
		}
		sums[c.band] += c.bytes
		total += c.bytes
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

// change is a change of the bytes of a band.
type change struct {
	t     int64
	band  int
	bytes int64
}

// isCategory reports whether the producer recorded another space as a category of this one.
func (u *usage) isCategory(o *lifetime.Space) bool {
	return strings.HasPrefix(o.ID(), u.s.ID()+"/") && o.UsageOnly() && u.s.UsageOnly() && o.Source == u.s.Source
}

// recorded returns the categories that the producer recorded as usage of their own, beside that of the space, those that vary least first; none
// without them.
func (u *usage) recorded() (bands []band, changes iter.Seq[change]) {
	var all []change
	of := slices.DeleteFunc(slices.Clone(u.c.Spaces), func(o *lifetime.Space) bool { return !u.isCategory(o) })
	slices.SortStableFunc(of, func(x, y *lifetime.Space) int { return cmp.Compare(steady(y), steady(x)) })
	for n, o := range of {
		name := strings.TrimPrefix(o.ID(), u.s.ID()+"/")
		b, last := band{name: name, look: plot.CategoryLook(strings.ReplaceAll(name, " ", "_"))}, int64(0)
		for l := range o.Levels(lifetime.Occupied) {
			all = append(all, change{l.At, n, l.Bytes - last})
			if b.most, last = max(b.most, l.Bytes), l.Bytes; l.At <= u.peak.At {
				b.atPeak = l.Bytes
			}
		}
		bands = append(bands, b)
	}
	slices.SortStableFunc(all, func(x, y change) int { return cmp.Compare(x.t, y.t) })
	return bands, slices.Values(all)
}

// steady returns the mean of the levels of a space, as a share of the highest.
func steady(s *lifetime.Space) float64 {
	area, last := 0.0, lifetime.Level{At: s.Begin}
	for l := range s.Levels(lifetime.Occupied) {
		area += float64(last.Bytes) * float64(l.At-last.At)
		last = l
	}
	return area / float64(max(s.Peak(lifetime.Occupied).Bytes, 1))
}

// classes returns the bands of the buffers. Small categories share one.
func (u *usage) classes() (bands []band, changes iter.Seq[change]) {
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
	place := make([]int, len(all))
	for n, k := range own {
		place[k] = n
		bands = append(bands, all[k])
	}
	if others := order[len(own):]; len(others) > 0 {
		bands = append(bands, band{name: "others", look: plot.OtherLook})
		for _, k := range others {
			place[k] = len(own)
			bands[len(own)].atPeak = units.AddSat(bands[len(own)].atPeak, all[k].atPeak)
			bands[len(own)].most = max(bands[len(own)].most, all[k].most)
		}
	}
	return bands, func(yield func(change) bool) {
		for c := range u.s.Changes() {
			size := u.s.Buffers[c.Buffer].Size
			if !c.Begin {
				size = -size
			}
			if !yield(change{c.T, place[class[c.Buffer]], size}) {
				return
			}
		}
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
