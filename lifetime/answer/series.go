package answer

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// leastSeries is the minimum number of captures of a series.
const leastSeries = 3

// Growth is a call site whose live memory rises from each capture of a run to the next.
type Growth struct {
	Space string  `json:"space"` // memory ID
	Site  string  `json:"site"`  // place
	Bytes []int64 `json:"bytes"` // occupied at the end of each capture, in the order of the captures
}

// grown returns by how much the memory grew.
func (g *Growth) grown() int64 { return g.Bytes[len(g.Bytes)-1] - g.Bytes[0] }

// Series compares several captures of one run by what is alive at their ends. This needs no history.
type Series struct {
	captures int
	at       map[siteOfSeries][]int64
}

type siteOfSeries struct {
	space string
	place lifetime.Place
}

// Add adds the next capture.
func (s *Series) Add(c *lifetime.Capture) {
	if s.at == nil {
		s.at = map[siteOfSeries][]int64{}
	}
	s.captures++
	for _, space := range c.Spaces {
		if static(&space.SpaceInfo) {
			continue
		}
		for _, row := range space.Breakdown(space.AtEnd()) {
			if !row.Kind.OfBuffers() || row.Site == 0 {
				continue
			}
			key := siteOfSeries{space.ID(), c.PlaceOf(row.Site)}
			for len(s.at[key]) < s.captures {
				s.at[key] = append(s.at[key], 0)
			}
			s.at[key][s.captures-1] += row.Bytes
		}
	}
}

// Growing returns the call sites with more live memory in each capture than in the one before, most growth first; none
// if there are fewer than three captures. A growth below a hundredth of the memory at the end is omitted.
func (s *Series) Growing() (all []Growth) {
	const notable = 100
	if s.captures < leastSeries {
		return nil
	}
	total := map[string]int64{} // at the end of the last capture, by space
	for key, bytes := range s.at {
		if len(bytes) == s.captures {
			total[key.space] += bytes[s.captures-1]
		}
	}
	for key, bytes := range s.at {
		g := Growth{key.space, key.place.String(), bytes}
		if len(bytes) == s.captures && rises(bytes) && g.grown()*notable >= total[key.space] {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(x, y Growth) int {
		return cmp.Or(cmp.Compare(y.grown(), x.grown()), cmp.Compare(x.Space, y.Space), cmp.Compare(x.Site, y.Site))
	})
	return all
}

// rises reports whether each number is larger than the one before.
func rises(bytes []int64) bool {
	for i := 1; i < len(bytes); i++ {
		if bytes[i] <= bytes[i-1] {
			return false
		}
	}
	return true
}
