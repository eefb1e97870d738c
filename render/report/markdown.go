package report

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/text"
)

const (
	maxDetails = 20 // maximum number of findings with details
	topSites   = 5  // maximum number of sites at a peak
)

// WriteMarkdown writes the report for a pull request or an issue: what to do, then
// figures and findings, with links to the lines of the repository.
func WriteMarkdown(w io.Writer, r *answer.Report, in Repository) error {
	m := &markdown{in: in, files: in.files(All(r.OfCaptures()))}
	m.line("# Memory report\n")
	verdict := text.Verdict(r)
	for i := range verdict {
		verdict[i] = Escape(verdict[i])
	}
	verdict[0] = "**" + verdict[0] + "**"
	m.line("%s", strings.Join(verdict, " · "))
	if m.ooms(r); len(r.OOMs) == 0 && r.Grade == "" {
		m.line("\n%s", Escape(text.Do(r)))
	}
	m.memory(r)
	m.ranks(r.RankInfo)
	m.findings(r)
	m.peaks(r)
	m.losses(r)
	_, err := io.WriteString(w, m.text.String())
	return err
}

// markdown collects text.
type markdown struct {
	text  strings.Builder
	in    Repository
	files map[string]string // of the repository, by the recorded path
}

func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(&m.text, format+"\n", args...)
}

