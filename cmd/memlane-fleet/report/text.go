package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/render/text"
)

// textLines is the most lines of the report, for any size of fleet. fleet.json has everything.
const textLines = 40

// limits are how many things each part of the report lists.
type limits struct{ groups, failures, codes, findings, kinds, places, troubles, losses int }

// shrink takes the least important thing away, and reports whether there was one.
func (l *limits) shrink() bool {
	for _, part := range []struct {
		n     *int
		least int
	}{{&l.places, 4}, {&l.kinds, 1}, {&l.losses, 2}, {&l.troubles, 1}, {&l.findings, 3}, {&l.groups, 5},
		{&l.places, 2}, {&l.losses, 1}, {&l.findings, 1}, {&l.failures, 1}, {&l.codes, 1}, {&l.groups, 1}} {
		if *part.n > part.least {
			*part.n--
			return true
		}
	}
	return false
}

const (
	textAbsent   = 8
	textSentence = 150 // characters
	textReason   = 90
)

// textName is the longest name on a separate line.
const textName = 76

// writeText writes the report for a terminal: ranks that differ and why, failed allocations, shared findings, the
// largest places, and captures that were not read. It has at most textLines lines of 80 columns.
func writeText(w io.Writer, d *Data) error {
	for l := (limits{8, 3, 2, 6, 2, 10, 4, 4}); ; {
		var b strings.Builder
		if err := writeLimited(&b, d, &l); err != nil {
			return err
		}
		if strings.Count(b.String(), "\n") <= textLines || !l.shrink() {
			_, err := io.WriteString(w, b.String())
			return err
		}
	}
}

func writeLimited(w io.Writer, d *Data, l *limits) error {
	t := &page{text.NewPage(text.Style{Width: text.UsualWidth})}
	t.para("", "", d.Headline())
	t.standsOut(d, l)
	t.findings(d, l)
	for i := range d.Kinds[:min(l.kinds, len(d.Kinds))] {
		t.kind(&d.Kinds[i], l)
	}
	t.more("", len(d.Kinds)-l.kinds, "memory kind")
	if len(d.Refused)+len(d.Damaged)+len(d.Missing)+len(d.Absent)+len(d.Losses) > 0 {
		t.Line("\nErrors and warnings")
	}
	t.troubles("refused", d.Refused, l)
	t.troubles("damaged, not judged", d.Damaged, l)
	t.troubles("missing", d.Missing, l)
	t.absent(d)
	t.losses(d, l)
	return t.To(w)
}

type page struct{ *text.Page }

// para writes a paragraph. It shortens words that are longer than a line.
func (t *page) para(first, indent, words string) {
	all := strings.Fields(words)
	for i := range all {
		all[i] = shorten.Name(all[i], textName-len(indent))
	}
	t.Para(first, indent, strings.Join(all, " "))
}

// more writes how many things were left out.
func (t *page) more(before string, n int, thing string) {
	if n > 0 {
		t.Line("%s%s", before, moreOf(n, thing))
	}
}

func moreOf(n int, thing string) string {
	return units.Plural(n, "more "+thing) + " (fleet.json has them all)"
}

func (t *page) standsOut(d *Data, l *limits) {
	if len(d.Groups)+len(d.OtherCode)+len(d.Failures)+len(d.Grave()) == 0 {
		t.Line("\nNo rank differs, and there are no findings.")
		return
	}
	if len(d.Groups)+len(d.OtherCode)+len(d.Failures) > 0 {
		t.Line("")
	}
	for i := range d.Failures[:min(l.failures, len(d.Failures))] {
		t.para("", "  ", short("critical  "+FailureText(&d.Failures[i]), textSentence))
		t.whatIf(d.Failures[i].WhatIf)
	}
	t.more("", len(d.Failures)-l.failures, "failure reason")
	for i := range d.Groups[:min(l.groups, len(d.Groups))] {
		g := &d.Groups[i]
		t.para("", "  ", short(g.Severity+"  "+GroupText(g), textSentence))
		if why := GroupWhy(g); why != "" {
			t.para("  ", "  ", short(why, textSentence))
		}
		t.whatIf(g.WhatIf)
	}
	t.more("", len(d.Groups)-l.groups, "outlier group")
	for i := range d.OtherCode[:min(l.codes, len(d.OtherCode))] {
		t.para("", "  ", short("warning  "+CodeText(&d.OtherCode[i]), textSentence))
	}
	t.more("", len(d.OtherCode)-l.codes, "other version of a file")
}

