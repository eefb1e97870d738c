package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/web"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "two captures by call site: new, gone, grew, shrank",
		ArgsUsage: "BEFORE AFTER",
		Description: "Examples:\n" +
			"  memlane diff before.pickle after.pickle\n" +
			"  memlane diff --per-step before.pickle after.pickle\n" +
			"  memlane diff -o diff.md before.pickle after.pickle\n" +
			"  memlane diff -o diff.svg before.pickle after.pickle\n" +
			"  memlane diff -o diff.pb.gz before.pickle after.pickle\n" +
			"  memlane diff --fail-on 'peak>+5%' --fail-on new-leak old.pickle new.pickle",
		Flags: captureFlags(functionFlag(),
			suggesting(&cli.GenericFlag{Name: "fail-on", Value: &texts{}, Usage: "status 1 when `RULE` holds: 'peak>+5%',\n'end>+64MiB', new-leak; may be given again"},
				named(newLeak)...),
			toggle("per-step", "bytes allocated in each step, not in the window"),
			formatFlag(),
			toggle("json", "the same as --format json"), outputFlag()),
		Action: diffCaptures,
	}
}

type diffJSON struct {
	Schema   string           `json:"schema"`
	Before   captureInfoJSON  `json:"before"`
	After    captureInfoJSON  `json:"after"`
	Rows     []diffRowJSON    `json:"rows"`
	Findings diffFindingsJSON `json:"findings"`
	Lines    bool             `json:"lines_compared"`
	NoPlaces bool             `json:"places_unknown"` // one side does not know who allocated
	PerStep  bool             `json:"per_step"`
	Verdict  string           `json:"verdict"`
}

type diffFindingsJSON struct {
	New   []findingJSON `json:"new"`
	Fixed []findingJSON `json:"fixed"`
	Still []findingJSON `json:"still"` // as they are now
}

type diffRowJSON struct {
	Space          string         `json:"space"`
	Status         string         `json:"status"`
	Site           siteJSON       `json:"site"`        // as it is now, or was
	SiteBefore     *siteJSON      `json:"site_before"` // null where it is new
	Unseen         bool           `json:"before_the_window"`
	Before         diffFigureJSON `json:"before"`
	After          diffFigureJSON `json:"after"`
	DeltaPeakBytes int64          `json:"delta_peak_bytes"`
	DeltaEndBytes  int64          `json:"delta_end_bytes"`
	DeltaAllocated json.Number    `json:"delta_allocated_bytes"` // with --per-step of each step
}

type diffFigureJSON struct {
	PeakBytes          int64       `json:"peak_bytes"`
	PeakRequestedBytes int64       `json:"peak_requested_bytes"`
	EndBytes           int64       `json:"end_bytes"`
	EndRequestedBytes  int64       `json:"end_requested_bytes"`
	AllocatedBytes     json.Number `json:"allocated_bytes"` // with --per-step of each step
	Count              int64       `json:"count"`           // alive at the end
	Allocations        int64       `json:"allocations"`
}

func diffCaptures(c *cli.Context) error {
	if c.NArg() != 2 {
		return fail(statusUsage, "diff: want two captures, BEFORE and AFTER, got %d; see memlane diff --help", c.NArg())
	}
	format, err := reportFormat(c)
	if err != nil {
		return err
	}
	gates, err := gatesOf(*c.Generic("fail-on").(*texts))
	if err != nil {
		return err
	}
	captures, err := openAll(c, loss.Missing)
	if err != nil {
		return err
	}
	d := diff.Compare(captures[0], captures[1], leak.Settings{})
	switch {
	case strings.HasSuffix(c.String("output"), profileExtension):
		format = profileDiff
	case isPicture(c) && c.String("format") == "" && format == textReport:
		return drawDiff(c, d, gates)
	}
	err = writeOutput(c, func(w io.Writer) error {
		switch format {
		case jsonReport:
			return writeJSON(w, diffToJSON(d, c.Bool("per-step")))
		case markdownReport:
			return report.WriteDiff(w, d, c.Bool("per-step"))
		case htmlReport:
			return web.Write(w, webCaptures(foundIn(captures)))
		case sarifReport:
			return report.WriteSARIF(w, report.Changes(d))
		case githubReport:
			return report.WriteAnnotations(w, report.Changes(d))
		case profileDiff:
			err := pprof.WriteDiff(w, d.Before, d.After, profileOptions(d.Before), profileOptions(d.After))
			if errors.Is(err, pprof.ErrNoBuffers) {
				return &statusError{statusNoMemory, err}
			}
			return err
		}
		printDiff(w, d, c.Bool("per-step"))
		return nil
	})
	if err != nil {
		return err
	}
	return check(gates, d)
}

