package blocks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// profile is the outline of an area: its lower and its upper edge in the columns from first on, as distances from the
// bottom of the plot, and its bytes there.
type profile struct {
	first  int
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

// spots returns the names of the classes, each on its largest area with the bytes of that area at the instant where the name stands, as
// far as they fit there.
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
			text, ok := p.onTop(canvas.Clean(words[i/2]), i%2 == 0, all[k])
			if ok {
				names = append(names, spot{text, c.look})
				p.classes[k].named = true
				break
			}
		}
	}
	return names
}

// profiles returns the largest areas of each class: the whole class if it has its own tier, else its largest blocks and
// its band.
func (p *picture) profiles(l *layout, b *bands, height plot.Scale) [][]profile {
	all := make([][]profile, len(p.classes))
	levels := func(low, high []int64) (f profile) {
		for k := range low {
			f.lo, f.hi = append(f.lo, height.At(uint64(low[k]))), append(f.hi, height.At(uint64(high[k])))
			f.bytes = append(f.bytes, high[k]-low[k])
		}
		return f
	}
	if b.tiers == len(p.classes) {
		for class, tier := range b.tierOf {
			all[class] = []profile{levels(b.bottoms[tier], b.bottoms[tier+1])}
		}
		return all
	}
	for class, bytes := range b.bytes {
		top := slices.Clone(b.lows[class])
		for k := range top {
			top[k] += bytes[k]
		}
		all[class] = []profile{levels(b.lows[class], top)}
	}
	shapes := slices.Clone(l.shapes)
	slices.SortStableFunc(shapes, func(a, b shape) int {
		return cmp.Compare(p.area(&p.s.Buffers[b.buffer]), p.area(&p.s.Buffers[a.buffer]))
	})
	const tries = 8
	for _, sh := range shapes {
		if len(all[sh.class]) <= tries {
			all[sh.class] = append(all[sh.class], p.profileOf(l, sh))
		}
	}
	return all
}

// profileOf returns the profile of a block.
func (p *picture) profileOf(l *layout, sh shape) profile {
	steps := l.steps[sh.first : sh.first+sh.n]
	f := profile{first: int((steps[0].x - p.Left) / columnWidth)}
	for i, s := range steps {
		end := sh.end
		if i+1 < len(steps) {
			end = steps[i+1].x
		}
		for x := s.x; x < end; x += columnWidth {
			f.lo, f.hi, f.bytes = append(f.lo, s.lo), append(f.hi, s.hi), append(f.bytes, p.s.Buffers[sh.buffer].Size)
		}
	}
	return f
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
			at, lo, hi = f.first+k, low, high
		}
	}
	return at, lo, hi
}

// onTop puts a name on the highest part of the profiles, with the bytes of the area at the middle of the text. It reports whether the text
// fits.
func (p *picture) onTop(name string, figure bool, all []profile) (t canvas.Text, ok bool) {
	t.S = name
	if figure {
		t.S += ": " + units.Bytes(1023<<20) // as wide as a figure may be
	}
	columns := int(t.Extent()+80)/columnWidth + 1
	best, bytes := point(0), int64(0)
	for i := range all {
		k, lo, hi := all[i].widest(columns)
		if hi-lo > best {
			best = hi - lo
			t.X, t.Y = p.columnX(k)+40, p.Bottom-(lo+hi)/2+40
			bytes = all[i].bytes[k-all[i].first+columns/2]
		}
	}
	if figure {
		t.S = name + ": " + units.Bytes(bytes)
	}
	return t, best >= nameHeight
}
