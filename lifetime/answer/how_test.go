package answer_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/whatif"
)

// TestHow: a statement says whether it was recorded, is derived or inferred.
func TestHow(t *testing.T) {
	all := map[string]bool{}
	for _, file := range []string{"whatif/leak.pickle.zst", "torchsnap/leak_4mib_20steps.pickle", "whatif/lightning.pickle.zst", "torchsnap/frag_oom.pickle", "replay/b16.c2.oom.pickle.zst"} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		says := func(what, how string, sure bool) {
			if all[what+" "+how] = true; sure != (how != "inferred") {
				t.Errorf("%s: %s is %s", file, what, how)
			}
		}
		for _, s := range answer.InfoOf(c.Outline()).Spaces {
			if s.Steps != nil {
				says("step", s.Steps.How, !s.Steps.Inferred)
			}
		}
		leaks := answer.LeaksOf(c, "")
		for _, f := range leaks.Findings {
			says("finding", f.How, f.Confidence == 1 || len(f.HeldBy) > 0)
			if len(f.HeldBy) > 0 {
				says("holder", f.HeldBy[0].How, true)
				says("cause", f.EvidenceHow["likely_cause"], true)
				says("group", f.EvidenceHow["cause"], f.EvidenceHow["cause"] != "inferred")
			} else if f.Leak {
				says("cause", f.EvidenceHow["likely_cause"], false)
			}
		}
		for _, f := range leaks.OOMs {
			says("reason", f.How, f.Proof != nil && strings.HasPrefix(*f.Proof, "with "))
		}
		var tuning answer.Tuning
		if err := tuning.Add(c); err != nil {
			t.Fatal(err)
		}
		tune, err := tuning.Tune(nil, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range tune.Settings {
			if says("setting", s.How, s.Exact); i > 0 && s.How == "recorded" {
				t.Errorf("%s: %s is recorded", file, s.Conf)
			}
		}
		edits, _ := whatif.Parse("batch=2")
		var changed answer.Changed
		spaces, err := answer.WhatIfOf(c, answer.WhatIfAsked{Scenarios: []whatif.Scenario{edits}, Changed: &changed})
		if err != nil {
			t.Fatal(err)
		}
		if c := changed.Before; c != nil && !strings.HasSuffix(c.Name(), ", replayed") {
			t.Errorf("%s: a picture calls what was replayed %s", file, c.Name())
		}
		for _, s := range spaces[0].Scenarios {
			if recorded := len(s.Edits) == 0 && !spaces[0].Failed; s.Refused == "" {
				says("change", s.How, s.Exact || recorded)
			}
		}
	}
	for _, want := range []string{"step recorded", "finding inferred", "finding derived", "reason derived", "setting recorded", "setting derived",
		"holder recorded", "cause recorded", "cause inferred", "group recorded",
		"change recorded", "change inferred"} {
		if !all[want] {
			t.Errorf("no %s: %v", want, all)
		}
	}
}
