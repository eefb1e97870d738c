package report

import (
	"io"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/render/text"
)

// The number of lines of each part, for any size of fleet. fleet.json has everything.
const (
	textOutliers = 6
	textFindings = 10
	textKinds    = 2 // of memory, the largest
	textPlaces   = 10
	textRefused  = 12
	textDamaged  = 6
	textMissing  = 8
	textAbsent   = 20
	textLosses   = 8
	textSentence = 220 // characters
	textReason   = 140
)

// textName is the longest name on a separate line.
const textName = 76

// writeText writes the report for a terminal: ranks that differ, shared findings, the largest
// places, and captures that were not read. It has at most about 200 lines of 80 columns.
func writeText(w io.Writer, d *Data) error {
	t := &page{text.NewPage(text.Style{Width: text.UsualWidth})}
	t.para("", "", d.Headline())
	t.standsOut(d)
	t.findings(d)
	for i := range d.Kinds[:min(textKinds, len(d.Kinds))] {
		t.kind(&d.Kinds[i])
	}
	t.more("\n", len(d.Kinds)-textKinds, "memory kind")
	t.troubles("Refused", d.Refused, textRefused)
	t.troubles("Damaged, read in part", d.Damaged, textDamaged)
	t.missing(d)
	t.losses(d)
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

func (t *page) standsOut(d *Data) {
	if len(d.Outliers) == 0 && len(d.Grave()) == 0 {
		t.Line("\nNo rank differs, and there are no findings.")
		return
	}
	for i := range d.Outliers[:min(textOutliers, len(d.Outliers))] {
		f := &d.Outliers[i]
		t.Line("\n%s  %s  %s", f.Severity, f.Rule, shorten.Name(text.Printable(f.Text(finding.FigFile)), 50))
		t.para("  ", "  ", short(f.Description, textSentence))
	}
	t.more("\n", len(d.Outliers)-textOutliers, "outlier")
}

func (t *page) findings(d *Data) {
	grave := d.Grave()
	for i := range grave[:min(textFindings, len(grave))] {
		f := &grave[i]
		t.Line("")
		t.para("", "  ", f.Severity+" "+short(d.Sentence(f), textSentence))
	}
	t.more("\n", len(grave)-textFindings, "finding")
	t.more("\n", len(d.Findings)-len(grave), "note")
}

func (t *page) kind(k *fleet.Kind) {
	t.Line("")
	t.para("", "  ", peaksOf(k))
	made, more := MakeUp(k, textPlaces)
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
	return "Peaks of " + units.Plural(k.Memories, strings.TrimSpace(short(k.Name, 24)+" memory ID")) +
		": least " + units.Bytes(k.Peaks.Least) + ", median " + units.Bytes(k.Peaks.Median) +
		", 90 % at most " + units.Bytes(k.Peaks.Ninetieth) + ", most " + units.Bytes(k.Peaks.Most)
}

// troubles lists captures with the problem of each.
func (t *page) troubles(title string, all []*fleet.Record, most int) {
	if len(all) == 0 {
		return
	}
	t.Line("\n%s", title)
	for _, r := range all[:min(most, len(all))] {
		t.Line("  %s", shorten.Name(text.Printable(r.Name), textName))
		t.para("    ", "    ", short(Trouble(r), textReason))
	}
	t.more("  ", len(all)-most, "capture")
}

func (t *page) missing(d *Data) {
	if len(d.Missing) > 0 {
		t.Line("\nMissing")
		for _, r := range d.Missing[:min(textMissing, len(d.Missing))] {
			t.Line("  %s", shorten.Name(text.Printable(r.Name), textName))
		}
		t.more("  ", len(d.Missing)-textMissing, "capture")
	}
	if len(d.Absent) > 0 {
		t.Line("\n%s without a capture", units.Plural(len(d.Absent), "rank"))
		list := strings.Join(d.Absent[:min(textAbsent, len(d.Absent))], ", ")
		if more := len(d.Absent) - textAbsent; more > 0 {
			list += " and " + moreOf(more, "rank")
		}
		t.para("  ", "  ", list)
	}
}

func (t *page) losses(d *Data) {
	if len(d.Losses) == 0 {
		return
	}
	t.Line("\nWarnings")
	for i := range d.Losses[:min(textLosses, len(d.Losses))] {
		t.para("  ", "    ", short(d.Losses[i].String(), textSentence))
	}
	t.more("  ", len(d.Losses)-textLosses, "warning")
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
