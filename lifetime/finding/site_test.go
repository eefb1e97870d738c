package finding_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// snapshots returns the PyTorch snapshots and XProf profiles of testdata.
func snapshots(t *testing.T) (all []*lifetime.Capture) {
	t.Helper()
	for _, glob := range []string{"torchsnap/*.pickle", "xplane/*.pb"} {
		files, err := filepath.Glob("../../testdata/" + glob)
		if err != nil || len(files) == 0 {
			t.Fatal(glob, err)
		}
		for _, file := range files {
			c, err := formats.Open(file, formats.Input{})
			if err != nil {
				continue // it has no allocations
			}
			all = append(all, c)
		}
	}
	return all
}

// TestRuleNames: nothing depends on the names of rules.
func TestRuleNames(t *testing.T) {
	renamed := finding.Rules()
	for i := range renamed {
		renamed[i].Name = fmt.Sprint("rule ", i)
	}
	for _, c := range snapshots(t) {
		want, got := judge.Of(c).Findings(), finding.Find(judge.Of(c), c.Spaces, finding.Settings{Rules: renamed})
		if len(got) != len(want) {
			t.Fatalf("%d findings, want %d", len(got), len(want))
		}
		for i := range want {
			g, w := &got[i], &want[i]
			if g.Rule == w.Rule || g.Kind != w.Kind || g.Severity != w.Severity || g.IsLeak() != w.IsLeak() || g.Description != w.Description {
				t.Errorf("%s: %+v, want %+v", c.Sources[0].File, g, w)
			}
		}
	}
	if own := finding.Rules(); own[0].Name != "oom" {
		t.Errorf("a change of the slice changed the rules: %s", own[0].Name)
	}
}
