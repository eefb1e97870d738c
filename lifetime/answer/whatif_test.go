package answer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/lifetime/whatif"
)

// TestSavings: peak and whatif tell the same changes with the same figures, whatever the memory is summed up by, the cheapest first. None may
// raise the peak, which is the recorded one.
func TestSavings(t *testing.T) {
	files, err := filepath.Glob("../../testdata/meaning/*.pickle.zst")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	order := []string{"free-early", "set_to_none", "no_grad", "foreach", "loss.chunks", "batch", "checkpoint", "optimizer", "offload", "optimizer.device"}
	found := map[string]int{}
	for _, file := range files[:len(files)/deep.Or(6, 2)] {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		told, _ := answer.WhatIfOf(c, answer.WhatIfAsked{})
		for i, s := range c.Spaces {
			savings := savingsOf(c, s)
			sameForGroups(t, c, s, savings)
			if i < len(told) && len(told[i].Scenarios) > 0 && !reflect.DeepEqual(savings, told[i].Scenarios[1:]) {
				t.Errorf("%s: peak says %+v, whatif %+v", file, savings, told[i].Scenarios[1:])
			}
			last, peak := 0, s.Peak(lifetime.Occupied).Bytes
			if i < len(told) && !told[i].Failed && len(told[i].Scenarios) > 0 && *told[i].Scenarios[0].PeakBytes != peak {
				t.Errorf("%s: the peak is %d, whatif %d", file, peak, *told[i].Scenarios[0].PeakBytes)
			}
			for _, saving := range savings {
				name, _, _ := strings.Cut(saving.Edits[0], "=")
				found[name]++
				if at := slices.Index(order, name); at < last {
					t.Errorf("%s: %s is cheaper than %s", file, name, order[last])
				} else {
					last = at
				}
				if saving.Advice == "" || *saving.SavedBytes <= 0 || *saving.LowBytes > *saving.PeakBytes || *saving.HighBytes < *saving.PeakBytes || *saving.HighBytes >= peak {
					t.Errorf("%s: %+v", file, saving)
				}
			}
		}
	}
	for _, name := range []string{"checkpoint", "optimizer", "loss.chunks", "optimizer.device", "batch"} {
		if found[name] == 0 {
			t.Errorf("no capture has %s; found %v", name, found)
		}
	}
}