func (t *page) whatIf(w *fleet.WhatIf) {
	if w != nil {
		t.para("  > ", "    ", short(WhatIfText(w), textSentence))
	}
}

func (t *page) findings(d *Data, l *limits) {
	grave := d.Grave()
	if len(grave) > 0 {
		t.Line("\nFindings")
	}
	for i := range grave[:min(l.findings, len(grave))] {
		f := &grave[i]
		t.para("  ", "    ", f.Severity+" "+short(d.Sentence(f), textSentence))
	}
	t.more("  ", len(grave)-l.findings, "finding")
	t.more("  ", len(d.Findings)-len(grave), "note")
}

func (t *page) kind(k *fleet.Kind, l *limits) {
	t.Line("")
	t.para("", "  ", peaksOf(k))
	made, more := MakeUp(k, l.places)
	if len(made) == 0 {
		return
	}
	var rows [][]string
	for _, r := range made {
		in, least, most := "", "", ""
		if r.Memories > 0 {
			in, least, most = units.Count(int64(r.Memories)), units.Bytes(r.AtPeaks.Least), units.Bytes(r.AtPeaks.Most)
		}
		rows = append(rows, []string{units.Bytes(r.Bytes), text.Percent(r.Share), in, least, most, text.Printable(r.Place)})
	}
	t.Table([]string{"at peaks", "share", "memories", "least", "most", "allocated by"}, rows)
	t.more("", more, "place")
}

// peaksOf describes the distribution of the peaks of a kind of memory.
func peaksOf(k *fleet.Kind) string {
	return "Peaks of " + units.Plural(k.Memories, strings.TrimSpace(short(k.Name, 24)+" device")) +
		": least " + units.Bytes(k.Peaks.Least) + ", median " + units.Bytes(k.Peaks.Median) +
		", 90 % at most " + units.Bytes(k.Peaks.Ninetieth) + ", most " + units.Bytes(k.Peaks.Most)
}

// troubles lists what is wrong with captures, and which have it.
func (t *page) troubles(title string, all []*fleet.Record, l *limits) {
	var reasons []string
	names := map[string][]string{}
	for _, r := range all {
		reason := Trouble(r)
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], r.Name)
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return cmp.Compare(len(names[b]), len(names[a])) })
	for _, reason := range reasons[:min(l.troubles, len(reasons))] {
		of := names[reason]
		line := title + ": " + shorten.Name(text.Printable(of[0]), 50)
		if len(of) > 1 {
			line += fmt.Sprintf(" and %s more", units.Count(int64(len(of)-1)))
		}
		t.para("  ", "    ", line+": "+short(reason, textReason))
	}
	t.more("    ", len(reasons)-l.troubles, "reason")
}

func (t *page) absent(d *Data) {
	if len(d.Absent) == 0 {
		return
	}
	t.para("  ", "    ", units.Plural(len(d.Absent), "rank")+" without a capture: "+firstOf(fleet.RankRanges(d.Absent), textAbsent))
}

func (t *page) losses(d *Data, l *limits) {
	for i := range d.Losses[:min(l.losses, len(d.Losses))] {
		t.para("  ", "    ", short(d.Losses[i].String(), textSentence))
	}
	t.more("  ", len(d.Losses)-l.losses, "warning")
}

// short cuts the middle out of running text that is longer than n characters.
func short(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	head := (n - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}