// Escape escapes a text of a capture so that it is neither Markdown nor HTML and does not
// break a table, and shortens long names. Code hosts look for mentions and references after they remove the
// backslashes, so these also get a zero-width space.
func Escape(s string) string {
	s = text.Printable(text.Bounded(strings.TrimSpace(breaks.Replace(s))))
	var b strings.Builder
	if at := listItem.FindStringIndex(s); at != nil { // s may begin a paragraph
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
	noLinks  = strings.NewReplacer("://", ":&#47;/", "www.", "www&#46;", "WWW.", "WWW&#46;") // against automatic links
)

// maxFailures is the maximum number of failed allocations.
const maxFailures = 3

// ooms writes why allocations failed.
func (m *markdown) ooms(r *answer.Report) {
	if len(r.OOMs) == 0 {
		return
	}
	m.line("\n## Why it died\n")
	for i := range r.OOMs[:min(len(r.OOMs), maxFailures)] {
		f := &r.OOMs[i]
		m.line("%s\n", Escape(text.FailureHead(f)))
		for _, l := range text.FailureLines(f) {
			m.line("- **%s** %s", l.Label, Escape(l.Text))
		}
		m.line("")
	}
	if n := len(r.OOMs) - maxFailures; n > 0 {
		m.line("and %s\n", units.Plural(n, "more failure"))
	}
}

func (m *markdown) memory(r *answer.Report) {
	m.line("\n## Memory\n")
	m.line("| capture | memory ID | recording | peak | at the end | reserved |\n|---|---|--:|--:|--:|--:|")
	for _, c := range r.Captures {
		for _, s := range c.Info.Spaces {
			reserved := ""
			if s.ReservedPeakBytes != nil && *s.ReservedPeakBytes > 0 {
				reserved = units.Bytes(*s.ReservedPeakBytes)
			}
			m.line("| %s | %s | %s | %s | %s | %s |", Escape(s.File), Escape(s.ID), units.Span(s.End-s.Begin, s.Unit),
				units.Bytes(s.Peak.Bytes), units.Bytes(s.EndBytes), reserved)
		}
	}
}

// ranks writes a row for each rank, and the spread of their peaks.
func (m *markdown) ranks(r *answer.RankSummary) {
	if r == nil {
		return
	}
	m.line("\n## Ranks\n")
	m.line("| rank | peak | at the end | leaked |\n|---|--:|--:|--:|")
	for _, row := range r.Rows {
		m.line("| %s | %s | %s | %s |", Escape(row.Rank), units.Bytes(row.Peak), units.Bytes(row.End), units.Bytes(*row.Leaked))
	}
	m.line("\nThe median peak is %s, the median deviation %s.", units.Bytes(r.Median), units.Bytes(r.Deviation))
}

func (m *markdown) findings(r *answer.Report) {
	found := r.OfCaptures()
	if len(found) == 0 { // the first line says so
		return
	}
	m.line("\n## Findings\n")
	m.line("| severity | rule | memory ID | where | bytes | per step | confidence |\n|---|---|---|---|--:|--:|--:|")
	for i := range found {
		f, step, confidence := &found[i], "", "recorded"
		if f.Confidence < 1 {
			confidence = fmt.Sprintf("%.0f %%", 100*f.Confidence)
		}
		if f.BytesPerStep != nil {
			step = units.Bytes(*f.BytesPerStep)
		}
		m.line("| %s | %s | %s | %s | %s | %s | %s |", f.Severity, f.Rule, Escape(f.Space),
			Escape(cmp.Or(f.Name, "(the whole memory)")), units.Bytes(f.Bytes), step, confidence)
	}
	for i := range found[:min(len(found), maxDetails)] {
		f := &found[i]
		if f.Failure && len(r.OOMs) > 0 { // it stands above
			continue
		}
		m.line("\n### %s\n", Escape(strings.TrimSuffix(f.Rule+": "+f.Name, ": ")))
		m.line("%s.", Escape(f.Description))
		if link := m.link(f); link != "" {
			m.line("\nLine: %s", link)
		}
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
	if n := len(found) - maxDetails; n > 0 {
		m.line("\n%d more findings are only in the table.", n)
	}
}

// link returns the line of a finding in the repository, as a link if the address of its files is known; "" without a line there.
func (m *markdown) link(f *answer.Finding) string {
	file := m.files[f.Code.File]
	if file == "" {
		return ""
	}
	place := Escape(fmt.Sprintf("%s:%d", file, f.Code.Line))
	if m.in.Web == "" {
		return place
	}
	u := url.URL{Path: file}
	return fmt.Sprintf("[%s](<%s/%s#L%d>)", place, m.in.Web, u.EscapedPath(), f.Code.Line)
}

// stack writes the frames of a stack, innermost first, folded.
func (m *markdown) stack(frames []answer.Frame) {
	shown, hidden := answer.Fold(frames)
	var names []string
	for _, f := range shown {
		names = append(names, Escape(f.String()))
	}
	if len(names) < 2 {
		return
	}
	more := map[bool]string{true: " + " + units.Plural(hidden, "library frame")}[hidden > 0]
	m.line("\nStack: %s%s", strings.Join(names, " ← "), more)
}

// peaks writes the largest sites at the peak of every space. Of compiled programs, the
// report has only the one with the highest peak.
func (m *markdown) peaks(r *answer.Report) {
	m.line("\n## Peak by call site")
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
	if len(k.Categories) > 0 && k.Program == nil {
		m.line("%s\n", Escape("by category: "+text.PartsText(k.Parts)))
	}
	m.line("| bytes | share | allocated by |\n|--:|--:|---|")
	for i, o := range k.Places {
		if i == topSites {
			m.line("| | | and %s more |", units.Count(int64(len(k.Places)-i)))
			break
		}
		m.line("| %s | %.1f %% | %s |", units.Bytes(o.Bytes), 100*float64(o.Bytes)/float64(k.Bytes), Escape(o.Name))
	}
}

// losses writes the warnings about the captures.
func (m *markdown) losses(r *answer.Report) {
	var lines []string
	for _, c := range r.Captures {
		for i := range c.Info.Losses {
			lines = append(lines, "- "+Escape(text.LossText(&c.Info.Losses[i])))
		}
	}
	if lines != nil {
		m.line("\n## Warnings\n\n%s", strings.Join(lines, "\n"))
	}
}

// WriteTune writes settings of PyTorch's allocator as Markdown, for a pull request.
func WriteTune(w io.Writer, a *answer.Tune) error {
	m := &markdown{}
	m.line("# Settings of PyTorch's allocator\n")
	for _, r := range a.Refused {
		m.line("- %s: cannot predict: %s", Escape(r.ID), Escape(r.Why))
	}
	if len(a.Settings) > 0 {
		verdict, reason := a.Verdict()
		m.line("**%s**\n\n%s. replay: %s.", Escape(verdict), Escape(reason), a.Replay.Text())
		if a.Capacity > 0 {
			m.line("Capacity: %s.", units.Bytes(a.Capacity))
		}
		m.settings(a.Settings)
	}
	for i := range a.Captures {
		c := &a.Captures[i]
		m.line("\n## %s, %s\n\nreplay: %s.", Escape(c.File), Escape(c.ID), c.Replay.Text())
		m.settings(c.Settings)
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}

func (m *markdown) settings(all []answer.TuneSetting) {
	m.line("\n| settings | reserved | live | slack | segments | retries | result |\n|---|--:|--:|--:|--:|--:|---|")
	for i := range all {
		s := &all[i]
		name := Escape(s.Conf) + map[bool]string{true: " (recorded)"}[s.Recorded]
		m.line("| %s | %s | %s | %s | %s | %s | %s |", name, units.Bytes(s.PeakReservedBytes), units.Bytes(s.PeakLiveBytes),
			units.Bytes(s.PeakReservedBytes-s.ReplayedBytes), units.Count(int64(s.SegmentsAtEnd)), units.Count(int64(s.Retries)), s.Result())
	}
}
