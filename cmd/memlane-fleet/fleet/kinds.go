package fleet

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
)

// Kind is one kind of memory of all captures, for example GPU memory. Figures of two kinds
// are not comparable. Sums saturate.
type Kind struct {
	Name     string     `json:"name"` // from finding.KindOf
	Memories int        `json:"memories"`
	Peaks    Spread     `json:"peaks"`       // occupied bytes
	Total    int64      `json:"total_bytes"` // sum of the peaks
	Base     int64      `json:"base_bytes"`  // part of Total: alive through the recording, without a buffer
	Places   []PlaceSum `json:"places"`
}

// PlaceSum contains the bytes of a place of the program at the peaks of the memories of a kind.
type PlaceSum struct {
	Place    string `json:"place"` // as in findings
	Bytes    int64  `json:"bytes"`
	Memories int    `json:"memories"` // in which it had bytes at the peak
	AtPeaks  Spread `json:"at_peaks"` // over those memories
}

// placeNames returns the names of the places of all sites, by number.
func (f *Fleet) placeNames() []string {
	places := make([]string, len(f.sites.list))
	for n := range places {
		s := f.site(uint32(n))
		places[n] = s.Place().String()
	}
	return places
}

// Kinds returns the bytes of each kind of memory at the peaks. The kinds, and the places of
// each, are sorted by bytes, most first.
func (f *Fleet) Kinds() []Kind {
	type sum struct {
		Kind
		peaks  []int64
		places map[string][]int64 // bytes in each memory
	}
	sums := map[string]*sum{}
	places := f.placeNames()
	for _, k := range f.inOrder() {
		for i := range k.Memories {
			m := &k.Memories[i]
			name := finding.KindOf(m.Space())
			s := sums[name]
			if s == nil {
				s = &sum{Kind: Kind{Name: name, Places: []PlaceSum{}}, places: map[string][]int64{}}
				sums[name] = s
			}
			s.Memories++
			s.peaks = append(s.peaks, m.Peak)
			s.Total = units.AddSat(s.Total, m.Peak)
			s.Base = units.AddSat(s.Base, m.Base)
			held := map[string]int64{}
			for n, t := range f.totalsOf(k, i) {
				if t.AtPeak.Bytes > 0 {
					held[places[n]] = units.AddSat(held[places[n]], t.AtPeak.Bytes)
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
				p.Bytes = units.AddSat(p.Bytes, bytes)
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
