package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
)

// defaultRules is the name of memlane's own rules.
const defaultRules = "default"

// ruleFlags are the flags of the commands that look for trouble.
func ruleFlags() []cli.Flag {
	choices := []word{{defaultRules, "memlane's own"}}
	for i := range preset.Presets {
		choices = append(choices, word{preset.Presets[i].Name, preset.Presets[i].Doc})
	}
	return []cli.Flag{
		oneOf(&cli.StringFlag{Name: "rules", Value: defaultRules, Usage: "`RULES`: " + orList(choices), DefaultText: defaultRules}, choices...),
		&cli.GenericFlag{Name: "threshold", Value: &texts{}, Usage: "set `NAME=V` for a rule; may be given again"},
		&cli.StringFlag{Name: "function", Usage: "only functions that match `REGEXP`, and their calls"},
		suggesting(&cli.StringFlag{Name: "fail-on", Usage: "status 1 for a finding that is `BAD`: critical,\nwarning, info, or the name of a rule"},
			append(severities(), (&rules{}).list()...)...),
	}
}

func severities() []word {
	return named(leak.Critical.String(), leak.Warning.String(), leak.Info.String())
}

// texts is the value of a flag that may be given again.
type texts []string

func (t *texts) String() string { return strings.Join(*t, " ") }

// Set adds a value.
func (t *texts) Set(value string) error {
	*t = append(*t, value)
	return nil
}

// ownThresholds are those of memlane's rules that users may set.
var ownThresholds = []struct {
	name, doc string
	usual     string
	of        func(*leak.Settings) *int64
}{
	{"critical_bytes", "leak, growing_buffer: from how many bytes on a leak is critical", "1GiB", func(s *leak.Settings) *int64 { return &s.Critical }},
	{"limit_bytes", "leak, oom: how many bytes the device has", "as the capture tells", func(s *leak.Settings) *int64 { return &s.Limit }},
}

// rules are those that a command line asks for.
type rules struct {
	preset     *preset.Preset // nil = memlane's own
	thresholds preset.Thresholds
	settings   leak.Settings
	failOn     string
}

func rulesOf(c *cli.Context) (*rules, error) {
	r := &rules{failOn: c.String("fail-on")}
	r.choose(c.String("rules"))
	if text := c.String("function"); text != "" {
		re, err := patternOf("function", text)
		if err != nil {
			return nil, err
		}
		r.settings.Function = re
	}
	for _, set := range *c.Generic("threshold").(*texts) {
		name, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, fail(statusUsage, "--threshold %q: want NAME=VALUE; memlane leaks --list-rules has the names", set)
		}
		if err := r.set(name, value); err != nil {
			return nil, fail(statusUsage, "--threshold %s: %w", set, err)
		}
	}
	if bad := append(severities(), r.list()...); r.failOn != "" && !isWord(bad, r.failOn) {
		return nil, fail(statusUsage, "--fail-on %q: want %s, or a rule that memlane leaks --list-rules has%s", r.failOn, orList(severities()), meant(r.failOn, bad))
	}
	return r, nil
}

func (r *rules) choose(name string) {
	for i := range preset.Presets {
		if p := &preset.Presets[i]; p.Name == name {
			r.preset, r.thresholds = p, p.Thresholds
		}
	}
}

// name returns what --rules calls them.
func (r *rules) name() string {
	if r.preset == nil {
		return defaultRules
	}
	return r.preset.Name
}

// set changes a threshold.
func (r *rules) set(name, value string) error {
	if r.preset != nil {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		return r.thresholds.Set(name, v)
	}
	var names []string
	for _, t := range ownThresholds {
		if t.name == name {
			n, err := units.ParseBytes(value)
			if err != nil || n <= 0 {
				return fmt.Errorf("%q is no size, as 80GiB", value)
			}
			*t.of(&r.settings) = n
			return nil
		}
		names = append(names, t.name)
	}
	return fmt.Errorf("memlane's own rules have no threshold %q, but %s; see memlane leaks --list-rules", name, strings.Join(names, ", "))
}

// list returns every rule.
func (r *rules) list() (all []word) {
	if r.preset != nil {
		for _, rule := range preset.Rules {
			all = append(all, word{rule.Name, rule.Doc})
		}
		return all
	}
	for _, rule := range leak.Rules {
		all = append(all, word{rule.Name, rule.Doc})
	}
	return all
}

// listRules prints all rules with their thresholds.
func listRules(w io.Writer) {
	own := rules{}
	fmt.Fprintf(w, "--rules default: memlane's own\n")
	printRules(w, own.list())
	for _, t := range ownThresholds {
		printRule(w, t.name+"="+t.usual, t.doc)
	}
	for i := range preset.Presets {
		p := &preset.Presets[i]
		fmt.Fprintf(w, "\n%s\n", wrap(fmt.Sprintf("--rules %s: %s", p.Name, p.Doc), "  "))
		if i == 0 {
			printRules(w, (&rules{preset: p}).list())
		} else {
			fmt.Fprintf(w, "  the same rules\n")
		}
		fmt.Fprintf(w, "  thresholds\n")
		for _, t := range p.Thresholds.List() {
			printRule(w, fmt.Sprintf("%s=%v", t.Name, t.Value), t.Doc)
		}
	}
}

