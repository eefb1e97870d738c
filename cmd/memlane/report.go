package main

import (
	"io"
	"path/filepath"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/leak/preset"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
	"github.com/memlane/memlane/render/web"
	"github.com/urfave/cli/v2"
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
		return usage("report --rules %s: want one capture, got %d: its report is about one profile", r.preset.Name, c.NArg())
	}
	ranks, err := ranksOf(c)
	if err != nil {
		return err
	}
	var of []answer.CaptureReport
	var all []web.Capture
	var foreign *preset.Report
	met := 0
	err = r.each(c, func(capture *lifetime.Capture) error {
		found, report := r.find(capture)
		met += r.meets(found)
		outline := capture.Outline()
		ranks.Add(outline, found)
		if foreign = report; format == htmlReport {
			all = append(all, web.Capture{Capture: capture, Findings: found})
		}
		of = append(of, answer.CaptureReportOf(capture, outline, answer.LeaksOf(capture, found, r.tool(), r.settings.Function)))
		return nil
	})
	if err != nil {
		return err
	}
	outliers := r.outliers(ranks)
	met += r.meets(outliers)
	out := answer.NewReport(r.name(), of, ranks, outliers)
	if foreign != nil {
		s := foreign.OptimizationScore
		out.Score = answer.ReportScore{Score: answer.Score{Score: s.Score, Grade: s.Grade, Description: s.Description}, Findings: s.IssuesFound}
	}
	err = writeOutput(c, func(w io.Writer) error {
		switch format {
		case jsonReport:
			if foreign != nil {
				return model.WriteJSON(w, answer.PresetReport{Schema: out.Schema, Rules: out.Rules, Report: foreign, Findings: out.Findings, Functions: out.Functions, Ranks: out.Ranks})
			}
			return model.WriteJSON(w, out)
		case markdownReport:
			return report.WriteMarkdown(w, out)
		case htmlReport:
			return web.Write(w, all)
		case sarifReport:
			return report.WriteSARIF(w, report.All(out.OfCaptures()))
		case githubReport:
			return report.WriteAnnotations(w, report.All(out.OfCaptures()))
		}
		return text.Report(w, out, styleOf(w))
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
		return "", usage("--json and --format %s contradict each other; give one of them", name)
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
