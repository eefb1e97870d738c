package text

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/oom"
)

// Leaks writes the findings of captures: with all, every finding, also those with one cause.
func Leaks(w io.Writer, a *answer.Leaks, all bool, s Style) error {
	p := NewPage(s)
	p.failuresFirst(a.OOMs)
	if a.Summary != nil && len(a.Summary.Rows) >= manyRanks && len(a.Functions) == 0 {
		p.rankedLeaks(a)
		return p.To(w)
	}
	p.series(a, all) // first: a capture alone often cannot be judged
	for i := range a.Captures {
		if a.Judged > 0 && len(a.Captures[i].Findings)+len(a.Captures[i].Functions) == 0 {
			continue
		}
		if i > 0 || len(a.Series) > 0 {
			p.Line("")
		}
		p.leaks(&a.Captures[i], all)
	}
	p.ranks(a.Summary)
	return p.To(w)
}

// series writes the call sites that grow over several captures.
func (p *Page) series(a *answer.Leaks, each bool) {
	all := a.Series
	switch {
	case len(all) > 0:
		p.Line("over %d captures, in the given order, these grow from each to the next:", len(all[0].Bytes))
	case a.Judged > 0: // executables may grow
		p.Line("%s over %d captures", map[bool]string{true: "nothing grows", false: "no call site grows"}[len(a.Findings) == 0], a.Judged)
	}
	for i := range all {
		if i == maxShown && !each {
			p.Line("  and %s: --all", more(len(all)-i, "call site"))
			break
		}
		g := &all[i]
		sizes := make([]string, len(g.Bytes))
		for k, n := range g.Bytes {
			sizes[k] = units.Bytes(n)
		}
		p.Para("  ", "    ", fmt.Sprintf("%s on %s: %s", Printable(g.Site), Printable(g.Space), strings.Join(sizes, " -> ")))
	}
	if len(all) > 0 {
		p.Para("  ", "  ", "This is a leak if the captures are from equal moments of the run, such as the end of an epoch.")
	}
	p.seriesFindings(a.Findings)
}

// seriesFindings writes the findings about several captures of one run.
func (p *Page) seriesFindings(all []answer.Finding) {
	for i := range all {
		if all[i].Rule == "series" {
			p.finding(&all[i])
			p.advise(&all[i], map[string]bool{})
		}
	}
}

// rankedLeaks writes the findings of many ranks: each once, with the ranks that have it.
func (p *Page) rankedLeaks(a *answer.Leaks) {
	p.Line("%s: %s", units.Plural(len(a.Captures), "capture"),
		units.Plural(len(a.Summary.Groups)+len(a.Summary.Outliers), "different finding"))
	notes := map[string]bool{}
	for i := range a.Captures {
		for _, note := range a.Captures[i].Notes {
			if !notes[note] {
				p.Para("  ", "  ", note)
			}
			notes[note] = true
		}
	}
	p.compareRanks(a.Summary)
	for i := range a.Summary.Groups[:min(len(a.Summary.Groups), maxFindings)] {
		g := &a.Summary.Groups[i]
		p.finding(g.Finding)
		p.Para("  ", "  ", g.Ranks+"; shown is "+path.Base(g.File))
		p.advise(g.Finding, map[string]bool{})
	}
	if n := len(a.Summary.Groups) - maxFindings; n > 0 {
		p.Line("\nand %s", more(n, "finding"))
	}
	p.outliers(a.Summary)
}

const (
	maxFindings = 20 // of many ranks
	maxShown    = 5  // findings of a capture, the worst first
	maxSame     = 3  // further call sites with the cause of a finding
)

// oneOfEachCause returns the findings without those that a change for an earlier one may fix too.
func oneOfEachCause(all []answer.Finding) (first []answer.Finding) {
	for i := range all {
		if !slices.ContainsFunc(first, func(f answer.Finding) bool { return oneCause(&f, &all[i]) }) {
			first = append(first, all[i])
		}
	}
	return first
}

// sameCause names the other findings with the cause of one.
func (p *Page) sameCause(f *answer.Finding, all []answer.Finding) {
	var same []string
	for i := range all {
		if o := &all[i]; o.Name != f.Name && oneCause(f, o) {
			same = append(same, fmt.Sprintf("%s %s", Printable(o.Name), units.Bytes(o.Bytes)))
		}
	}
	if rest := len(same) - maxSame; rest > 0 {
		same = append(same[:maxSame], fmt.Sprintf("%d more", rest))
	}
	if len(same) > 0 {
		p.Para("  ", "  ", "same cause: "+strings.Join(same, "; "))
	}
}

