package leak

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/units"
)

// RankOutlier is the name of the rule that compares ranks; it looks at all
// captures together and is not in Rules.
const RankOutlier = "rank_outlier"

// RankOutlierDoc says what it finds, in one line.
const RankOutlierDoc = "of four ranks or more, one whose peak, growth or leaks differ from the others'"

// The thresholds of CompareRanks.
const (
	minRanks = 4
	// farOff is how many scaled median absolute deviations from the median are
	// too many, and madScale makes one of them a standard deviation where figures
	// are normally distributed (Iglewicz and Hoaglin, 1993).
	farOff   = 3.5
	madScale = 1.4826
	// minOff is the share of the median peak that a figure must be off by at least:
	// ranks that are all alike have no deviation.
	minOff = 0.05
)

// rankFigures is what is compared of a rank: the same kind of memory of one
// process.
type rankFigures struct {
	capture int
	space   *lifetime.Space
	name    string
	figures [3]int64 // by rankMeasures
	sites   []lifetime.SiteID
}

var rankMeasures = [3]string{"peak", "growth", "leaked bytes"}

// CompareRanks adds to the findings of each capture those about spaces that
// differ from the same memory of the other ranks. Captures and the processes in
// them are the ranks.
func CompareRanks(captures []*lifetime.Capture, found [][]Finding) {
	groups := map[string][]rankFigures{}
	var kinds []string
	for i, c := range captures {
		for _, s := range c.Spaces {
			if s.Axis == lifetime.ProgramOrder {
				continue
			}
			device, _, _ := strings.Cut(s.Device, ":")
			kind := strings.TrimSpace(strings.Join([]string{device, s.Memory, s.Allocator}, " "))
			if groups[kind] == nil {
				kinds = append(kinds, kind)
			}
			groups[kind] = append(groups[kind], figuresOf(i, c, s, found[i]))
		}
	}
	for _, kind := range kinds {
		for _, o := range outliers(groups[kind]) {
			found[o.capture] = append(found[o.capture], o.Finding)
			Sort(found[o.capture])
		}
	}
}

func figuresOf(i int, c *lifetime.Capture, s *lifetime.Space, found []Finding) rankFigures {
	r := rankFigures{capture: i, space: s, name: s.Process}
	if r.name == "" {
		r.name = c.Sources[s.Source].File
	}
	first, last := int64(-1), int64(0)
	for level := range s.Levels(lifetime.Occupied) {
		if first < 0 {
			first = level.Bytes
		}
		last = level.Bytes
		r.figures[0] = max(r.figures[0], level.Bytes)
	}
	r.figures[1] = last - max(first, 0)
	for _, f := range found {
		if f.Space == s && f.IsLeak() {
			r.figures[2] += f.Amount.Bytes
			r.sites = append(r.sites, f.Sites...)
		}
	}
	return r
}

// outlierOf is a finding and the capture that it belongs to.
type outlierOf struct {
	capture int
	Finding
}

// outliers compares one kind of memory across ranks: each rank is named for the
// measure by which it is furthest off.
func outliers(ranks []rankFigures) (all []outlierOf) {
	if len(ranks) < minRanks {
		return nil
	}
	var medians, spreads [3]float64
	for m := range rankMeasures {
		var values, off []float64
		for _, r := range ranks {
			values = append(values, float64(r.figures[m]))
		}
		medians[m] = median(values)
		for _, v := range values {
			off = append(off, math.Abs(v-medians[m]))
		}
		spreads[m] = madScale * median(off)
	}
	for _, r := range ranks {
		worst, by := -1, 0.0
		for m := range rankMeasures {
			off := math.Abs(float64(r.figures[m]) - medians[m])
			if off > minOff*medians[0] && off > farOff*spreads[m] && off > by {
				worst, by = m, off
			}
		}
		if worst >= 0 {
			all = append(all, outlierOf{r.capture, r.finding(worst, medians[worst], spreads[worst], len(ranks))})
		}
	}
	return all
}

func (r *rankFigures) finding(m int, median, spread float64, n int) Finding {
	off := float64(r.figures[m]) - median
	direction := "more"
	f := Finding{Rule: RankOutlier, Severity: Warning, Space: r.space, Confidence: 0.8, Sites: r.sites, Amount: lifetime.Amount{Bytes: int64(math.Abs(off))}}
	if off < 0 {
		direction, f.Severity = "less", Info
	}
	f.Evidence = []Evidence{{Name: "ranks", Value: float64(n)}, {Name: "value", Value: float64(r.figures[m])}, {Name: "median", Value: median},
		{Name: "deviation", Value: spread}}
	f.say("measure", rankMeasures[m])
	f.Description = fmt.Sprintf("of %d ranks %s is the odd one: its %s is %s, %s %s than the median of %s", n, r.name, rankMeasures[m],
		units.Bytes(r.figures[m]), units.Bytes(f.Amount.Bytes), direction, units.Bytes(int64(median)))
	f.Suggestions = []string{"Compare it with one of the others: what only this rank does (logging, evaluation, the first or last stage of a pipeline), or data that is not spread evenly."}
	return f
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
