package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/preset"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
)

const defaultRules = "default"

func ruleFlags() []cli.Flag {
	choices := []word{{defaultRules, "the rules of memlane"}}
	for i := range preset.Presets {
		choices = append(choices, word{preset.Presets[i].Name, preset.Presets[i].Doc})
	}
	return []cli.Flag{
		oneOf(&cli.StringFlag{Name: "rules", Value: defaultRules, DefaultText: "memlane's own",
			Usage: "`RULES`: " + orList(choices)}, choices...),
		&cli.GenericFlag{Name: "threshold", Value: &texts{}, Usage: "set the threshold `NAME=V`; can be repeated"},
		&cli.StringFlag{Name: "function", Usage: "only functions that match `REGEXP`, and their callees"},
		suggesting(&cli.StringFlag{Name: "fail-on",
			Usage: "exit status 1 for findings of `LEVEL` or above: critical, warning, info; or of the rule LEVEL"},
			append(severities(), (&rules{}).list()...)...),
	}
}

func severities() []word {
	return named(finding.Critical.String(), finding.Warning.String(), finding.Info.String())
}

// texts is the value of a flag that can be repeated. Commas are part of a text.
type texts []string

func (t *texts) String() string { return strings.Join(*t, " ") }

// Set adds a value.
func (t *texts) Set(value string) error {
	*t = append(*t, value)
	return nil
}

// ownThresholds are the thresholds of memlane's rules: sizes, or shares.
var ownThresholds = []struct {
	name, doc string
	usual     string // default value
	set       func(s *finding.Settings, value string) error
}{
	{"critical_bytes", "leak, growing_buffer: a leak of at least this size is critical", "1GiB",
		func(s *finding.Settings, value string) error { return setSize(&s.Critical, value) }},
	{"limit_bytes", "leak, oom: capacity of the device", "from the capture", func(s *finding.Settings, value string) error { return setSize(&s.Limit, value) }},
	{"min_leak_bytes", "leak, growing_buffer: a smaller leak is info", "32KiB", func(s *finding.Settings, value string) error { return setSize(&s.Least, value) }},
	{"min_confidence", "leak, growing_buffer: a leak with less confidence is info", "0", func(s *finding.Settings, value string) error { return setShare(&s.Sure, value) }},
}

func setSize(to *int64, value string) error {
	n, err := units.ParseBytes(value)
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is not a size such as 80GiB", value)
	}
	*to = n
	return nil
}

func setShare(to *float64, value string) error {
	share, err := strconv.ParseFloat(value, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return fmt.Errorf("%q is not a share from 0 to 1, such as 0.5", value)
	}
	*to = share
	return nil
}

// rules are the rules that a command line selects, and their results.
type rules struct {
	preset     *preset.Preset // nil = memlane's own
	thresholds preset.Thresholds
	settings   finding.Settings
	failOn     string

	ranks    *answer.Ranks
	report   *preset.Optimization // of the last capture; nil for memlane's own rules
	series   finding.Series
	outliers []finding.Finding       // about ranks that differ from the others, or about a series
	met      int                     // findings that meet --fail-on
	unjudged *selection.NothingError // the first capture to which no rule applies, with --fail-on
}

func rulesOf(c *cli.Context) (r *rules, err error) {
	r = &rules{failOn: c.String("fail-on")}
	for i := range preset.Presets {
		if p := &preset.Presets[i]; p.Name == c.String("rules") {
			r.preset, r.thresholds = p, maps.Clone(p.Thresholds)
		}
	}
	if r.settings.Function, err = regexpOf(c, "function"); err != nil {
		return nil, err
	}
	for _, set := range *c.Generic("threshold").(*texts) {
		name, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, usage("--threshold %q: use NAME=VALUE; memlane leaks --list-rules lists the names", set)
		}
		if err := r.set(name, value); err != nil {
			return nil, usage("--threshold %s: %w", set, err)
		}
	}
	if words := append(severities(), r.list()...); r.failOn != "" && !hasWord(words, r.failOn) {
		return nil, usage("--fail-on %q: use %s, or a rule from memlane leaks --list-rules%s",
			r.failOn, orList(severities()), suggestion(r.failOn, words))
	}
	if r.ranks, err = ranksOf(c); err != nil {
		return nil, err
	}
	r.ranks.Judged = true
	return r, nil
}

// tool returns the name of the tool that the rules come from; "" for memlane's own.
func (r *rules) tool() string {
	if r.preset == nil {
		return ""
	}
	return r.preset.Name
}

// name returns the value of --rules.
func (r *rules) name() string { return cmp.Or(r.tool(), defaultRules) }

