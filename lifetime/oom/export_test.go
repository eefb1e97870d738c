package oom

import (
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// Count is how often a reason was right, by the kind of evidence.
type Count = measure

var (
	Measured     = measured
	ConfidenceOf = confidenceOf
)

func (d *Diagnosis) Count() Count { return Count{d.evidence(), d.Reason} }

func (c measure) From() string   { return c.from }
func (c measure) Reason() Reason { return c.why }

// Rows returns a name of each row.
func Rows() (names []string) {
	for i, r := range rows {
		names = append(names, fmt.Sprintf("row %d: %s %s %q %q", i, r.from, r.reason, r.words, r.advice))
	}
	return names
}

// Without calls f while a row is missing.
func Without(row int, f func()) {
	all := rows
	defer func() { rows = all }()
	rows = append(slices.Delete(slices.Clone(all), row, row+1), rows[len(all)-1])
	if row == len(all)-1 {
		rows[row].reason = Unknown
	}
	f()
}

// Judge returns the reason, words and advice of each failure by the rows alone, without a replay and leaks.
func Judge(c *lifetime.Capture) (all []string) {
	for _, s := range c.Spaces {
		survived := Survivors(s)
		for i := range s.Marks {
			if s.Marks[i].Kind == lifetime.OOM {
				d := Diagnosis{Space: s, Mark: &s.Marks[i]}
				d.judge(&c.Tables, s, survived(d.Mark))
				all = append(all, fmt.Sprintf("%s: %s. %s", d.Reason, d.Words, d.Advice))
			}
		}
	}
	return all
}