// drawDiff draws a comparison.
func drawDiff(c *cli.Context, d *diff.Result, gates []gate) error {
	pair := d.Main() // choose made sure that there is one
	if n := len(d.Pairs); n > 1 && !c.Bool("quiet") {
		tellChoice(c.App.ErrWriter, "drawing", cmp.Or(pair.After, pair.Before).Space, n)
	}
	err := writeOutput(c, func(w io.Writer) error {
		if err := chart.Diff(w, d, pair, chart.Options{Format: pictureFormat(c)}); err != nil {
			return &statusError{statusNoMemory, err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return check(gates, d)
}

// A comparison is a profile where -o's name ends so.
const (
	profileExtension = ".pb.gz"
	profileDiff      = "pprof"
)

// profileOptions are those of a profile of what ran in a capture, or else of its
// compiled programs.
func profileOptions(capture *lifetime.Capture) pprof.Options {
	o := pprof.Options{Leaks: map[*lifetime.Space]map[lifetime.SiteID]string{}, Leaked: map[*lifetime.Space][]int{}, UserFrames: true}
	addFindings(&o, leak.Find(capture, capture.Spaces, leak.Settings{}))
	return o
}

func diffToJSON(d *diff.Result, perStep bool) diffJSON {
	out := diffJSON{Schema: schema, Before: infoOf(d.Before), After: infoOf(d.After), Rows: []diffRowJSON{}, Lines: d.Lines, NoPlaces: d.NoPlaces,
		PerStep: perStep, Verdict: d.Verdict()}
	for i := range d.Rows {
		r := &d.Rows[i]
		p := &d.Pairs[r.Pair]
		row := diffRowJSON{Space: p.Name, Status: r.Status.String(), Site: siteToJSON(d.After, r.SiteAfter), Unseen: r.Unseen,
			DeltaPeakBytes: r.DeltaPeak(), DeltaEndBytes: r.DeltaEnd()}
		if r.Status != diff.New {
			before := siteToJSON(d.Before, r.SiteBefore)
			row.SiteBefore = &before
			if r.Status == diff.Gone {
				row.Site = before
			}
		}
		before, after := diff.AllocatedOf(&r.Before, p.Before, perStep), diff.AllocatedOf(&r.After, p.After, perStep)
		row.Before, row.After = figureToJSON(&r.Before, before), figureToJSON(&r.After, after)
		row.DeltaAllocated = number(after - before)
		out.Rows = append(out.Rows, row)
	}
	out.Findings = diffFindingsJSON{New: []findingJSON{}, Fixed: []findingJSON{}, Still: []findingJSON{}}
	for _, c := range d.New {
		out.Findings.New = append(out.Findings.New, findingToJSON(d.After, *c.After))
	}
	for _, c := range d.Fixed {
		out.Findings.Fixed = append(out.Findings.Fixed, findingToJSON(d.Before, *c.Before))
	}
	for _, c := range d.Still {
		out.Findings.Still = append(out.Findings.Still, findingToJSON(d.After, *c.After))
	}
	return out
}

func figureToJSON(f *diff.Figures, allocated float64) diffFigureJSON {
	return diffFigureJSON{f.Peak.Bytes, f.Peak.Requested, f.End.Bytes, f.End.Requested, number(allocated), f.End.Count, f.Allocated.Count}
}

// number is an integer where it is one.
func number(v float64) json.Number {
	if v == math.Trunc(v) {
		return json.Number(fmt.Sprintf("%.0f", v))
	}
	return json.Number(fmt.Sprintf("%.3f", v))
}

// printDiff writes a comparison for the terminal.
func printDiff(w io.Writer, d *diff.Result, perStep bool) {
	fmt.Fprintf(w, "%s\n", wrap(d.Verdict(), ""))
	for i := range d.Pairs {
		if p := &d.Pairs[i]; i < maxPairs {
			printPair(w, p)
		} else if i == maxPairs {
			fmt.Fprintf(w, "\nand %s (--json has them all)\n", count(len(d.Pairs)-i, "more memory ID"))
		}
	}
	printRows(w, d, perStep)
	if d.NoPlaces {
		fmt.Fprintf(w, "\n%s\n", wrap("Call sites were not compared: one of the captures does not tell who allocated (record stacks, or operations with shapes).", ""))
	}
	printChanges(w, "new", d.After, d.New, func(c diff.Change) *leak.Finding { return c.After })
	printChanges(w, "fixed", d.Before, d.Fixed, func(c diff.Change) *leak.Finding { return c.Before })
	printChanges(w, "still", d.After, d.Still, func(c diff.Change) *leak.Finding { return c.After })
}

const maxPairs = 8

// printPair writes the figures of a memory ID on both sides.
func printPair(w io.Writer, p *diff.Pair) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tbefore\tafter\tchange\t\n")
	for _, row := range diff.Figured(p) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", row.Name, row.Before, row.After, row.Change)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%s\n", printable(p.Name))
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n")) // what did not change has no last cell
	}
}

// printRows writes the places that differ, most first.
func printRows(w io.Writer, d *diff.Result, perStep bool) {
	if len(d.Rows) == 0 {
		return
	}
	allocated := "allocated"
	if perStep {
		allocated = "a step"
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "peak\tend\t%s\t\t  allocated by\n", allocated)
	for i := range d.Rows {
		r := &d.Rows[i]
		p := &d.Pairs[r.Pair]
		if i == maxRows {
			fmt.Fprintf(t, "\t\t\t\t  %s (--json has them all)\n", count(len(d.Rows)-i, "more place"))
			break
		}
		change := diff.AllocatedOf(&r.After, p.After, perStep) - diff.AllocatedOf(&r.Before, p.Before, perStep)
		name := rowName(d, r)
		if len(d.Pairs) > 1 {
			name += " on " + p.Name
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t  %s\n", units.Signed(r.DeltaPeak()), units.Signed(r.DeltaEnd()), units.Signed(int64(math.Round(change))), r.Status,
			cutMiddle(printable(name), maxPlace-10))
	}
	t.Flush()
}

// rowName names the place of a row.
func rowName(d *diff.Result, r *diff.Row) string {
	if r.Unseen {
		return beforeWindow
	}
	if r.Status == diff.Gone {
		return siteName(d.Before, d.Pairs[r.Pair].Before.Space, r.SiteBefore)
	}
	return siteName(d.After, d.Pairs[r.Pair].After.Space, r.SiteAfter)
}

// printChanges lists findings, those above info with what they say.
func printChanges(w io.Writer, what string, capture *lifetime.Capture, all []diff.Change, of func(diff.Change) *leak.Finding) {
	for _, c := range all {
		if f := of(c); f.Severity > leak.Info {
			fmt.Fprintf(w, "\n%s: %s\n", what, wrap(fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Description), "  "))
		}
	}
}
