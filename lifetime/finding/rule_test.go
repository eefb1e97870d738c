package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestRules: every rule has a unique name, a kind and a description. Two compare captures, the others examine spaces.
func TestRules(t *testing.T) {
	names := map[string]bool{}
	for _, r := range finding.Rules() {
		if names[r.Name] || r.Doc == "" || r.Kind == finding.KindForeign || (r.Run == nil) != (r.Name == "rank_outlier" || r.Name == "series") {
			t.Errorf("%+v", r)
		}
		names[r.Name] = true
	}
	if len(names) != 18 {
		t.Errorf("%d rules", len(names))
	}
	if got, want := fmt.Sprint([]finding.Kind{finding.KindForeign, finding.KindLeak, finding.KindFailure, finding.KindRetention,
		finding.KindUsage, finding.KindWaste, finding.KindProgram}),
		"[foreign leak failure retention usage waste program]"; got != want {
		t.Errorf("kinds %s, want %s", got, want)
	}
}

// TestFigures: figures and causes have unique names and a description.
func TestFigures(t *testing.T) {
	names := map[string]bool{}
	for _, f := range finding.Figures {
		if names[f.Name] || f.Unit == finding.UnitForeign || f.Doc == "" {
			t.Errorf("%+v", f)
		}
		names[f.Name] = true
	}
	for c := finding.FailedAllocations; c <= finding.Concatenation; c++ {
		if names[c.String()] || c.String() == "" || c.Doc() == "" || !isLine(c.Advice()) {
			t.Errorf("%s: %q %q", c, c.Doc(), c.Advice())
		}
		names[c.String()] = true
	}
	if f := finding.ForeignFigure("max_z_score"); f.Name != "max_z_score" || f.Unit != finding.UnitForeign ||
		slices.Contains(finding.Figures, f) {
		t.Errorf("%+v", f)
	}
}

// isLine reports whether advice fits one line of 80 columns after its "  > ".
func isLine(advice string) bool { return advice != "" && len(advice) <= 76 }

// find runs the rules and checks what must be true of every finding.
func find(t testing.TB, c *lifetime.Capture, settings finding.Settings) []finding.Finding {
	t.Helper()
	j := judge.Of(c)
	j.Settings = settings
	all := j.Findings()
	for i := range all {
		checkFinding(t, &all[i])
	}
	return all
}

// checkFinding checks that a finding has the kind of its rule, evidence from the table, a cause if it is a leak or a
// failure, and one line of advice, or one for each recorded holder.
func checkFinding(t testing.TB, f *finding.Finding) {
	t.Helper()
	at := slices.IndexFunc(finding.Rules(), func(r finding.Rule) bool { return r.Name == f.Rule })
	if at < 0 || f.Kind != finding.Rules()[at].Kind || f.Space == nil || f.Confidence <= 0 || f.Confidence > 1 || f.Description == "" ||
		len(f.Suggestions) == 0 || len(f.Suggestions) > max(1, len(f.Held)) {
		t.Errorf("incomplete: %+v", f)
	}
	for _, e := range f.Evidence {
		if !slices.Contains(finding.Figures, e.Figure) || (e.Unit == finding.UnitText) != (e.Text != "") {
			t.Errorf("%s: evidence %+v", f.Rule, e)
		}
	}
	if f.Text(finding.FigLikelyCause) != f.Cause.String() || (f.Kind == finding.KindLeak) != (f.Cause != finding.NoCause) {
		t.Errorf("%s: cause %q, evidence has %q", f.Rule, f.Cause, f.Text(finding.FigLikelyCause))
	}
	if d := f.Failures; d != nil && (f.Text(finding.FigReason) != string(d[0].Reason) || f.Confidence != d[0].Confidence ||
		f.Suggestions[0] != d[0].Advice) {
		t.Errorf("%s is not as %+v", f.Description, d[0])
	}
	for _, advice := range f.Suggestions {
		long := func(text string) bool { return text != "" && strings.Contains(advice, text) } // it names a place or settings
		if !isLine(advice) && f.Failures == nil && !long(f.Text(finding.FigCausePlace)) && !long(f.Text(finding.FigPinnedBy)) &&
			!long(f.Text(finding.FigReplayedConf)) && !long(f.Text(finding.FigFreedBy)) {
			t.Errorf("%s: advice of %d columns: %s", f.Rule, len(advice), advice)
		}
	}
}
