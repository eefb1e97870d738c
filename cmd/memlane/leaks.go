package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
	"github.com/memlane/memlane/render/report"
)

func leaksCommand() *cli.Command {
	return &cli.Command{
		Name:      "leaks",
		Usage:     "which buffers should be gone: findings, most severe first",
		ArgsUsage: "CAPTURE...",
		Description: "Examples:\n" +
			"  memlane leaks snapshot.pickle\n" +
			"  memlane leaks --space cuda:1 --json snapshot.pickle\n" +
			"  memlane leaks --fail-on warning snapshot.pickle || echo it leaks\n" +
			"  memlane leaks --function 'train_step|evaluate' snapshot.pickle\n" +
			"  memlane leaks --threshold limit_bytes=80GiB snapshot.pickle\n" +
			"  memlane leaks --list-rules",
		Flags:  captureFlags(append(ruleFlags(), rankFlag(), toggle("list-rules", "list all rules and their thresholds"), jsonFlag())...),
		Action: leaks,
	}
}

type leaksJSON struct {
	Schema   string        `json:"schema"`
	Findings []findingJSON `json:"findings"`
	Score    scoreJSON     `json:"score"`

	Functions []functionJSON   `json:"functions,omitempty"` // with --function
	Ranks     []report.RankRow `json:"ranks,omitempty"`     // of several, when each capture tells its own
}

type scoreJSON struct {
	Score       int    `json:"score"`
	Grade       string `json:"grade"`
	Description string `json:"description"`
}

type findingJSON struct {
	Rule           string         `json:"rule"`
	Severity       string         `json:"severity"`
	Confidence     float64        `json:"confidence"`
	File           string         `json:"file"`
	Space          string         `json:"space"`
	Site           siteJSON       `json:"site"`
	Bytes          int64          `json:"bytes"`
	RequestedBytes int64          `json:"requested_bytes"`
	Count          int64          `json:"count"`
	BytesPerStep   *int64         `json:"bytes_per_step"` // null without step marks
	Description    string         `json:"description"`
	Evidence       map[string]any `json:"evidence"`
	Suggestions    []string       `json:"suggestions"`
}

func leaks(c *cli.Context) error {
	if c.Bool("list-rules") {
		listRules(c.App.Writer)
		return nil
	}
	r, err := rulesOf(c)
	if err != nil {
		return err
	}
	several, err := ranksOf(c)
	if err != nil {
		return err
	}
	out := leaksJSON{Schema: schema, Findings: []findingJSON{}}
	text := &held{of: c.App.Writer}
	met, cost := 0, 0
	var last *preset.Report
	err = forRules(c, r, func(capture *lifetime.Capture) error {
		found, of := r.find(capture)
		met += r.meets(found)
		cost += report.Cost(found)
		last = of
		several.add(capture, found)
		if c.Bool("json") {
			out.Findings = append(out.Findings, findingsToJSON(capture, found)...)
			out.Functions = append(out.Functions, functionsOf(capture, r)...)
			return nil
		}
		if text.Len() > 0 {
			fmt.Fprintln(text)
		}
		printFindings(text, capture, found, r)
		printFunctions(text, capture, r)
		return nil
	})
	if err != nil {
		return err
	}
	odd := several.odd(r)
	met, cost = met+r.meets(odd), cost+report.Cost(odd)
	if !c.Bool("json") {
		several.print(text)
		if _, err := text.WriteTo(c.App.Writer); err != nil {
			return err
		}
		return r.verdict(met)
	}
	for _, f := range odd {
		out.Findings = append(out.Findings, oddToJSON(f))
	}
	out.Ranks = several.rows()
	score := preset.ScoreOf(cost)
	if last != nil {
		score = last.OptimizationScore
	}
	out.Score = scoreJSON{score.Score, score.Grade, score.Description}
	if err := writeJSON(c.App.Writer, out); err != nil {
		return err
	}
	return r.verdict(met)
}

// findingsToJSON is a list, never null.
func findingsToJSON(capture *lifetime.Capture, found []leak.Finding) []findingJSON {
	all := []findingJSON{}
	for _, f := range found {
		all = append(all, findingToJSON(capture, f))
	}
	return all
}

