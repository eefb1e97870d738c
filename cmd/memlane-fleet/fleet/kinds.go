package fleet

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Kind is one kind of memory of all captures, such as that of their GPUs: figures of
// two kinds are not comparable. Sums saturate.
type Kind struct {
	Name     string // as leak.KindOf names it
	Memories int
	Peaks    Spread // occupied bytes
	Total    int64  // of the peaks
	Base     int64  // of it: alive through the window, without a buffer
	Places   []PlaceSum
}

// PlaceSum is what a place of the program held at the peaks of the memories of a
// kind.
type PlaceSum struct {
	Place    string // as findings name it
	Bytes    int64
	Memories int    // in how many it held anything then
	AtPeaks  Spread // over those
}

// Kinds returns what memory of each kind held at its peak: the kind that needs most
// first, and of each its places likewise.
func (f *Fleet) Kinds() []Kind {
	type sum struct {
		Kind
		peaks  []int64
		places map[string][]int64 // what it held in each memory
	}
	sums := map[string]*sum{}
	places := make([]string, len(f.sites.list))
	for n := range places {
		s := f.site(uint32(n))
		places[n] = s.Place().String()
	}
	for _, k := range f.inOrder() {
		for i := range k.Memories {
			m := &k.Memories[i]
			name := leak.KindOf(m.Space())
			s := sums[name]
			if s == nil {
				s = &sum{Kind: Kind{Name: name}, places: map[string][]int64{}}
				sums[name] = s
			}
			s.Memories++
			s.peaks = append(s.peaks, m.Peak)
			s.Total = lifetime.AddSat(s.Total, m.Peak)
			s.Base = lifetime.AddSat(s.Base, m.Base)
			held := map[string]int64{}
			for n, t := range f.totalsOf(k, i) {
				if t.AtPeak.Bytes > 0 {
					held[places[n]] = lifetime.AddSat(held[places[n]], t.AtPeak.Bytes)
				}
			}
			for place, bytes := range held {
				s.places[place] = append(s.places[place], bytes)
			}
		}
	}
	all := make([]Kind, 0, len(sums))
	for _, s := range sums {
		s.Peaks = spreadOf(s.peaks)
		for place, held := range s.places {
			p := PlaceSum{Place: place, Memories: len(held), AtPeaks: spreadOf(held)}
			for _, bytes := range held {
				p.Bytes = lifetime.AddSat(p.Bytes, bytes)
			}
			s.Places = append(s.Places, p)
		}
		slices.SortFunc(s.Places, func(a, b PlaceSum) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Place, b.Place))
		})
		all = append(all, s.Kind)
	}
	slices.SortFunc(all, func(a, b Kind) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	return all
}
