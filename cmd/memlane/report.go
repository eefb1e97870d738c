package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/web"
)

// The forms of a report.
const (
	textReport     = "text"
	markdownReport = "markdown"
	jsonReport     = "json"
	sarifReport    = "sarif"
	githubReport   = "github"
	htmlReport     = "html"
)

// reportFormats has them by the extension of the file that -o names; "" is never
// chosen by it.
var reportFormats = []struct{ name, extension string }{
	{textReport, ".txt"}, {markdownReport, ".md"}, {jsonReport, ".json"}, {htmlReport, ".html"}, {sarifReport, ".sarif"}, {githubReport, ""},
}

func formatFlag() cli.Flag {
	var names []string
	for _, f := range reportFormats {
		names = append(names, f.name)
	}
	return oneOf(&cli.StringFlag{Name: "format", Usage: "`FORMAT`: text, markdown, html, json, sarif or\ngithub; else by -o's name"}, named(names...)...)
}

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "all of it: what to do first, findings, figures and the peak",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane report snapshot.pickle\n" +
			"  memlane report -o report.md snapshot.pickle\n" +
			"  memlane report -o report.html before.pickle after.pickle\n" +
			"  memlane report --json snapshot.pickle | jq .optimization_score\n" +
			"  memlane report --format github snapshot.pickle\n" +
			"  memlane report --rules gpumemprof --json results.json\n" +
			"  memlane report --fail-on critical -o report.md snapshot.pickle",
		Flags: captureFlags(append(ruleFlags(), rankFlag(),
			formatFlag(),
			toggle("json", "the same as --format json"), outputFlag())...),
		Action: reportOn,
	}
}

// reportJSON is the report of gpumemprof, and beside it what memlane found.
type reportJSON struct {
	Schema string `json:"schema"`
	Rules  string `json:"rules"`
	*preset.Report
	Findings  []findingJSON    `json:"findings"`
	Functions []functionJSON   `json:"functions,omitempty"` // with --function
	Ranks     []report.RankRow `json:"ranks,omitempty"`     // of several, when each capture tells its own
}

func reportOn(c *cli.Context) error {
	format, err := reportFormat(c)
	if err != nil {
		return err
	}
	r, err := rulesOf(c)
	if err != nil {
		return err
	}
	if r.preset != nil && c.NArg() > 1 {
		return fail(statusUsage, "report --rules %s: want one capture, got %d: its report is about one profile", r.preset.Name, c.NArg())
	}
	several, err := ranksOf(c)
	if err != nil {
		return err
	}
	d := &report.Data{Rules: r.name()}
	out := reportJSON{Schema: schema, Rules: r.name(), Findings: []findingJSON{}}
	met := 0
	err = forRules(c, r, func(capture *lifetime.Capture) error {
		found, of := r.find(capture)
		met += r.meets(found)
		several.add(capture, found)
		d.Captures, d.Findings, d.Report = append(d.Captures, capture), append(d.Findings, found), of
		out.Findings = append(out.Findings, findingsToJSON(capture, found)...)
		out.Functions = append(out.Functions, functionsOf(capture, r)...)
		return nil
	})
	if err != nil {
		return err
	}
	if d.Odd = several.odd(r); r.preset == nil {
		d.Report = report.Of(d)
	}
	met += r.meets(d.Odd)
	for _, f := range d.Odd {
		out.Findings = append(out.Findings, oddToJSON(f))
	}
	d.Ranks = several.rows()
	out.Report, out.Ranks = d.Report, d.Ranks
	err = writeOutput(c, func(w io.Writer) error {
		switch format {
		case jsonReport:
			return writeJSON(w, out)
		case markdownReport:
			return report.WriteMarkdown(w, d)
		case htmlReport:
			return web.Write(w, webCaptures(d))
		case sarifReport:
			return report.WriteSARIF(w, d.All())
		case githubReport:
			return report.WriteAnnotations(w, d.All())
		}
		printReport(w, d, r, several)
		return nil
	})
	if err != nil {
		return err
	}
	return r.verdict(met)
}

// reportFormat returns the form that a command line asks for.
func reportFormat(c *cli.Context) (string, error) {
	name := c.String("format")
	switch {
	case c.Bool("json") && name != "" && name != jsonReport:
		return "", fail(statusUsage, "--json and --format %s contradict each other; give one of them", name)
	case c.Bool("json"):
		return jsonReport, nil
	}
	extension := filepath.Ext(c.String("output"))
	for _, f := range reportFormats {
		if name == f.name || name == "" && extension != "" && extension == f.extension {
			return f.name, nil
		}
	}
	return textReport, nil
}

// foundIn runs memlane's own rules on captures.
func foundIn(captures []*lifetime.Capture) *report.Data {
	d := &report.Data{Captures: captures}
	for _, c := range captures {
		d.Findings = append(d.Findings, leak.Find(c, c.Spaces, leak.Settings{}))
	}
	return d
}

// webCaptures returns what the page shows of a report.
func webCaptures(d *report.Data) []web.Capture {
	var all []web.Capture
	for i, c := range d.Captures {
		all = append(all, web.Capture{Capture: c, Name: captureName(c), Info: infoOf(c), Findings: d.Findings[i]})
	}
	return all
}

// printReport writes a report for the terminal: what to do first, then what info,
// leaks and peak show.
func printReport(w io.Writer, d *report.Data, r *rules, several *ranks) {
	score := d.Report.OptimizationScore
	fmt.Fprintf(w, "%s\n", wrap(fmt.Sprintf("%s, %d of 100: %s; %s", score.Grade, score.Score, score.Description, d.Counts()), "  "))
	for i, f := range d.First(toDo) {
		fmt.Fprintf(w, "\n%d. %s\n", i+1, wrap(fmt.Sprintf("%s (%s): %s", f.Rule, f.Severity, f.Description), "   "))
		for _, s := range f.Suggestions[:min(len(f.Suggestions), 1)] {
			fmt.Fprintf(w, "   > %s\n", wrap(s, "     "))
		}
	}
	for i, capture := range d.Captures {
		fmt.Fprintln(w)
		printInfo(w, infoOf(capture), capture)
		fmt.Fprintln(w)
		printFindings(w, capture, d.Findings[i], r)
		printFunctions(w, capture, r)
		for _, s := range shownPeaks(capture) {
			fmt.Fprintln(w)
			printPeak(w, capture, s, s.Peak(lifetime.Occupied).At)
		}
	}
	several.print(w)
}

// toDo is how many things to do first a report names.
const toDo = 3

// shownPeaks returns the spaces whose peak a report takes apart: those that were
// recorded as the program ran, or else the compiled program with the highest one.
func shownPeaks(capture *lifetime.Capture) []*lifetime.Space {
	if running := slices.DeleteFunc(slices.Clone(capture.Spaces), static); len(running) > 0 {
		return running
	}
	if best, _ := largest(capture.Spaces); best != nil {
		return []*lifetime.Space{best}
	}
	return nil
}