// oddToJSON is findingToJSON for a finding about ranks, which has no capture.
func oddToJSON(f leak.Finding) findingJSON {
	none := &lifetime.Capture{Tables: lifetime.Tables{Sources: []lifetime.Source{{File: f.Text(leak.FigFile)}}, Sites: make([]lifetime.Site, 1), Stacks: make([]lifetime.Stack, 1)}}
	return findingToJSON(none, f)
}

func findingToJSON(capture *lifetime.Capture, f leak.Finding) findingJSON {
	out := findingJSON{
		Rule: f.Rule, Severity: f.Severity.String(), Confidence: math.Round(f.Confidence*1000) / 1000,
		File: capture.Sources[f.Space.Source].File, Space: f.Space.ID(), Site: siteToJSON(capture, f.Place()),
		Bytes: f.Amount.Bytes, RequestedBytes: f.Amount.Requested, Count: f.Amount.Count,
		Description: f.Description, Evidence: map[string]any{}, Suggestions: append([]string{}, f.Suggestions...),
	}
	if f.BytesPerStep > 0 {
		n := int64(math.Round(f.BytesPerStep))
		out.BytesPerStep = &n
	}
	for _, e := range f.Evidence {
		if out.Evidence[e.Name] = e.Value; e.Text != "" {
			out.Evidence[e.Name] = e.Text
		}
	}
	return out
}

// maxFindings is how many findings people see, and maxInfos how far those go that
// are only worth knowing; the worst come first.
const (
	maxFindings = 20
	maxInfos    = 10
)

func printFindings(w io.Writer, capture *lifetime.Capture, findings []leak.Finding, r *rules) {
	printVerdict(w, capture, findings, r)
	told := map[string]bool{} // suggestions; once is enough
	for i, f := range findings {
		if i == maxFindings || i >= maxInfos && f.Severity == leak.Info {
			fmt.Fprintf(w, "\nand %s (--json has them all)\n", count(len(findings)-i, "more finding"))
			break
		}
		name := "all of it"
		if len(f.Sites) > 0 {
			name = siteName(capture, f.Space, f.Sites[0])
		}
		if frame, ok := capture.UserFrame(f.Place()); ok && ofOperation(frame) {
			name = cutMiddle(name, maxPlace)
		}
		fmt.Fprintf(w, "\n%s  %s  %s  on %s\n", paint(w, f.Severity), f.Rule, name, printable(f.Space.ID()))
		text := strings.TrimPrefix(f.Description, capture.PlaceOf(f.Place()).String()+": ") // the heading has the place
		fmt.Fprintf(w, "  %s\n", wrap(fmt.Sprintf("%s; confidence %.0f %%", text, 100*f.Confidence), "  "))
		switch {
		case len(f.Sites) == 0:
		case static(f.Space):
			printInstruction(w, capture, f.Sites)
		default:
			printStacks(w, capture, f.Sites)
		}
		for _, s := range f.Suggestions {
			if !told[s] {
				fmt.Fprintf(w, "  > %s\n", wrap(s, "    "))
			}
			told[s] = true
		}
	}
}

// printVerdict says how many findings there are, and in which spaces leaks
// cannot be told.
func printVerdict(w io.Writer, capture *lifetime.Capture, findings []leak.Finding, r *rules) {
	if r.preset != nil {
		fmt.Fprintf(w, "%s: %s by the rules of %s\n", printable(captureName(capture)), count(len(findings), "finding"), r.preset.Name)
		return
	}
	var untold []*lifetime.Space
	programs, judged := 0, 0
	for _, s := range capture.Spaces {
		switch {
		case static(s):
			programs++
		case s.Facts&lifetime.History == 0:
			untold = append(untold, s)
		default:
			judged++
		}
	}
	leaks := 0
	for _, f := range findings {
		if f.IsLeak() {
			leaks++
		}
	}
	others := len(findings) - leaks
	verdict := count(len(findings), "finding")
	switch {
	case judged+programs == 0:
		verdict = "leaks cannot be told"
	case judged > 0 && leaks == 0:
		verdict = "no leak found"
	case judged > 0 && others > 0:
		verdict = count(leaks, "leak")
	}
	if judged > 0 && others > 0 {
		verdict += ", " + count(others, "other finding")
	}
	fmt.Fprintf(w, "%s: %s\n", printable(captureName(capture)), verdict)
	if judged == 0 && programs > 0 {
		fmt.Fprintf(w, "  %s\n", wrap("These are compiled programs: plans of the memory of one run, in which nothing can leak.", "  "))
	}
	printUntold(w, capture, untold)
}

