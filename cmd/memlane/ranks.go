package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/report"
)

func rankFlag() cli.Flag {
	return &cli.StringFlag{Name: "rank-from", Usage: "the rank is the first group of `REGEXP` in the path"}
}

// ranks sums up captures of several processes, one after the other: it keeps
// figures, no capture.
type ranks struct {
	by      leak.RankNames
	figures []leak.RankFigures
	names   []string // in order of appearance
	unknown bool     // a capture does not tell its rank
	leaks   []rankLeak
}

// rankLeak is a leak that one or more ranks have.
type rankLeak struct {
	report.RankLeak
	perStep []float64
}

func ranksOf(c *cli.Context) (*ranks, error) {
	by, err := leak.ParseRankNames(c.String("rank-from"))
	if err != nil {
		return nil, fail(statusUsage, "--rank-from %w", err)
	}
	return &ranks{by: by}, nil
}

// rankOf returns the rank of a space, "" where nothing tells it.
func (r *ranks) rankOf(c *lifetime.Capture, s *lifetime.Space) string {
	return r.by.Of(s.Process, c.Sources[s.Source].File)
}

// add takes a capture and what was found in it.
func (r *ranks) add(c *lifetime.Capture, found []leak.Finding) {
	r.figures = append(r.figures, leak.FiguresOf(c, found, func(s *lifetime.Space) string {
		rank := r.rankOf(c, s)
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
			r.addLeak(f.Rule+" "+c.PlaceOf(f.Place()).String(), r.rankOf(c, f.Space), f)
		}
	}
}

func (r *ranks) addLeak(what, rank string, f *leak.Finding) {
	i := slices.IndexFunc(r.leaks, func(l rankLeak) bool { return l.What == what })
	if i < 0 {
		i = len(r.leaks)
		r.leaks = append(r.leaks, rankLeak{RankLeak: report.RankLeak{What: what}})
	}
	l := &r.leaks[i]
	if !slices.Contains(l.Ranks, rank) {
		l.Ranks = append(l.Ranks, rank)
	}
	l.perStep = append(l.perStep, f.BytesPerStep)
	l.Bytes = lifetime.AddSat(l.Bytes, f.Amount.Bytes)
}

// known reports whether several ranks were added, and every capture told its own.
func (r *ranks) known() bool { return !r.unknown && len(r.names) > 1 }

func (r *ranks) rows() (rows []report.RankRow) {
	if !r.known() {
		return nil
	}
	for _, name := range r.names {
		row := report.RankRow{Rank: name}
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

const (
	// manyRanks is from how many ranks on a table says more than a line.
	manyRanks = 4
	// maxRanks is how many ranks a table for people has.
	maxRanks = 32
)

// print says which rank of several has the highest peak and which the lowest; of
// many, it lists them all, what differs, and which leak how many have.
func (r *ranks) print(w io.Writer) {
	rows := r.rows()
	if rows == nil {
		return
	}
	most, least := rows[0], rows[0]
	var peaks []float64
	for _, row := range rows {
		if row.Peak > most.Peak {
			most = row
		}
		if row.Peak < least.Peak {
			least = row
		}
		peaks = append(peaks, float64(row.Peak))
	}
	where := fmt.Sprintf("on %s, least %s on %s", most.Rank, units.Bytes(least.Peak), least.Rank)
	if most.Peak == least.Peak {
		where = "on each"
	}
	fmt.Fprintf(w, "\n%d ranks: peak %s %s\n", len(rows), units.Bytes(most.Peak), printable(where))
	if len(rows) < manyRanks {
		return
	}
	middle, deviation := leak.Spread(peaks)
	fmt.Fprintf(w, "median %s, median deviation %s\n", units.Bytes(int64(middle)), units.Bytes(int64(deviation)))
	printRankRows(w, rows)
	for _, l := range r.leaks {
		l.BytesPerStep, _ = leak.Spread(l.perStep)
		fmt.Fprintf(w, "\n%s\n", wrap(l.String(r.names), "  "))
	}
	for _, f := range leak.CompareRanks(r.figures) {
		fmt.Fprintf(w, "\n%s  %s\n  %s\n", paint(w, f.Severity), f.Rule, wrap(f.Description, "  "))
	}
}

func printRankRows(w io.Writer, rows []report.RankRow) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tpeak\tat the end\tleaked\t\n")
	for i, row := range rows {
		if i == maxRanks {
			fmt.Fprintf(t, "%s (--json has them all)\t\t\t\t\n", count(len(rows)-i, "more rank"))
			break
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", printable(row.Rank), units.Bytes(row.Peak), units.Bytes(row.End), units.Bytes(row.Leaked))
	}
	t.Flush()
}

// odd returns the findings about ranks that differ; none by the rules of others, or
// of a function alone.
func (r *ranks) odd(by *rules) []leak.Finding {
	if !r.known() || by.preset != nil || by.settings.Function != nil {
		return nil
	}
	return leak.CompareRanks(r.figures)
}

// held is output that waits until all captures are read: what fails prints nothing.
type held struct {
	bytes.Buffer
	of io.Writer // where it goes
}