func (p *Page) leaks(l *answer.CaptureLeaks, all bool) {
	p.Line("%s: %s", Printable(l.File), l.Verdict)
	for _, note := range l.Notes {
		p.Para("  ", "  ", note)
	}
	advised := map[string]bool{}                                                                                       // suggestions that were already written
	shown := slices.DeleteFunc(slices.Clone(l.Findings), func(f answer.Finding) bool { return f.Failure && p.failed }) // those stand above
	if !all {
		shown = oneOfEachCause(shown)
	}
	for i := range shown {
		f := &shown[i]
		if i == maxShown && !all {
			p.Line("\nand %s: --all", more(len(shown)-i, "finding"))
			break
		}
		p.finding(f)
		if !all {
			p.sameCause(f, l.Findings)
		}
		p.advise(f, advised)
	}
	without := Without(l)
	for i := range without {
		p.Line("")
		p.Para("", "  ", WithoutLeaks(&without[i]))
	}
	for i := range l.Functions {
		p.function(&l.Functions[i])
	}
}

// advise writes the suggestions of a finding that were not written before.
func (p *Page) advise(f *answer.Finding, before map[string]bool) {
	for _, s := range f.Suggestions {
		if !before[s] {
			p.Para("  > ", "    ", s)
		}
		before[s] = true
	}
}

// Without returns the peaks without leaks, unless a failure says what would have been in use.
func Without(l *answer.CaptureLeaks) []answer.WithoutLeaks {
	if slices.ContainsFunc(l.OOMs, func(f answer.Failure) bool { return f.Reason == string(oom.Leak) }) {
		return nil
	}
	return l.Without
}

// WithoutLeaks says what the peak would be.
func WithoutLeaks(w *answer.WithoutLeaks) string {
	return fmt.Sprintf("without these leaks, the peak of %s would be %s, not %s", Printable(w.Space),
		Between(w.LowBytes, w.HighBytes), units.Bytes(w.PeakBytes)) + map[bool]string{true: ", " + answer.Scope}[w.Unfinished]
}

func (p *Page) finding(f *answer.Finding) {
	head := fmt.Sprintf("  %s%s  ", f.Rule, confident(f.Confidence))
	where := Printable(f.Space)
	if f.Name != "" {
		where = Printable(f.Name) + " on " + where
	}
	p.Line("")
	p.Para(p.severity(f.Level())+head, "         ", where)
	p.Para("  ", "  ", f.WithoutPlace())
	if f.Instruction != nil {
		p.compiled(f)
	}
	for i := range f.Stacks {
		if i == maxStacks {
			p.Line("  and %s", more(len(f.Stacks)-i, "stack"))
			break
		}
		if len(f.Stacks) > 1 && !f.Stacks[i].None {
			p.Line("  stack %d of %d", i+1, len(f.Stacks))
		}
		p.stack(&f.Stacks[i])
	}
}

const (
	maxStacks = 3
	maxFrames = 8
)

// compiled writes the instruction of a finding in a compiled program, and the calls of its source.
func (p *Page) compiled(f *answer.Finding) {
	if text := instruction(*f.Instruction, p.width-4); text != "" {
		p.Line("    %s", text)
	}
	user := slices.DeleteFunc(slices.Clone(f.Site.Source), func(caller answer.Frame) bool { return caller.Kind != frame.User })
	for _, frame := range user[:min(len(user), maxFrames)] {
		p.Line("    at %s", shorten.Name(Printable(frame.String()), p.width-7))
	}
	if f.MoreInstructions > 0 {
		p.Line("    and %s", units.Plural(f.MoreInstructions, "more instruction"))
	}
}

// stack writes the frames of a call stack, folded. The operator comes first if the stack does not begin with it.
func (p *Page) stack(s *answer.Stack) {
	if s.Op != "" {
		p.Line("    in %s", shorten.Name(Printable(s.Op), p.width-7))
	}
	shown, hidden := answer.Fold(s.Frames)
	if more := len(shown) - maxFrames; more > 0 {
		shown, hidden = shown[:maxFrames], hidden+more
	}
	for _, f := range shown {
		p.Line("    at %s", shorten.Name(Printable(f.String()), p.width-7))
	}
	if hidden > 0 {
		p.Line("    + %s (libraries and outer callers)", units.Plural(hidden, "frame"))
	}
}

