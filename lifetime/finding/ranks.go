package finding

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/purpose"
)

// rankOutlier compares ranks. CompareRanks runs it on all captures together.
var rankOutlier = Rule{Name: "rank_outlier", Kind: KindUsage,
	Doc: "ranks whose peak, growth or leaked bytes differ from those of the others; needs four ranks"}

// The thresholds of CompareRanks.
const (
	minRanks = 4
	// farOff is the maximum distance from the median in scaled median absolute deviations. madScale turns one of them
	// into a standard deviation for normally distributed figures (Iglewicz and Hoaglin, 1993).
	farOff   = 3.5
	madScale = 1.4826
	// minOff is the minimum distance as a share of the median peak. Equal ranks have a deviation of 0.
	minOff = 0.05
)

// rankInName matches the rank in a file name: rank3.pickle, rank_03.json.
var rankInName = regexp.MustCompile(`(?i)rank[-_.]?(\d+)`)

// RankNames determines the rank of a process. The zero value reads it from the capture, else from the file name.
type RankNames struct {
	pattern *regexp.Regexp // for paths; its first group is the rank
}

// ParseRankNames returns RankNames that read the rank from paths: it is the first group of a regular expression. For ""
// it returns the zero value. It fails if the expression is invalid or has no group.
func ParseRankNames(expression string) (RankNames, error) {
	if expression == "" {
		return RankNames{}, nil
	}
	re, err := regexp.Compile(expression)
	if err != nil || re.NumSubexp() < 1 {
		return RankNames{}, fmt.Errorf("%q: not a regular expression with a group for the rank, such as 'worker-([0-9]+)'", expression)
	}
	return RankNames{re}, nil
}

