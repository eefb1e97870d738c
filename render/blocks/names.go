package blocks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// profile is the outline of an area: its lower and its upper edge in each column, as distances from the bottom of the plot, and its bytes there.
type profile struct {
	lo, hi []point
	bytes  []int64
}

// spot is the name of a class on one of its areas.
type spot struct {
	canvas.Text
	look canvas.Look
}

// nameHeight is the height that a name on an area needs.
const nameHeight point = 150

// spots returns the names of the classes, each on its largest area, as far as they fit there. A name has a figure where the area has the bytes
// of the legend at the instant where it stands: another one would contradict the legend, and change with the width of the picture.
func (p *picture) spots(l *layout, b *bands, height plot.Scale) (names []spot) {
	all := p.profiles(l, b, height)
	called := map[string]int{}
	for _, c := range p.classes {
		called[c.name]++
	}
	for k, c := range p.classes {
		words := []string{strings.TrimSpace(c.name + " " + c.place)}
		if called[c.name] == 1 {
			words = append(words, c.name)
		} else if c.place != "" {
			words = append(words, c.place)
		}
		for i := range 2 * len(words) {
			figure := ""
			if i%2 == 0 {
				figure = ": " + units.Bytes(c.bytes)
			}
			text, ok := p.onTop(canvas.Clean(words[i/2]), figure, &all[k])
			if ok {
				names = append(names, spot{text, c.look})
				break
			}
		}
	}
	return names
}

// profiles returns the largest area of each class in each column: the whole class if it has its own tier, else those of its blocks, and its
// band, that touch.
func (p *picture) profiles(l *layout, b *bands, height plot.Scale) []profile {
	all := make([]profile, len(p.classes))
	if b.tiers == len(p.classes) {
		for class, tier := range b.tierOf {
			for k, low := range b.bottoms[tier] {
				all[class].add(stretch{height.At(uint64(low)), height.At(uint64(b.bottoms[tier+1][k])), b.bottoms[tier+1][k] - low})
			}
		}
		return all
	}
	in := make([][]stretchOf, len(p.cols.at))
	for _, sh := range l.shapes {
		steps := l.steps[sh.first : sh.first+sh.n]
		for i, s := range steps {
			end := sh.end
			if i+1 < len(steps) {
				end = steps[i+1].x
			}
			for x := s.x; x < end; x += columnWidth {
				k := int((x - p.Left) / columnWidth)
				in[k] = append(in[k], stretchOf{stretch{s.lo, s.hi, p.s.Buffers[sh.buffer].Size}, int(sh.class)})
			}
		}
	}
	largest := make([]stretch, len(p.classes))
	for k := range in {
		for class, bytes := range b.bytes {
			if low := b.lows[class][k]; bytes[k] > 0 {
				in[k] = append(in[k], stretchOf{stretch{height.At(uint64(low)), height.At(uint64(low + bytes[k])), bytes[k]}, class})
			}
		}
		slices.SortFunc(in[k], func(x, y stretchOf) int { return cmp.Compare(x.lo, y.lo) })
		clear(largest)
		for i := 0; i < len(in[k]); {
			one := in[k][i]
			for i++; i < len(in[k]) && in[k][i].class == one.class && in[k][i].lo <= one.hi; i++ {
				one.hi, one.bytes = max(one.hi, in[k][i].hi), one.bytes+in[k][i].bytes
			}
			if of := &largest[one.class]; one.hi-one.lo > of.hi-of.lo {
				*of = one.stretch
			}
		}
		for class := range all {
			all[class].add(largest[class])
		}
	}
	return all
}

// stretch is a part of a column: its edges, as distances from the bottom of the plot, and its bytes.
type stretch struct {
	lo, hi point
	bytes  int64
}

type stretchOf struct {
	stretch
	class int
}

func (f *profile) add(a stretch) {
	f.lo, f.hi, f.bytes = append(f.lo, a.lo), append(f.hi, a.hi), append(f.bytes, a.bytes)
}

// widest returns the place of the given width where a profile is highest: its first column and its edges there. It
// tries every second column.
func (f *profile) widest(columns int) (at int, lo, hi point) {
	for k := 0; k+columns <= len(f.lo); k += 2 {
		if f.hi[k]-f.lo[k] < nameHeight {
			continue
		}
		low, high := slices.Max(f.lo[k:k+columns]), slices.Min(f.hi[k:k+columns])
		if high-low > hi-lo {
			at, lo, hi = k, low, high
		}
	}
	return at, lo, hi
}

// onTop puts a name on the highest part of a profile. It reports whether the text fits, and its figure is that of the area at its middle.
func (p *picture) onTop(name, figure string, f *profile) (t canvas.Text, ok bool) {
	t.S = name + figure
	columns := int(t.Extent()+80)/columnWidth + 1
	k, lo, hi := f.widest(columns)
	if hi-lo < nameHeight {
		return t, false
	}
	t.X, t.Y = p.columnX(k)+40, p.Bottom-(lo+hi)/2+40
	return t, figure == "" || figure == ": "+units.Bytes(f.bytes[k+columns/2])
}