// maxChanges is the maximum number of steps in a table: the first and the last ones.
const maxChanges = 12

// function writes the changes in each step by the functions that the user selected.
func (p *Page) function(f *answer.Function) {
	total := int64(0)
	for _, c := range f.Steps {
		total = units.AddSat(total, c.ChangeBytes)
	}
	what, note := "step", ""
	switch {
	case f.Calls:
		what = "call"
	case f.Inferred:
		note = "; inferred, because no step was marked"
	}
	p.Line("")
	p.Para("", "  ", fmt.Sprintf("%s on %s: total %s, %s per %s (%s%s)", f.Pattern, f.Space, units.Signed(total),
		units.Signed(int64(math.Round(float64(total)/float64(len(f.Steps))))), what, units.Plural(len(f.Steps), what), note))
	var rows [][]string
	for n, c := range f.Steps {
		if skipped := len(f.Steps) - maxChanges; skipped > 0 && n >= maxChanges/2 && n < maxChanges/2+skipped {
			if n == maxChanges/2 {
				rows = append(rows, []string{"...", "", "", "", ""})
			}
			continue
		}
		rows = append(rows, []string{fmt.Sprint(n), units.Bytes(c.AllocatedBytes), units.Bytes(c.FreedBytes),
			units.Signed(c.ChangeBytes), ""})
	}
	p.Table([]string{what, "allocated", "freed", "change", ""}, rows)
}

const (
	// manyRanks is the minimum number of ranks for a table.
	manyRanks = 4
	// maxRanks is the maximum number of ranks in a table.
	maxRanks = 32
)

// ranks writes a comparison of ranks after the findings of their captures: for many ranks
// also a line for each leak, and outliers.
func (p *Page) ranks(r *answer.RankSummary) {
	if r == nil {
		return
	}
	p.compareRanks(r)
	if len(r.Rows) < manyRanks {
		return
	}
	for _, g := range r.Groups {
		if g.Leak {
			p.Line("")
			p.Para("", "  ", g.What+": "+g.Ranks)
		}
	}
	p.outliers(r)
}

// compareRanks writes the ranks with the highest and the lowest peak. For many ranks it adds a table.
func (p *Page) compareRanks(r *answer.RankSummary) {
	byPeak := func(a, b answer.Rank) int { return cmp.Compare(a.Peak, b.Peak) }
	most, least := slices.MaxFunc(r.Rows, byPeak), slices.MinFunc(r.Rows, byPeak)
	where := fmt.Sprintf("on %s, lowest %s on %s", most.Rank, units.Bytes(least.Peak), least.Rank)
	if most.Peak == least.Peak {
		where = "on each"
	}
	p.Line("\n%d ranks: highest peak %s %s", len(r.Rows), units.Bytes(most.Peak), Printable(where))
	if len(r.Rows) < manyRanks {
		return
	}
	p.Line("median %s, median deviation %s", units.Bytes(r.Median), units.Bytes(r.Deviation))
	var rows [][]string
	head := []string{"", "peak", "at the end", ""}
	for _, row := range r.Rows[:min(len(r.Rows), maxRanks)] {
		cells := []string{Printable(row.Rank), units.Bytes(row.Peak), units.Bytes(row.End), ""}
		if row.Leaked != nil {
			head, cells = []string{"", "peak", "at the end", "leaked", ""}, append(cells[:3], units.Bytes(*row.Leaked), "")
		}
		rows = append(rows, cells)
	}
	p.Table(head, rows)
	if n := len(r.Rows) - maxRanks; n > 0 {
		p.Line("%s", more(n, "rank"))
	}
}

func (p *Page) outliers(r *answer.RankSummary) {
	for i := range r.Outliers {
		p.finding(&r.Outliers[i])
	}
}

// oneCause reports whether one change may fix two findings, which are both confirmed or both suspected.
func oneCause(f, o *answer.Finding) bool {
	return f.Cause != "" && f.Cause == o.Cause && f.Space == o.Space && f.Rule == o.Rule && f.Leak == o.Leak
}