// printUntold says why leaks cannot be told in some spaces, once for those with
// the same reason.
func printUntold(w io.Writer, capture *lifetime.Capture, spaces []*lifetime.Space) {
	ids := map[string][]string{}
	var reasons []string
	for _, s := range spaces {
		why := whyUntold(capture, s)
		if ids[why] == nil {
			reasons = append(reasons, why)
		}
		ids[why] = append(ids[why], s.ID())
	}
	for _, why := range reasons {
		fmt.Fprintf(w, "  %s\n", wrap(shortened(ids[why])+": "+why, "  "))
	}
}

// whyUntold says what a space lacks that leaks could be told by, and how to
// record it.
func whyUntold(capture *lifetime.Capture, s *lifetime.Space) string {
	switch {
	case s.UsageOnly() && s.Allocations+s.Frees > 0:
		return "allocations and frees were recorded without addresses; PyTorch 1.10 and newer record them"
	case s.UsageOnly():
		return "only sums were recorded, as counters and memory timelines do; record allocations one by one: " +
			"torch.profiler.profile(profile_memory=True, with_stack=True)"
	case capture.Sources[s.Source].Format == torchSnapshot:
		return "no history of allocations and frees; record one: " + recordHistory
	}
	return "no history of allocations and frees"
}

const (
	maxStacks = 3
	maxFrames = 8
)

// printInstruction says which instruction of a compiled program a finding speaks
// of, and the calls in the program that it was compiled from.
func printInstruction(w io.Writer, capture *lifetime.Capture, sites []lifetime.SiteID) {
	if text := instruction(capture, sites[0], lineWidth-4); text != "" {
		fmt.Fprintf(w, "    %s\n", text)
	}
	shown := 0
	for f := range capture.FramesOf(capture.Sites[sites[0]].Source) {
		if f.Kind == lifetime.User && shown < maxFrames {
			shown++
			fmt.Fprintf(w, "    at %s\n", frameName(*f))
		}
	}
	if len(sites) > 1 {
		fmt.Fprintf(w, "    and %s\n", count(len(sites)-1, "more instruction"))
	}
}

// printStacks prints the first call stacks of a finding.
func printStacks(w io.Writer, capture *lifetime.Capture, sites []lifetime.SiteID) {
	for i, site := range sites {
		if i == maxStacks {
			fmt.Fprintf(w, "  and %s (--json has them all)\n", count(len(sites)-i, "more stack"))
			break
		}
		if len(sites) > 1 && capture.Sites[site].Stack != 0 {
			fmt.Fprintf(w, "  stack %d of %d\n", i+1, len(sites))
		}
		printStack(w, capture, site)
	}
}

// printStack prints what of a call stack is not of libraries, and before it the
// operator that allocated where the stack does not begin with it.
func printStack(w io.Writer, capture *lifetime.Capture, site lifetime.SiteID) {
	stack := capture.Sites[site].Stack
	if op := capture.Sites[site].Op; op != "" && stack != 0 && capture.Frames[capture.Stacks[stack].Frame].Function != op {
		fmt.Fprintf(w, "    in %s\n", cutMiddle(printable(op), lineWidth-7))
	}
	hidden := 0
	shown := 0
	for frame := range capture.FramesOf(stack) {
		f := *frame
		if f.Kind != lifetime.User && !ofOperation(f) || shown == maxFrames {
			hidden++
			continue
		}
		shown++
		name := frameName(f)
		if ofOperation(f) {
			name = cutMiddle(name, lineWidth-7)
		}
		fmt.Fprintf(w, "    at %s\n", name)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "    and %s of libraries and further callers\n", count(hidden, "frame"))
	}
}

// paint returns the severity, in colour on a terminal.
func paint(w io.Writer, s leak.Severity) string {
	if !terminal(w) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return s.String()
	}
	colour := map[leak.Severity]string{leak.Critical: "1;31", leak.Warning: "1;33", leak.Info: "1"}[s]
	return fmt.Sprintf("\033[%sm%s\033[0m", colour, s)
}
