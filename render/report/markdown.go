package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/text"
)

const (
	maxDetails = 20 // findings with all that is known of them
	topSites   = 5  // of the peak
)

// WriteMarkdown writes the report for a pull request or an issue: what to do
// first, then findings and figures.
func WriteMarkdown(w io.Writer, r *answer.Report) error {
	m := &markdown{}
	m.line("# Memory report")
	m.line("")
	m.line("**%s** · %d of 100 · %s · %s", r.Score.Grade, r.Score.Score.Score, r.Score.Description, r.Counts)
	m.first(r)
	m.memory(r)
	m.ranks(r.RankInfo)
	m.findings(r)
	m.peaks(r)
	m.losses(r)
	_, err := io.WriteString(w, m.text.String())
	return err
}

// markdown collects text.
type markdown struct{ text strings.Builder }

func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(&m.text, format+"\n", args...)
}

// Escape keeps the texts of a capture from being taken for Markdown or HTML, or
// from breaking a table. Code hosts look for mentions and references in the text
// that Markdown stands for, where a backslash is gone: a space of no width keeps
// them apart there.
func Escape(s string) string {
	s = text.Printable(strings.TrimSpace(breaks.Replace(s)))
	var b strings.Builder
	if at := listItem.FindStringIndex(s); at != nil { // a paragraph may begin with it
		b.WriteString(s[:at[1]-1] + `\`)
		b.WriteString(s[at[1]-1 : at[1]])
		s = s[at[1]:]
	}
	for _, r := range s {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '@' || r == '#':
			b.WriteByte('\\')
			b.WriteRune(r)
			b.WriteString("&#8203;")
		case strings.ContainsRune("\\`*_[]|~!$", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return noLinks.Replace(b.String())
}

var (
	breaks   = strings.NewReplacer("\n", " ", "\t", " ")
	listItem = regexp.MustCompile(`^([-+=]|[0-9]+[.)])`)
	noLinks  = strings.NewReplacer("://", ":&#47;/", "www.", "www&#46;", "WWW.", "WWW&#46;") // that nobody meant
)

func (m *markdown) first(r *answer.Report) {
	for i, f := range r.First {
		if i == 0 {
			m.line("\n## Do first\n")
		}
		m.line("%d. **%s** (%s): %s", i+1, f.Rule, f.Severity, Escape(f.Description))
		if len(f.Suggestions) > 0 {
			m.line("   %s", Escape(f.Suggestions[0]))
		}
	}
}

func (m *markdown) memory(r *answer.Report) {
	m.line("\n## Memory\n")
	m.line("| capture | memory ID | window | peak | at the end | reserved |")
	m.line("|---|---|--:|--:|--:|--:|")
	for _, c := range r.Captures {
		for _, s := range c.Info.Spaces {
			reserved := ""
			if s.ReservedPeakBytes != nil && *s.ReservedPeakBytes > 0 {
				reserved = units.Bytes(*s.ReservedPeakBytes)
			}
			m.line("| %s | %s | %s | %s | %s | %s |", Escape(s.File), Escape(s.ID), units.Span(s.End-s.Begin, s.Unit), units.Bytes(s.Peak.Bytes),
				units.Bytes(s.EndBytes), reserved)
		}
	}
}

// ranks writes a row for each rank, and how far their peaks lie apart.
func (m *markdown) ranks(r *answer.RankSummary) {
	if r == nil {
		return
	}
	m.line("\n## Ranks\n")
	m.line("| rank | peak | at the end | leaked |\n|---|--:|--:|--:|")
	for _, row := range r.Rows {
		m.line("| %s | %s | %s | %s |", Escape(row.Rank), units.Bytes(row.Peak), units.Bytes(row.End), units.Bytes(row.Leaked))
	}
	m.line("\nThe median of the peaks is %s, their median deviation %s.", units.Bytes(r.Median), units.Bytes(r.Deviation))
}

func (m *markdown) findings(r *answer.Report) {
	m.line("\n## Findings\n")
	of := r.OfCaptures()
	if len(of) == 0 {
		m.line("%s", r.None())
		return
	}
	m.line("| severity | rule | memory ID | where | bytes | per step | confidence |")
	m.line("|---|---|---|---|--:|--:|--:|")
	for i := range of {
		f, step := &of[i], ""
		if f.BytesPerStep != nil {
			step = units.Bytes(*f.BytesPerStep)
		}
		m.line("| %s | %s | %s | %s | %s | %s | %.0f %% |", f.Severity, f.Rule, Escape(f.Space), Escape(cmp.Or(f.Name, "(the whole memory)")), units.Bytes(f.Bytes), step, 100*f.Confidence)
	}
	for i := range of[:min(len(of), maxDetails)] {
		f := &of[i]
		m.line("\n### %s\n", Escape(strings.TrimSuffix(f.Rule+": "+f.Name, ": ")))
		m.line("%s.", Escape(f.Description))
		if len(f.Suggestions) > 0 {
			m.line("")
		}
		for _, s := range f.Suggestions {
			m.line("- %s", Escape(s))
		}
		m.stack(f.Site.Stack)
	}
	for _, f := range r.Outliers {
		m.line("\n### %s\n\n%s.", Escape(f.Rule), Escape(f.Description))
	}
	if n := len(of) - maxDetails; n > 0 {
		m.line("\n%d further findings are in the table alone.", n)
	}
}

// stack writes the program's own frames, innermost first.
func (m *markdown) stack(frames []answer.Frame) {
	var names []string
	for _, f := range frames {
		if f.Kind == lifetime.User {
			names = append(names, Escape(f.String()))
		}
	}
	if len(names) > 1 {
		m.line("\nStack: %s", strings.Join(names, " ← "))
	}
}

// peaks writes what makes up the peak of every space; of compiled programs, of
// the one that needs most.
func (m *markdown) peaks(r *answer.Report) {
	m.line("\n## What makes up the peak")
	for _, c := range r.Captures {
		for i := range c.Peaks {
			m.peak(&c.Peaks[i])
		}
	}
}

func (m *markdown) peak(k *answer.Peak) {
	if k.Bytes == 0 {
		return
	}
	m.line("\n%s, %s:\n", Escape(k.Space), units.Exact(k.Bytes))
	m.line("| bytes | share | allocated by |")
	m.line("|--:|--:|---|")
	for i, o := range k.Places {
		if i == topSites {
			m.line("| | | and %s more |", units.Count(int64(len(k.Places)-i)))
			break
		}
		m.line("| %s | %.1f %% | %s |", units.Bytes(o.Bytes), 100*float64(o.Bytes)/float64(k.Bytes), Escape(o.Name))
	}
}

// losses writes what the captures lack.
func (m *markdown) losses(r *answer.Report) {
	title := "\n## Warnings\n"
	for _, c := range r.Captures {
		for _, l := range c.Info.Losses {
			if title != "" {
				m.line("%s", title)
				title = ""
			}
			m.line("- %s", Escape(l.Line))
		}
	}
}