// Of returns the rank of a process, for example "rank 3", from its name in the capture and the path or URL of its file; "" if neither has a rank.
func (n RankNames) Of(process, file string) string {
	pattern := n.pattern
	if pattern == nil {
		if rank, _, _ := strings.Cut(process, ","); strings.HasPrefix(rank, "rank ") {
			return rank // a rank may have several processes
		}
		pattern, file = rankInName, path.Base(strings.ReplaceAll(file, `\`, "/"))
	}
	m := pattern.FindStringSubmatch(file)
	if m == nil {
		return ""
	}
	if number, err := strconv.Atoi(m[1]); err == nil {
		return "rank " + strconv.Itoa(number)
	}
	return "rank " + m[1]
}

// RankNumber returns the number in a result of RankNames.Of; ok is false if there is none.
func RankNumber(rank string) (n int, ok bool) {
	digits, found := strings.CutPrefix(rank, "rank ")
	n, err := strconv.Atoi(digits)
	return n, found && err == nil
}

// RankFigures are the figures of one memory of one process. They do not retain the buffers of their capture.
type RankFigures struct {
	Rank  string
	Space *lifetime.Space // without buffers
	File  string

	Peak, End, Growth, Leaked int64 // occupied bytes
	Idle                      int64 // reserved at most, beyond the peak; 0 = not compared

	Categories []CategoryBytes // at the peak; empty if none is known
}

func (r *RankFigures) category(name string) int64 {
	for _, c := range r.Categories {
		if c.Name == name {
			return c.Bytes
		}
	}
	return 0
}

// IdleReserved is the name of the measure that does not compete with the others: memory that is reserved but idle has another cause than memory in use.
const IdleReserved = "idle reserved bytes"

var measures = [...]struct {
	name string
	of   func(r *RankFigures) int64
}{
	{"peak", func(r *RankFigures) int64 { return r.Peak }},
	{"growth", func(r *RankFigures) int64 { return r.Growth }},
	{"leaked bytes", func(r *RankFigures) int64 { return r.Leaked }},
	{IdleReserved, func(r *RankFigures) int64 { return r.Idle }},
}

// FiguresOf returns the figures of each space of a capture that is not of a compiled program. rankOf returns its rank.
func FiguresOf(o *outline.Outline, found []Finding, rankOf func(*lifetime.SpaceInfo) string) (all []RankFigures) {
	leaked := map[string]int64{} // by memory ID
	for i := range found {
		if f := &found[i]; f.IsLeak() {
			leaked[f.Space.ID()] = units.AddSat(leaked[f.Space.ID()], f.Amount.Bytes)
		}
	}
	for _, s := range o.Spaces {
		if s.Axis == lifetime.ProgramOrder {
			continue
		}
		r := RankFigures{Rank: rankOf(&s.SpaceInfo), File: o.Sources[s.Source].File, Leaked: leaked[s.ID()],
			Peak: max(s.Peak.Bytes, 0), End: s.EndBytes, Growth: s.EndBytes - s.BeginBytes, // growth within the window only
			Categories: CategoriesOf(&o.Tables, &s.SpaceInfo, s.PeakRows),
			Space: &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Host: s.Host, Process: s.Process, Device: s.Device,
				Memory: s.Memory, Allocator: s.Allocator}}}
		delete(leaked, s.ID()) // another space may have the same ID
		all = append(all, r)
	}
	return all
}

// KindOf returns the kind of a memory, such as "cuda" or "cpu". Ranks are compared by kind.
func KindOf(s *lifetime.Space) string {
	device, _, _ := strings.Cut(s.Device, ":")
	return strings.TrimSpace(strings.Join([]string{device, s.Memory, s.Allocator}, " "))
}

// CompareRanks returns a finding for each memory of a rank that differs from the same kind of memory of the other ranks. These findings have no sites.
func CompareRanks(all []RankFigures) (found []Finding) {
	groups := map[string][]RankFigures{}
	var kinds []string
	for _, r := range all {
		kind := KindOf(r.Space)
		if groups[kind] == nil {
			kinds = append(kinds, kind)
		}
		groups[kind] = append(groups[kind], r)
	}
	for _, kind := range kinds {
		found = append(found, outliers(groups[kind])...)
	}
	Sort(found)
	return found
}

// outliers compares one kind of memory across ranks. A rank has at most one finding about memory in use, for the
// measure furthest from the median, and one about idle memory.
func outliers(ranks []RankFigures) (all []Finding) {
	if len(ranks) < minRanks {
		return nil
	}
	var medians, spreads [len(measures)]float64
	for m := range measures {
		var values []float64
		for i := range ranks {
			values = append(values, float64(measures[m].of(&ranks[i])))
		}
		medians[m], spreads[m] = Spread(values)
	}
	const inUse = len(measures) - 1
	for i := range ranks {
		for _, of := range [...][2]int{{0, inUse}, {inUse, len(measures)}} {
			worst, by := -1, 0.0
			for m := of[0]; m < of[1]; m++ {
				off := math.Abs(float64(measures[m].of(&ranks[i])) - medians[m])
				if off > minOff*medians[0] && FarOff(off, spreads[m]) && off > by {
					worst, by = m, off
				}
			}
			if worst >= 0 {
				f := ranks[i].finding(worst, medians[worst], spreads[worst], len(ranks))
				if measures[worst].name == "peak" {
					f.Description += differingCategory(&ranks[i], ranks)
				}
				all = append(all, f)
			}
		}
	}
	return all
}

// differingCategory names the category of a rank that is furthest from its median: "; mostly activation, 1.20 GiB
// more". It is "" unless all ranks have categories.
func differingCategory(r *RankFigures, ranks []RankFigures) string {
	name, most := "", int64(0)
	for _, c := range r.Categories {
		var others []float64
		for i := range ranks {
			if len(ranks[i].Categories) == 0 {
				return ""
			}
			others = append(others, float64(ranks[i].category(c.Name)))
		}
		if off := c.Bytes - int64(median(others)); max(off, -off) > max(most, -most) {
			name, most = c.Name, off
		}
	}
	switch {
	case most > 0:
		return fmt.Sprintf("; mostly %s, %s more", name, units.Bytes(most))
	case most < 0:
		return fmt.Sprintf("; mostly %s, %s less", name, units.Bytes(-most))
	}
	return ""
}

func (r *RankFigures) finding(m int, median, spread float64, n int) Finding {
	value := measures[m].of(r)
	off := float64(value) - median
	f := Finding{Rule: rankOutlier.Name, Kind: rankOutlier.Kind, Severity: Warning, Space: r.Space,
		Confidence: recorded, Amount: lifetime.Amount{Bytes: int64(math.Abs(off))},
		Evidence: []Evidence{figure(FigRanks, n), figure(FigValue, value), figure(FigMedian, median), figure(FigMedianDeviation, spread),
			textFigure(FigMeasure, measures[m].name), textFigure(FigRank, r.Rank), textFigure(FigFile, r.File)},
		Suggestions: []string{"Compare it with another rank: logging, evaluation, uneven data."}}
	direction := "more"
	if off < 0 {
		direction, f.Severity = "less", Info
	}
	f.describe("", fmt.Sprintf("%s differs from the other %d ranks: %s %s, %s %s than the median of %s", r.Rank, n-1,
		measures[m].name, units.Bytes(value), units.Bytes(f.Amount.Bytes), direction, units.Bytes(int64(median))))
	return f
}

// FarOff reports whether a distance from a median is more than the noise, of which deviation is the median absolute deviation.
func FarOff(off, deviation float64) bool { return off > farOff*madScale*deviation }

// Spread returns the median of values and their median absolute deviation.
func Spread(values []float64) (middle, deviation float64) {
	middle = median(values)
	var off []float64
	for _, v := range values {
		off = append(off, math.Abs(v-middle))
	}
	return middle, median(off)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// CategoryBytes is the memory of one category.
type CategoryBytes struct {
	Name  string
	Bytes int64 // occupied
	How   purpose.How
}

// CategoriesOf sums up the rows of a breakdown by category, in order of names. Memory of no category is "unknown". It
// returns nil if no buffer has a category.
func CategoriesOf(t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) []CategoryBytes {
	sums, known := map[string]*CategoryBytes{}, false
	for _, r := range rows {
		name := t.Category(s, r.Kind, r.Site, r.Purpose)
		known = known || name != "" && r.Kind.OfBuffers()
		name = cmp.Or(name, purpose.UnknownCategory.String())
		if sums[name] == nil {
			sums[name] = &CategoryBytes{Name: name, How: purpose.Recorded}
		}
		sums[name].Bytes = units.AddSat(sums[name].Bytes, r.Bytes)
		sums[name].How = min(sums[name].How, t.Purpose(r.Purpose).HowNamed())
	}
	if !known {
		return nil
	}
	var all []CategoryBytes
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, *sums[name])
	}
	return all
}
