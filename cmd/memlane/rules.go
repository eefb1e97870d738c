package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/leak/preset"
	"github.com/memlane/memlane/render/text"
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
			return nil, usage("--threshold %q: want NAME=VALUE; memlane leaks --list-rules has the names", set)
		}
		if err := r.set(name, value); err != nil {
			return nil, usage("--threshold %s: %w", set, err)
		}
	}
	if bad := append(severities(), r.list()...); r.failOn != "" && !isWord(bad, r.failOn) {
		return nil, usage("--fail-on %q: want %s, or a rule that memlane leaks --list-rules has%s", r.failOn, orList(severities()), meant(r.failOn, bad))
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
		fmt.Fprintf(w, "\n%s\n", text.Wrap(fmt.Sprintf("--rules %s: %s", p.Name, p.Doc), "  "))
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
	fmt.Fprintf(w, "  %s\n      %s\n", name, text.Wrap(doc, "      "))
}

// tool returns the name of the tool whose rules they are, "" for memlane's own.
func (r *rules) tool() string {
	if r.preset == nil {
		return ""
	}
	return r.preset.Name
}

// each reads the captures of a command line for the rules. Those of other tools look
// at calls, and need no memory.
func (r *rules) each(c *cli.Context, take func(*lifetime.Capture) error) error {
	want, err := selectionOf(c)
	if err != nil {
		return err
	}
	reading := captures(0)
	if r.preset != nil {
		reading.in.Keep = build.Calls
	}
	reading.part = func(want *lifetime.Selection, capture *lifetime.Capture) (*lifetime.Capture, error) {
		if len(capture.Spaces) == 0 && capture.Sources[0].Traits.Calls {
			return capture, nil
		}
		return want.Of(capture)
	}
	return reading.each(c, &want, take)
}

// find applies the rules to a capture. report is that of another tool, nil for
// memlane's own rules.
func (r *rules) find(capture *lifetime.Capture) (found []leak.Finding, report *preset.Report) {
	if r.preset == nil {
		return leak.Find(capture, capture.Spaces, r.settings), nil
	}
	calls := preset.CallsOf(capture)
	if r.settings.Function != nil {
		matches := capture.Matching(r.settings.Function)
		calls = slices.DeleteFunc(slices.Clone(calls), func(call lifetime.Call) bool { return !matches(call.Site) })
	}
	report = r.preset.Report(capture, calls, r.thresholds)
	return answer.PresetFindings(capture, calls, report), report
}

// outliers returns the findings about ranks that differ; none by the rules of others,
// or of a function alone.
func (r *rules) outliers(ranks *answer.Ranks) []leak.Finding {
	if r.preset != nil || r.settings.Function != nil {
		return nil
	}
	return ranks.Outliers()
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
	return foundError{fmt.Errorf("--fail-on %s: %s", r.failOn, units.Several(n, "finding"))}
}