func (r *rules) set(name, value string) error {
	if r.preset != nil {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", value)
		}
		return r.thresholds.Set(name, v)
	}
	var names []word
	for _, t := range ownThresholds {
		if t.name == name {
			return t.set(&r.settings, value)
		}
		names = append(names, word{t.name, t.doc})
	}
	return fmt.Errorf("unknown threshold %q; use %s, which memlane leaks --list-rules explains%s", name, orList(names), suggestion(name, names))
}

func (r *rules) list() (all []word) {
	if r.preset != nil {
		for _, rule := range preset.Rules {
			all = append(all, word{rule.Name, preset.DocOf(rule.Name)})
		}
		return all
	}
	for _, rule := range finding.Rules() {
		all = append(all, word{rule.Name, rule.Doc})
	}
	return all
}

func listRules(w io.Writer) {
	fmt.Fprintf(w, "--rules %s: the rules of memlane\n", defaultRules)
	printColumn(w, 6, (&rules{}).list()...)
	for _, t := range ownThresholds {
		printColumn(w, 6, word{t.name + "=" + t.usual, t.doc})
	}
	for i := range preset.Presets {
		p := &preset.Presets[i]
		fmt.Fprintf(w, "\n%s\n", text.Wrap(fmt.Sprintf("--rules %s: %s", p.Name, p.Doc), "  "))
		if i == 0 {
			printColumn(w, 6, (&rules{preset: p}).list()...)
		} else {
			fmt.Fprintf(w, "  the same rules\n")
		}
		fmt.Fprintf(w, "  thresholds\n")
		for _, name := range p.Thresholds.Names() {
			printColumn(w, 6, word{fmt.Sprintf("%s=%v", name, p.Thresholds[name]), preset.DocOf(name)})
		}
	}
}

// each reads the captures of a command line, applies the rules to each and passes it to take. The rules of other tools
// apply to calls, so they also accept captures without memory.
func (r *rules) each(c *cli.Context, take func(*judge.Capture)) error {
	chosen, err := selectionOf(c)
	if err != nil {
		return err
	}
	reading := thatFind(r.settings)
	if r.preset != nil {
		reading = captures(build.Calls)
	}
	part := reading.part
	reading.part = func(selection *selection.Selection, capture *judge.Capture) (*judge.Capture, error) {
		if len(capture.Spaces) == 0 && capture.Sources[0].Traits.Calls {
			return capture, nil
		}
		return part(selection, capture)
	}
	err = reading.each(c, &chosen, func(capture *judge.Capture) error {
		r.find(capture)
		if why := answer.Unjudged(capture.Capture); why != "" && r.failOn != "" && r.unjudged == nil {
			r.unjudged = &selection.NothingError{File: capture.Name(), Why: "--fail-on cannot be judged: " + why}
		}
		r.met += r.meetFailOn(capture.Findings())
		r.ranks.Add(capture.Outline())
		r.series.Add(capture.Capture)
		take(capture)
		return nil
	})
	if r.preset == nil && r.settings.Function == nil {
		r.outliers = r.ranks.Outliers()
		if !r.ranks.Known() && r.series.Captures() > 0 { // of captures that cannot be judged alone
			r.outliers, r.unjudged = r.series.Findings(), nil
		}
		r.met += r.meetFailOn(r.outliers)
	}
	return err
}

// find applies the rules of another tool to a capture. memlane's own run when their findings are first needed.
func (r *rules) find(capture *judge.Capture) {
	capture.Settings = r.settings
	if r.preset == nil {
		return
	}
	calls := preset.CallsOf(capture.Capture)
	if r.settings.Function != nil {
		matches := selection.Matching(&capture.Tables, r.settings.Function)
		calls = slices.DeleteFunc(slices.Clone(calls), func(call lifetime.Call) bool { return !matches(call.Site) })
	}
	r.report = r.preset.Optimize(capture.Capture, calls, r.thresholds)
	capture.Found = append([]finding.Finding{}, r.report.Findings(capture.Capture, calls)...)
}

func (r *rules) meetFailOn(found []finding.Finding) (n int) {
	severity, isSeverity := finding.ParseSeverity(r.failOn)
	for _, f := range found {
		if r.failOn != "" && (isSeverity && f.Severity >= severity || !isSeverity && f.Rule == r.failOn) {
			n++
		}
	}
	return n
}

func (r *rules) checkFailOn() error {
	switch {
	case r.met > 0:
		return failOnMet("%s: %s", r.failOn, units.Plural(r.met, "finding"))
	case r.unjudged != nil:
		return r.unjudged
	}
	return nil
}
