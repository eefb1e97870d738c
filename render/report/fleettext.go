package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/fleet"
	"github.com/memlane/memlane/lifetime/leak"
)

// How much of a fleet of any size is told as text. fleet.json has all of it.
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

// WriteFleetText writes the report on a fleet for a terminal: what stands out, what
// is found on many ranks, what holds most, and what could not be read; some 200 lines of
// 80 columns at most, however large the fleet is.
func WriteFleetText(w io.Writer, d *FleetData) error {
	t := &fleetText{}
	t.para("", d.Headline())
	t.standsOut(d)
	t.findings(d)
	for i := range d.Kinds {
		if i < textKinds {
			t.kind(&d.Kinds[i])
		}
	}
	t.more("\n", len(d.Kinds)-textKinds, "kind of memory", "kinds of memory")
	t.troubles("Refused", d.Refused, textRefused)
	t.troubles("Damaged, and read as far as they go", d.Damaged, textDamaged)
	t.missing(d)
	t.losses(d)
	_, err := io.WriteString(w, t.String())
	return err
}

type fleetText struct{ strings.Builder }

// para writes a paragraph, whose second line begins with indent. Words that no line
// holds are shortened.
func (t *fleetText) para(indent, text string) {
	words := strings.Fields(text)
	for i := range words {
		words[i] = Short(words[i], textWidth-len(indent))
	}
	fmt.Fprintf(t, "%s\n", Wrap(strings.Join(words, " "), indent))
}

func (t *fleetText) heading(text string) { fmt.Fprintf(t, "\n%s\n", text) }

// more says how many things were left out.
func (t *fleetText) more(before string, n int, one, many string) {
	if n > 0 {
		fmt.Fprintf(t, "%sand %s\n", before, moreOf(n, one, many))
	}
}

func moreOf(n int, one, many string) string {
	if n > 1 {
		one = many
	}
	return fmt.Sprintf("%s more %s (fleet.json has them all)", units.Count(int64(n)), one)
}

func (t *fleetText) standsOut(d *FleetData) {
	if len(d.Outliers) == 0 && len(d.Grave()) == 0 {
		t.heading("Nothing stands out.")
		return
	}
	for i := range d.Outliers[:min(textOutliers, len(d.Outliers))] {
		f := &d.Outliers[i]
		fmt.Fprintf(t, "\n%s  %s  %s\n  ", f.Severity, f.Rule, Printable(Short(f.Text(leak.FigFile), 50)))
		t.para("  ", Short(f.Description, textSentence))
	}
	t.more("\n", len(d.Outliers)-textOutliers, "rank that differs", "ranks that differ")
}

func (t *fleetText) findings(d *FleetData) {
	grave := d.Grave()
	for i := range grave[:min(textFindings, len(grave))] {
		f := &grave[i]
		fmt.Fprintln(t)
		t.para("  ", f.Severity+" "+Short(d.Sentence(f), textSentence))
	}
	t.more("\n", len(grave)-textFindings, "finding", "findings")
	t.more("\n", len(d.Findings)-len(grave), "finding that is only worth knowing", "findings that are only worth knowing")
}

func (t *fleetText) kind(k *fleet.Kind) {
	fmt.Fprintln(t)
	t.para("  ", peaksOf(k))
	rows, more := MakeUp(k, textPlaces)
	if len(rows) == 0 {
		return
	}
	table := tabwriter.NewWriter(t, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "at peaks\tshare\tmemories\tleast\tmost\t  allocated by\n")
	for _, r := range rows {
		in, least, most := "", "", ""
		if r.Memories > 0 {
			in, least, most = units.Count(int64(r.Memories)), units.Bytes(r.AtPeaks.Least), units.Bytes(r.AtPeaks.Most)
		}
		fmt.Fprintf(table, "%s\t%.1f %%\t%s\t%s\t%s\t  %s\n", units.Bytes(r.Bytes), 100*r.Share, in, least, most, Printable(Short(r.Place, 28)))
	}
	table.Flush()
	t.more("", more, "place", "places")
}

// peaksOf tells how the peaks of a kind of memory are spread.
func peaksOf(k *fleet.Kind) string {
	return fmt.Sprintf("Peaks of %s: least %s, median %s, 90 %% at most %s, most %s", units.Several(k.Memories, strings.TrimSpace(Short(k.Name, 24)+" memory ID")),
		units.Bytes(k.Peaks.Least), units.Bytes(k.Peaks.Median), units.Bytes(k.Peaks.Ninetieth), units.Bytes(k.Peaks.Most))
}

// troubles lists captures, and what is wrong with each.
func (t *fleetText) troubles(title string, all []*fleet.Record, most int) {
	if len(all) == 0 {
		return
	}
	t.heading(title)
	for _, r := range all[:min(most, len(all))] {
		fmt.Fprintf(t, "  %s\n    ", Printable(Short(r.Name, textWidth-2)))
		t.para("    ", Short(Trouble(r), textReason))
	}
	t.more("  ", len(all)-most, "capture", "captures")
}

func (t *fleetText) missing(d *FleetData) {
	if len(d.Missing) > 0 {
		t.heading("Missing")
		for _, r := range d.Missing[:min(textMissing, len(d.Missing))] {
			fmt.Fprintf(t, "  %s\n", Printable(Short(r.Name, textWidth-2)))
		}
		t.more("  ", len(d.Missing)-textMissing, "capture", "captures")
	}
	if len(d.Absent) > 0 {
		t.heading(units.Several(len(d.Absent), "rank") + " that no capture is of")
		text := strings.Join(d.Absent[:min(textAbsent, len(d.Absent))], ", ")
		if more := len(d.Absent) - textAbsent; more > 0 {
			text += " and " + moreOf(more, "rank", "ranks")
		}
		fmt.Fprintf(t, "  ")
		t.para("  ", text)
	}
}

func (t *fleetText) losses(d *FleetData) {
	if len(d.Losses) == 0 {
		return
	}
	t.heading("What captures lack")
	for i := range d.Losses[:min(textLosses, len(d.Losses))] {
		fmt.Fprintf(t, "  ")
		t.para("    ", Short(d.Losses[i].String(), textSentence))
	}
	t.more("  ", len(d.Losses)-textLosses, "reason", "reasons")
}

// Short cuts the middle out of texts that are longer than n characters.
func Short(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	head := (n - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}
