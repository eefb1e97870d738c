package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// Rank is one of several ranks. Bytes are occupied, of all its memory together but for
// the peak, which is that of one memory ID.
type Rank struct {
	Rank   string `json:"rank"`         // name
	Peak   int64  `json:"peak_bytes"`   // highest peak of its memory IDs
	End    int64  `json:"end_bytes"`    // occupied at the end, in all of them
	Leaked int64  `json:"leaked_bytes"` // confirmed leaks, in all of them
}

// Ranks sums up captures of several processes, one after the other: it keeps
// figures, no capture.
type Ranks struct {
	By leak.RankNames

	figures []leak.RankFigures
	names   []string // in order of appearance
	unknown bool     // a capture does not tell its rank
	leaks   []RankLeak
}

// RankLeak is a leak that one or more ranks have.
type RankLeak struct {
	What    string // the rule and the place
	Ranks   []string
	Bytes   int64 // of them all
	PerStep []float64
}

// RankOf returns the rank of a space, "" where neither the capture nor its name says it.
func (r *Ranks) RankOf(t *lifetime.Tables, s *lifetime.SpaceInfo) string {
	return r.By.Of(s.Process, t.Sources[s.Source].File)
}

// Add takes a capture and what was found in it.
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
	l.Bytes = lifetime.AddSat(l.Bytes, f.Amount.Bytes)
}

// Known reports whether several ranks were added, and every capture told its own.
func (r *Ranks) Known() bool { return !r.unknown && len(r.names) > 1 }

// Rows returns a row for each rank; nil where they are not Known.
func (r *Ranks) Rows() (rows []Rank) {
	if !r.Known() {
		return nil
	}
	for _, name := range r.names {
		row := Rank{Rank: name}
		for _, f := range r.figures {
			if f.Rank == name {
				row.Peak = max(row.Peak, f.Peak)
				row.End = lifetime.AddSat(row.End, f.End)
				row.Leaked = lifetime.AddSat(row.Leaked, f.Leaked)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Outliers returns findings about ranks that differ; none where ranks are not Known.
func (r *Ranks) Outliers() []leak.Finding {
	if !r.Known() {
		return nil
	}
	return leak.CompareRanks(r.figures)
}

// RankSummary is what several ranks have in common, and which of them differ.
type RankSummary struct {
	Rows              []Rank
	Median, Deviation int64 // of the peaks
	Leaks             []string
	Outliers          []Finding
}

// Summary sums the ranks up; nil where they are not Known.
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

// maxNamed is how many ranks a sentence names.
const maxNamed = 4

// Text says how many of all ranks have the leak, and which have not where those are
// few. Names stand in it as captures have them.
func (l *RankLeak) Text(all []string) string {
	text := fmt.Sprintf("%s: %s of %s, %s in all", l.What, units.Count(int64(len(l.Ranks))), units.Several(len(all), "rank"), units.Bytes(l.Bytes))
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
