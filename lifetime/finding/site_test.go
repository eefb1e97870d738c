package finding_test

import (
	"fmt"
	"path/filepath"
	"slices"
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

// TestHistory: the history of each site agrees with the buffers of the space.
func TestHistory(t *testing.T) {
	sites, steps := 0, 0
	compare := finding.Rule{Name: "compare", Run: func(p *finding.Pass) []finding.Finding {
		for site := range p.CallSites() {
			h := p.History(site)
			if len(h.Alive) != len(p.Steps().Ends) {
				t.Fatalf("%d steps, %d amounts", len(p.Steps().Ends), len(h.Alive))
			}
			for k, end := range p.Steps().Ends {
				var want lifetime.Amount
				for _, i := range p.Space.LiveAt(end - 1) {
					if b := &p.Space.Buffers[i]; b.Site == site {
						want.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
					}
				}
				if h.Alive[k] != want {
					t.Errorf("%s: step %d: %+v, want %+v", p.PlaceOf(site), k, h.Alive[k], want)
				}
				steps++
			}
			ended := append(slices.Clone(h.Freed), h.Retained...)
			slices.Sort(ended)
			if !slices.Equal(ended, h.Allocated) {
				t.Errorf("%s: allocated %d, ended %d", p.PlaceOf(site), h.Allocated, ended)
			}
			var want []int
			for i := range p.Space.Buffers {
				if p.Space.Buffers[i].Site == site {
					want = append(want, i)
				}
			}
			if buffers := slices.Sorted(slices.Values(append(ended, h.Older...))); !slices.Equal(buffers, want) {
				t.Errorf("%s: buffers %d, want %d", p.PlaceOf(site), buffers, want)
			}
			sites++
		}
		if h := p.History(0); p.Space.Axis == lifetime.ProgramOrder && h.Allocated != nil {
			t.Errorf("a compiled program has a history: %+v", h)
		}
		return nil
	}}
	for _, c := range snapshots(t) {
		finding.Find(judge.Of(c), c.Spaces, finding.Settings{Rules: []finding.Rule{compare}})
	}
	if sites < 100 || steps < 100 {
		t.Errorf("%d sites, %d steps", sites, steps)
	}
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