// TestWithoutLeaks: a program that summed losses with their graphs, and another run of it that detached them.
func TestWithoutLeaks(t *testing.T) {
	const real = 93748736
	c, err := judged.Open("../../testdata/whatif/leak.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	all := answer.LeaksOf(c, "").Without
	if len(all) != 1 || all[0].PeakBytes != 200297984 || all[0].LowBytes > real || all[0].HighBytes < real || all[0].HighBytes > real+real/50 {
		t.Errorf("%+v, but the program needed %d", all, real)
	}
	c.Found = slices.DeleteFunc(c.Found, func(f finding.Finding) bool { return f.IsLeak() })
	if all = answer.LeaksOf(c, "").Without; all != nil {
		t.Errorf("%+v without a leak", all)
	}
}

// TestSavingsAreTrue: another run of the program with the change has a peak in the range that is foretold.
func TestSavingsAreTrue(t *testing.T) {
	for _, of := range []struct {
		name, edit string
		real       int64
		place      string
	}{
		{"mlp", "foreach=fused", 620234752, ""},
		{"replaced", "free-early=replaced.py:38", 37376000, "main (replaced.py:38)"}, // the result of a line lives until the line has computed the next one
		{"../meaning/principles/w05", "free-early=p2_sr.py:9", 59935744, "main (p2_sr.py:9)"},
	} {
		saving := savingOf(t, of.name, of.edit)
		switch {
		case saving == nil:
			t.Errorf("%s: no %s", of.name, of.edit)
		case *saving.LowBytes > of.real || *saving.HighBytes < of.real:
			t.Errorf("%s: %s leaves %d to %d, but the program needed %d", of.name, of.edit, *saving.LowBytes, *saving.HighBytes, of.real)
		case (saving.Site != nil) != (of.place != "") || saving.Site != nil && saving.Site.Name != of.place:
			t.Errorf("%s: %s is about %+v", of.name, of.edit, saving.Site)
		}
	}
}

// TestBatches: the counters of a program that ran with six batches are in the ranges that recordings with two of them foretell.
func TestBatches(t *testing.T) {
	data, err := os.ReadFile("../../testdata/replay/batch.truth.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Batch    float64
		Conf     string
		Reserved int64 `json:"peak_reserved"`
		Live     int64 `json:"peak_allocated"`
	}
	if err := json.Unmarshal(data, &runs); err != nil {
		t.Fatal(err)
	}
	for name, recorded := range map[string]float64{"batch16": 16, "batch32": 32} {
		c, err := judged.Open("../../testdata/replay/"+name+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, r := range runs {
			if r.Conf != "" || r.Batch == recorded { // other settings than the recorded ones are not replayed
				continue
			}
			changes, err := whatif.Parse(fmt.Sprintf("batch=%g", r.Batch/recorded))
			if err != nil {
				t.Fatal(err)
			}
			all, err := answer.WhatIfOf(c, answer.WhatIfAsked{Scenarios: []whatif.Scenario{changes}})
			if err != nil {
				t.Fatal(err)
			}
			tried++
			if s := &all[0].Scenarios[1]; r.Live < *s.LowBytes || r.Live > *s.HighBytes || r.Reserved < *s.ReservedLowBytes || r.Reserved > *s.ReservedHighBytes {
				t.Errorf("%s: with a batch of %g: %+v, but the program needed %d, and reserved %d", name, r.Batch, s, r.Live, r.Reserved)
			}
		}
		if tried != 6 {
			t.Errorf("%s: %d runs, want 6", name, tried)
		}
	}
}

// TestDroppedGraph: nothing has to be computed again for a backward pass that never runs. In a validation whose graphs set the peak of a training, no_grad
// is told first; checkpointing the blocks that it shares with the training lowers it, too.
func TestDroppedGraph(t *testing.T) {
	for _, name := range []string{"dropped", "../meaning/principles/w02"} {
		trains := strings.HasSuffix(name, "w02")
		if savingOf(t, name, "no_grad=evaluation") == nil || (savingOf(t, name, "checkpoint=blocks") != nil) != trains {
			t.Errorf("%s: want no_grad, and no checkpoint", name)
		}
	}
	if savingOf(t, "gpt_small", "no_grad=evaluation") != nil {
		t.Error("a backward pass runs over all that is kept")
	}
}

// savingOf returns a change that would lower the peak of a capture; nil if it is not told.
func savingOf(t *testing.T, name, edit string) *answer.WhatIfScenario {
	t.Helper()
	c, err := judged.Open("../../testdata/whatif/"+name+".pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	savings := savingsOf(c, s)
	for i := range savings {
		if savings[i].Edits[0] == edit {
			return &savings[i]
		}
	}
	return nil
}

// savingsOf returns what would lower the peak of a space.
func savingsOf(c *judge.Capture, s *lifetime.Space) []answer.WhatIfScenario {
	p := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At)
	p.AddSavings(c, s)
	return p.Savings
}

// sameForGroups checks that what is advised does not depend on what the memory is summed up by.
func sameForGroups(t *testing.T, c *judge.Capture, s *lifetime.Space, savings []answer.WhatIfScenario) {
	t.Helper()
	for _, by := range []selection.By{selection.ByFunction, selection.ByLayer, selection.ByPhase} {
		grouped, err := selection.GroupBy(c.Capture, by)
		if err != nil { // no buffer has a group
			continue
		}
		g := grouped.Spaces[slices.Index(c.Spaces, s)]
		if got := savingsOf(judge.Of(grouped), g); !reflect.DeepEqual(got, savings) {
			t.Errorf("%s by %s: %+v, want %+v", c.Name(), by, got, savings)
		}
	}
}

// TestUnchanged: what would lower the peak of a program that ran out of memory are changes, and what they lower has the request that failed. The
// recording ends in a pass.
func TestUnchanged(t *testing.T) {
	c, err := judged.Open("../../testdata/replay/b19.c2.oom.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	at := c.Spaces[0].Peak(lifetime.Occupied)
	p := answer.PeakOf(&c.Tables, c.Spaces[0], at.At)
	if p.AddSavings(c, c.Spaces[0]); len(p.Savings) < 4 || p.Unchanged == nil || *p.Unchanged.ReplayedBytes < at.Bytes+785<<20 || !p.Unfinished {
		t.Fatalf("%+v of %+v", p.Savings, p.Unchanged)
	}
	for _, saving := range p.Savings {
		if len(saving.Edits) == 0 || *saving.HighBytes >= *p.Unchanged.ReplayedBytes {
			t.Errorf("%v: at most %d", saving.Edits, *saving.HighBytes)
		}
	}
}

// TestReservedOfCapacity: what is likely to fit a device reserves no more than that, also where it is not sure.
func TestReservedOfCapacity(t *testing.T) {
	const capacity = 300 << 20
	tried := 0
	for _, file := range []string{"whatif/gpt_small", "replay/b19.c2.oom"} {
		c, err := judged.Open("../../testdata/"+file+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		var scenarios []whatif.Scenario
		for _, edits := range []string{"checkpoint=blocks", "optimizer=adam8bit", "offload=activations", "loss.chunks=8", "batch=0.5"} {
			s, err := whatif.Parse(edits)
			if err != nil {
				t.Fatal(err)
			}
			scenarios = append(scenarios, s)
		}
		e, _ := c.WhatIf(c.Spaces[0])
		of := max(e.Capacity(), capacity)
		told, err := answer.WhatIfOf(c, answer.WhatIfAsked{Scenarios: scenarios, Capacity: of})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range told[0].Scenarios[len(told[0].Scenarios)-len(scenarios):] {
			r := e.Run(scenarios[i], replay.Device{})
			if fits, _ := e.Fits(scenarios[i], &r, of); !fits {
				continue
			}
			if tried++; *s.PeakReservedBytes > of || *s.ReservedHighBytes > of || *s.ReservedLowBytes > of {
				t.Errorf("%s with %v: reserves %d (%d to %d) of %d", file, s.Edits, *s.PeakReservedBytes, *s.ReservedLowBytes, *s.ReservedHighBytes, of)
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d that fit", tried)
	}
}

// TestNextStep: where only one step was recorded, changes are compared with the next one, which needs more. Changes that lower its peak are
// listed even if they need more than the recorded step. Refused changes have no figures.
func TestNextStep(t *testing.T) {
	c, err := judged.Open("../../testdata/whatif/one_step.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	at := c.Spaces[0].Peak(lifetime.Occupied)
	p := answer.PeakOf(&c.Tables, c.Spaces[0], at.At)
	if p.AddSavings(c, c.Spaces[0]); len(p.Savings) < 6 || p.Unchanged == nil || p.Unchanged.Edits[0] != "next-step" || *p.Unchanged.PeakBytes <= at.Bytes {
		t.Fatalf("%+v of %+v at %d", p.Savings, p.Unchanged, at.Bytes)
	}
	base := *p.Unchanged.PeakBytes
	for _, saving := range p.Savings {
		if saving.Edits[0] == "next-step" || *saving.HighBytes >= base || *saving.SavedBytes != base-*saving.PeakBytes {
			t.Errorf("%v: %d to %d, saves %d of %d", saving.Edits, *saving.LowBytes, *saving.HighBytes, *saving.SavedBytes, base)
		}
	}
	edits, err := whatif.Parse("lora=8:*")
	if err != nil {
		t.Fatal(err)
	}
	told, err := answer.WhatIfOf(c, answer.WhatIfAsked{Scenarios: []whatif.Scenario{edits}, Capacity: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if refused := told[0].Scenarios[2]; refused.Refused == "" || refused.PeakBytes != nil || refused.HighBytes != nil || refused.PeakReservedBytes != nil || refused.Fits != nil {
		t.Errorf("%+v", refused)
	}
}
