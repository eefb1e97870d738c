package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

const (
	toDo       = 3  // things to do first
	maxDetails = 20 // findings with all that is known of them
	topSites   = 5  // of the peak
)

// WriteMarkdown writes the report for a pull request or an issue: what to do
// first, then findings and figures.
func WriteMarkdown(w io.Writer, d *Data) error {
	m := &markdown{}
	s := d.Report.OptimizationScore
	m.line("# Memory report")
	m.line("")
	m.line("**%s** · %d of 100 · %s · %s", s.Grade, s.Score, s.Description, d.Counts())
	m.first(d)
	m.memory(d)
	m.ranks(d)
	m.findings(d)
	m.peaks(d)
	m.losses(d)
	_, err := io.WriteString(w, m.text.String())
	return err
}

// Counts says how many findings there are: "1 critical, 2 warnings, 3 worth
// knowing".
func (d *Data) Counts() string {
	var n [3]int
	for _, found := range d.Findings {
		for _, f := range found {
			n[f.Severity]++
		}
	}
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{{n[leak.Critical], "critical", "critical"}, {n[leak.Warning], "warning", "warnings"}, {n[leak.Info], "worth knowing", "worth knowing"}} {
		if p.n == 1 {
			parts = append(parts, "1 "+p.one)
		} else if p.n > 1 {
			parts = append(parts, units.Count(int64(p.n))+" "+p.many)
		}
	}
	if parts == nil && !d.judged() {
		return "leaks cannot be told: no history of allocations and frees"
	}
	if parts == nil {
		return "no finding"
	}
	return strings.Join(parts, ", ")
}

// judged reports whether any memory has what leaks can be told by, or is of a
// compiled program; the calls and samples of other profilers count as well.
func (d *Data) judged() bool {
	for _, c := range d.Captures {
		if len(c.Spaces) == 0 || len(c.Calls)+len(c.Samples) > 0 {
			return true
		}
		for _, s := range c.Spaces {
			if s.Axis == lifetime.ProgramOrder || s.Facts&lifetime.History != 0 {
				return true
			}
		}
	}
	return false
}

// none says why there are no findings.
func (d *Data) none() string {
	if !d.judged() {
		return "None: without a history of allocations and frees leaks cannot be told."
	}
	return "None: nothing leaks, and nothing else stands out."
}

// markdown collects text.
type markdown struct{ text strings.Builder }

func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(&m.text, format+"\n", args...)
}

