package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Rank has the figures of one of several ranks, in occupied bytes.
type Rank struct {
	Rank   string `json:"rank"`         // name
	Peak   int64  `json:"peak_bytes"`   // highest peak of its memory IDs
	End    int64  `json:"end_bytes"`    // occupied at the end, in all its memory IDs
	Leaked int64  `json:"leaked_bytes"` // confirmed leaks, in all its memory IDs
}

// Ranks collects the figures of captures of several ranks. It does not retain captures.
type Ranks struct {
	By leak.RankNames

	figures []leak.RankFigures
	names   []string // in order of appearance
	unknown bool     // the rank of a capture is unknown
	leaks   []RankLeak
}

// RankLeak is a leak on one or more ranks.
type RankLeak struct {
	What    string // rule and place
	Ranks   []string
	Bytes   int64 // of all ranks
	PerStep []float64
}

// RankOf returns the rank of a space, "" if it is unknown.
func (r *Ranks) RankOf(t *lifetime.Tables, s *lifetime.SpaceInfo) string {
	return r.By.Of(s.Process, t.Sources[s.Source].File)
}

// Add adds a capture and its findings.
func (r *Ranks) Add(o *lifetime.Outline, found []leak.Finding) {
	r.figures = append(r.figures, leak.FiguresOf(o, found, func(s *lifetime.SpaceInfo) string {
		rank := r.RankOf(&o.Tables, s)
		if rank == "" {
			r.unknown = true
		}
		if !slices.Contains(r.names, rank) {
			r.names = append(r.names, rank)
		}
		return rank
	})...)
	for i := range found {
		if f := &found[i]; f.IsLeak() {
			r.addLeak(f.Rule+" "+o.PlaceOf(f.Place()).String(), r.RankOf(&o.Tables, &f.Space.SpaceInfo), f)
		}
	}
}

func (r *Ranks) addLeak(what, rank string, f *leak.Finding) {
	i := slices.IndexFunc(r.leaks, func(l RankLeak) bool { return l.What == what })
	if i < 0 {
		i = len(r.leaks)
		r.leaks = append(r.leaks, RankLeak{What: what})
	}
	l := &r.leaks[i]
	if !slices.Contains(l.Ranks, rank) {
		l.Ranks = append(l.Ranks, rank)
	}
	l.PerStep = append(l.PerStep, f.BytesPerStep)
	l.Bytes = units.AddSat(l.Bytes, f.Amount.Bytes)
}

// Known reports whether there are several ranks and every capture has one.
func (r *Ranks) Known() bool { return !r.unknown && len(r.names) > 1 }

// Rows returns a row for each rank; nil unless Known.
func (r *Ranks) Rows() (rows []Rank) {
	if !r.Known() {
		return nil
	}
	for _, name := range r.names {
		row := Rank{Rank: name}
		for _, f := range r.figures {
			if f.Rank == name {
				row.Peak = max(row.Peak, f.Peak)
				row.End = units.AddSat(row.End, f.End)
				row.Leaked = units.AddSat(row.Leaked, f.Leaked)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Outliers returns findings about ranks that differ; nil unless Known.
func (r *Ranks) Outliers() []leak.Finding {
	if !r.Known() {
		return nil
	}
	return leak.CompareRanks(r.figures)
}

// RankSummary compares several ranks.
type RankSummary struct {
	Rows              []Rank
	Median, Deviation int64 // of the peaks
	Leaks             []string
	Outliers          []Finding
}

// Summary sums up the ranks; nil unless Known.
func (r *Ranks) Summary() *RankSummary {
	if !r.Known() {
		return nil
	}
	s := &RankSummary{Rows: r.Rows(), Outliers: RankFindingsOf(r.Outliers())}
	var peaks []float64
	for _, row := range s.Rows {
		peaks = append(peaks, float64(row.Peak))
	}
	middle, deviation := leak.Spread(peaks)
	s.Median, s.Deviation = int64(middle), int64(deviation)
	for i := range r.leaks {
		s.Leaks = append(s.Leaks, r.leaks[i].Text(r.names))
	}
	return s
}

// maxNamed is the maximum number of ranks in a sentence.
const maxNamed = 4

// Text returns how many of all ranks have the leak, and names up to maxNamed ranks with or without it. Names are not
// escaped.
func (l *RankLeak) Text(all []string) string {
	text := fmt.Sprintf("%s: %s of %s, %s in all", l.What, units.Count(int64(len(l.Ranks))), units.Plural(len(all), "rank"), units.Bytes(l.Bytes))
	if perStep, _ := leak.Spread(l.PerStep); perStep > 0 {
		text += fmt.Sprintf(", %s per step in the median", units.Bytes(int64(perStep)))
	}
	without := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(l.Ranks, name) })
	switch n := len(without); {
	case n > 0 && n <= len(l.Ranks) && n <= maxNamed:
		text += "; not on " + strings.Join(without, ", ")
	case len(l.Ranks) <= maxNamed:
		text += "; on " + strings.Join(l.Ranks, ", ")
	}
	return text
}