func printRules(w io.Writer, all []word) {
	for _, r := range all {
		printRule(w, r.name, r.doc)
	}
}

func printRule(w io.Writer, name, doc string) {
	fmt.Fprintf(w, "  %s\n      %s\n", name, wrap(doc, "      "))
}

// find applies the rules to a capture. report is that of a preset, nil for
// memlane's own rules.
func (r *rules) find(capture *lifetime.Capture) (found []leak.Finding, report *preset.Report) {
	if r.preset == nil {
		return leak.Find(capture, capture.Spaces, r.settings), nil
	}
	calls := preset.CallsOf(capture)
	if r.settings.Function != nil {
		calls = r.matching(capture, calls)
	}
	report = r.preset.Report(capture, calls, r.thresholds)
	// As findings they print as others do.
	return presetFindings(capture, calls, report), report
}

// matching returns the calls of functions that --function matches.
func (r *rules) matching(capture *lifetime.Capture, calls []lifetime.Call) (kept []lifetime.Call) {
	matches := leak.Matcher(capture, r.settings.Function)
	for _, call := range calls {
		if matches(call.Site) {
			kept = append(kept, call)
		}
	}
	return kept
}

// insightRules are the rules of insights by title: their categories are wider.
var insightRules = map[string]string{
	"Slow Function Detection": "slow_functions", "Inconsistent Execution Times": "inconsistent_times", "Memory-Intensive Functions": "memory_intensive",
	"Time-Memory Correlation": "time_memory_correlation", "Memory Growth Trend": "memory_growth_trend",
}

// presetFindings returns what a preset found as findings.
func presetFindings(capture *lifetime.Capture, calls []lifetime.Call, rep *preset.Report) (all []leak.Finding) {
	if len(capture.Spaces) == 0 {
		return nil
	}
	sites, spaces := map[string]lifetime.SiteID{}, map[string]int{}
	for _, call := range calls {
		name := capture.FunctionName(call.Site)
		if _, ok := sites[name]; !ok {
			sites[name], spaces[name] = call.Site, call.Space
		}
	}
	add := func(rule, severity string, confidence float64, names []string, figures preset.Figures, description string, suggestions []string) {
		f := leak.Finding{Rule: rule, Confidence: confidence, Space: capture.Spaces[0], Description: description, Suggestions: suggestions}
		f.Severity, _ = leak.ParseSeverity(severity)
		for i, name := range names {
			if i == 0 {
				f.Space = capture.Spaces[spaces[name]]
			}
			f.Sites = append(f.Sites, sites[name])
		}
		for _, figure := range figures {
			f.Evidence = append(f.Evidence, evidenceOf(figure))
		}
		all = append(all, f)
	}
	for _, p := range rep.AllPatterns {
		add(p.PatternType, p.Severity, 1, p.AffectedFunctions, p.Metrics, p.Description, p.Suggestions)
	}
	severities := map[string]string{"high": "critical", "medium": "warning", "low": "info"}
	for _, i := range rep.AllInsights {
		add(insightRules[i.Title], severities[i.Impact], float64(i.Confidence), nil, i.Data, i.Title+": "+i.Description, i.Recommendations)
	}
	for _, g := range rep.GapAnalysis {
		add(g.Classification, g.Severity, float64(g.Confidence), nil, g.Evidence, g.Description, g.Remediation)
	}
	leak.Sort(all)
	return all
}

// evidenceOf returns a figure of a preset as evidence.
func evidenceOf(f preset.Figure) leak.Evidence {
	e := leak.Evidence{Figure: leak.ForeignFigure(f.Name)}
	switch v := f.Value.(type) {
	case preset.Float:
		e.Value = float64(v)
	case int64:
		e.Value = float64(v)
	case int:
		e.Value = float64(v)
	default:
		e.Text = fmt.Sprint(v)
	}
	if math.IsNaN(e.Value) || math.IsInf(e.Value, 0) { // JSON has no word for it
		e.Value, e.Text = 0, fmt.Sprint(e.Value)
	}
	return e
}

// meets counts the findings that --fail-on asks for.
func (r *rules) meets(found []leak.Finding) (n int) {
	severity, isSeverity := leak.ParseSeverity(r.failOn)
	for _, f := range found {
		if r.failOn != "" && (isSeverity && f.Severity >= severity || !isSeverity && f.Rule == r.failOn) {
			n++
		}
	}
	return n
}

// verdict returns an error with status 1 where n findings meet --fail-on.
func (r *rules) verdict(n int) error {
	if n == 0 {
		return nil
	}
	return fail(statusFound, "--fail-on %s: %s", r.failOn, count(n, "finding"))
}