// escape keeps the texts of a capture from being taken for Markdown or HTML, or
// from breaking a table. Code hosts look for mentions and references in the text
// that Markdown stands for, where a backslash is gone: a space of no width keeps
// them apart there.
func escape(s string) string {
	s = Printable(strings.TrimSpace(breaks.Replace(s)))
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

func (m *markdown) first(d *Data) {
	first := d.First(toDo)
	if len(first) == 0 {
		return
	}
	m.line("\n## Do first\n")
	for i, f := range first {
		m.line("%d. **%s** (%s): %s", i+1, f.Rule, f.Severity, escape(f.Description))
		if len(f.Suggestions) > 0 {
			m.line("   %s", escape(f.Suggestions[0]))
		}
	}
}

func (m *markdown) memory(d *Data) {
	m.line("\n## Memory\n")
	m.line("| capture | memory ID | window | peak | at the end | reserved |")
	m.line("|---|---|--:|--:|--:|--:|")
	for _, c := range d.Captures {
		for _, s := range c.Spaces {
			reserved := ""
			if _, peak := s.Reserved(); peak > 0 {
				reserved = units.Bytes(peak)
			}
			m.line("| %s | %s | %s | %s | %s | %s |", escape(c.Sources[s.Source].File), escape(s.ID()), units.Span(s.End-s.Begin, s.Axis.Unit()),
				units.Bytes(s.Peak(lifetime.Occupied).Bytes), units.Bytes(s.LevelAt(s.End, lifetime.Occupied)), reserved)
		}
	}
}

// ranks writes a row for each rank, and how far their peaks lie apart.
func (m *markdown) ranks(d *Data) {
	if len(d.Ranks) == 0 {
		return
	}
	var peaks []float64
	m.line("\n## Ranks\n")
	m.line("| rank | peak | at the end | leaked |\n|---|--:|--:|--:|")
	for _, r := range d.Ranks {
		peaks = append(peaks, float64(r.Peak))
		m.line("| %s | %s | %s | %s |", escape(r.Rank), units.Bytes(r.Peak), units.Bytes(r.End), units.Bytes(r.Leaked))
	}
	middle, deviation := leak.Spread(peaks)
	m.line("\nThe median of the peaks is %s, their median deviation %s.", units.Bytes(int64(middle)), units.Bytes(int64(deviation)))
}

func (m *markdown) findings(d *Data) {
	m.line("\n## Findings\n")
	n := 0
	for _, found := range d.Findings {
		n += len(found)
	}
	if n == 0 {
		m.line("%s", d.none())
		return
	}
	m.line("| severity | rule | memory ID | where | bytes | a step | confidence |")
	m.line("|---|---|---|---|--:|--:|--:|")
	for i, found := range d.Findings {
		for _, f := range found {
			step := ""
			if f.BytesPerStep > 0 {
				step = units.Bytes(int64(math.Round(f.BytesPerStep)))
			}
			m.line("| %s | %s | %s | %s | %s | %s | %.0f %% |", f.Severity, f.Rule, escape(f.Space.ID()), escape(where(d.Captures[i], &f)),
				units.Bytes(f.Amount.Bytes), step, 100*f.Confidence)
		}
	}
	details := 0
	for i, found := range d.Findings {
		for _, f := range found {
			if details++; details > maxDetails {
				continue
			}
			m.line("\n### %s: %s\n", f.Rule, escape(where(d.Captures[i], &f)))
			m.line("%s.", escape(f.Description))
			if len(f.Suggestions) > 0 {
				m.line("")
			}
			for _, s := range f.Suggestions {
				m.line("- %s", escape(s))
			}
			m.stack(d.Captures[i], f.Place())
		}
	}
	for _, f := range d.Odd {
		m.line("\n### %s\n\n%s.", f.Rule, escape(f.Description))
	}
	if details > maxDetails {
		m.line("\n%d further findings are in the table alone.", details-maxDetails)
	}
}

// where names the place of a finding.
func where(c *lifetime.Capture, f *leak.Finding) string {
	if len(f.Sites) == 0 {
		return "all of it"
	}
	return siteName(c, f.Sites[0])
}

func siteName(c *lifetime.Capture, site lifetime.SiteID) string {
	if f, ok := c.UserFrame(site); ok {
		return strings.TrimSpace(f.Function + " " + f.Place())
	}
	s := &c.Sites[site]
	return cmp.Or(strings.TrimSpace(s.Op+" "+s.Shape), s.Instr, "no stack recorded")
}

// stack writes the program's own frames, leaf first.
func (m *markdown) stack(c *lifetime.Capture, site lifetime.SiteID) {
	var frames []string
	for f := range c.FramesOf(c.Sites[site].Stack) {
		if f.Kind == lifetime.User {
			frames = append(frames, escape(strings.TrimSpace(f.Function+" "+f.Place())))
		}
	}
	if len(frames) > 1 {
		m.line("\nStack: %s", strings.Join(frames, " ← "))
	}
}

// peaks writes what makes up the peak of every space; of compiled programs, of
// the one that needs most.
func (m *markdown) peaks(d *Data) {
	m.line("\n## What makes up the peak")
	for _, c := range d.Captures {
		var program *lifetime.Space // the largest
		most := int64(0)
		for _, s := range c.Spaces {
			if s.Axis != lifetime.ProgramOrder {
				m.peak(c, s)
			} else if peak := s.Peak(lifetime.Occupied).Bytes; program == nil || peak > most {
				program, most = s, peak
			}
		}
		if program != nil {
			m.peak(c, program)
		}
	}
}

// share of a peak by name.
type peakShare struct {
	name  string
	bytes int64
}

func (m *markdown) peak(c *lifetime.Capture, s *lifetime.Space) {
	peak := s.Peak(lifetime.Occupied)
	if peak.Bytes == 0 {
		return
	}
	var rows []peakShare
	index := map[string]int{}
	for _, row := range s.Breakdown(peak.At) {
		name := siteName(c, row.Site)
		switch {
		case row.Kind == lifetime.FromBase:
			name = "before the window"
		case row.Kind == lifetime.FromStack:
			name = "stack"
		case row.Kind == lifetime.FromUsage:
			name = "usage: who held it is not known"
		}
		i, ok := index[name]
		if !ok {
			i = len(rows)
			index[name] = i
			rows = append(rows, peakShare{name: name})
		}
		rows[i].bytes = lifetime.AddSat(rows[i].bytes, row.Bytes)
	}
	slices.SortStableFunc(rows, func(x, y peakShare) int { return cmp.Compare(y.bytes, x.bytes) })
	m.line("\n%s, %s:\n", escape(s.ID()), units.Exact(peak.Bytes))
	m.line("| bytes | share | allocated by |")
	m.line("|--:|--:|---|")
	for i, row := range rows {
		if i == topSites {
			m.line("| | | and %s more |", units.Count(int64(len(rows)-i)))
			break
		}
		m.line("| %s | %.1f %% | %s |", units.Bytes(row.bytes), 100*float64(row.bytes)/float64(peak.Bytes), escape(row.name))
	}
}

// losses writes what the captures lack.
func (m *markdown) losses(d *Data) {
	title := "\n## Worth knowing of the captures\n"
	for _, c := range d.Captures {
		for _, l := range c.Losses {
			if title != "" {
				m.line("%s", title)
				title = ""
			}
			m.line("- %s", escape(l.String()))
		}
	}
}
