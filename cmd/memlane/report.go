package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
	"github.com/memlane/memlane/render/web"
	"github.com/urfave/cli/v2"
)

// The formats of a report.
const (
	textReport     = "text"
	markdownReport = "markdown"
	jsonReport     = "json"
	sarifReport    = "sarif"
	githubReport   = "github"
	htmlReport     = "html"
)

// reportFormats has the extension of the output file that selects each format; "" if only --format selects it.
var reportFormats = []struct{ name, extension string }{
	{textReport, ".txt"}, {markdownReport, ".md"}, {jsonReport, ".json"}, {htmlReport, ".html"}, {sarifReport, ".sarif"}, {githubReport, ""},
}

func formatFlag() cli.Flag {
	var names []string
	for _, f := range reportFormats {
		if f.name != jsonReport { // --json, as of all commands
			names = append(names, f.name)
		}
	}
	return oneOf(&cli.StringFlag{Name: "format",
		Usage: "`FORMAT`: text, markdown, html, sarif or github", DefaultText: "by the name of -o"}, named(names...)...)
}

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "report everything: what to do first, findings, figures, peak",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane report snapshot.pickle\n" +
			"  memlane report -o report.html before.pickle after.pickle\n" +
			"  memlane report --fail-on critical -o report.md snapshot.pickle",
		Flags: captureFlags(append(ruleFlags(), rankFlag(),
			formatFlag(),
			jsonFlag(), outputFlag(), forceFlag())...),
		Action: writeReport,
	}
}

func writeReport(c *cli.Context) error {
	format, err := reportFormat(c)
	if err != nil {
		return err
	}
	r, err := rulesOf(c)
	if err != nil {
		return err
	}
	if files, err := filesOf(c); r.preset != nil && err == nil && len(files) > 1 {
		return usage("report --rules %s takes one capture (got %d): its report covers one profile", r.preset.Name, len(files))
	}
	reports, pages := []answer.CaptureReport{}, []*judge.Capture{}
	err = r.each(c, func(capture *judge.Capture) {
		if format == htmlReport {
			pages = append(pages, capture)
		} else {
			reports = append(reports, answer.CaptureReportOf(capture, r.tool()))
		}
	})
	if err != nil {
		return err
	}
	if format == htmlReport {
		r.ranks = nil // they are of reports; a page has answers of its own
	}
	out := answer.NewReport(r.name(), reports, r.ranks, r.outliers)
	out.AddSeries(&r.series)
	if r.report != nil {
		out.Grade = r.report.OptimizationScore.String()
	}
	err = writeOutput(c, func(w io.Writer) error {
		switch format {
		case jsonReport:
			if r.report != nil {
				return model.WriteJSON(w, r.report.Answer(out))
			}
			return model.WriteJSON(w, out)
		case markdownReport:
			return report.WriteMarkdown(w, out, repository())
		case htmlReport:
			return web.Write(w, pages)
		case sarifReport:
			return report.WriteSARIF(w, report.All(out.OfCaptures()), repository())
		case githubReport:
			return report.WriteAnnotations(w, report.All(out.OfCaptures()), repository())
		}
		return text.Report(w, out, styleOf(w))
	})
	if err != nil {
		return err
	}
	return r.checkFailOn()
}

// repository returns the checkout around the current folder: the workspace of GitHub Actions, the repository of git, or
// else the folder itself.
func repository() report.Repository {
	here, err := os.Getwd()
	if err != nil {
		return report.Repository{}
	}
	in := report.Repository{Root: os.Getenv("GITHUB_WORKSPACE"), Here: here}
	for folder := here; in.Root == ""; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, ".git")); err == nil {
			in.Root = folder
		} else if folder == filepath.Dir(folder) {
			in.Root = here
		}
	}
	if host, name, commit := os.Getenv("GITHUB_SERVER_URL"), os.Getenv("GITHUB_REPOSITORY"),
		os.Getenv("GITHUB_SHA"); host != "" && name != "" && commit != "" {
		in.Web = host + "/" + name + "/blob/" + commit
	}
	return in
}

// reportFormat returns the format that --format, --json or the name of -o selects. others are extensions that select
// what the command writes besides.
func reportFormat(c *cli.Context, others ...string) (string, error) {
	name := c.String("format")
	switch {
	case c.Bool("json") && name != "":
		return "", usage("--json and --format %s contradict each other; give one of them", name)
	case c.Bool("json"):
		return jsonReport, nil
	}
	written := others
	for _, f := range reportFormats {
		if f.extension != "" {
			written = append(written, f.extension)
		}
	}
	if name == "" && !toStdout(c) {
		if err := checkName(c, written...); err != nil {
			return "", err
		}
	}
	for _, f := range reportFormats {
		if name == f.name || name == "" && f.extension != "" && outputEndsIn(c, f.extension) {
			return f.name, nil
		}
	}
	return textReport, nil
}
