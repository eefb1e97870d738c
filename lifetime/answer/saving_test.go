package answer_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestSavings: what a change saves is the drop of the peak when the buffers of its category are taken away, computed here from
// a list of all events.
func TestSavings(t *testing.T) {
	files, err := filepath.Glob("../../testdata/meaning/*.pickle.zst")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	categories := map[string]purpose.Category{"checkpoint": purpose.Activation, "no_grad": purpose.Activation, "offload": purpose.OptimizerState, "cache": purpose.Cache}
	found := map[string]int{}
	for _, file := range files {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			peak := s.Peak(lifetime.Occupied)
			last := peak.Bytes
			savings := answer.PeakOf(&c.Tables, s, peak.At).Savings
			if len(savings) > 5 {
				t.Errorf("%s: %d changes", file, len(savings))
			}
			sameForGroups(t, c, s, savings)
			for _, saving := range savings {
				found[saving.Action]++
				if saving.SavesBytes+saving.PeakBytes != peak.Bytes || saving.SavesBytes > last || float64(saving.SavesBytes) < 0.05*float64(peak.Bytes) {
					t.Errorf("%s: %+v at a peak of %d", file, saving, peak.Bytes)
				}
				last = saving.SavesBytes
				category, ok := categories[saving.Action]
				if want := peakWithout(c, s, category); ok && saving.PeakBytes != want {
					t.Errorf("%s: %s leaves %d, want %d", file, saving.Action, saving.PeakBytes, want)
				}
			}
		}
	}
	for _, action := range []string{"checkpoint", "offload", "cache", "zero_grad"} {
		if found[action] == 0 {
			t.Errorf("no capture has %s; found %v", action, found)
		}
	}
}

// TestForeach: another run of the program with foreach=False has the peak that is foretold.
func TestForeach(t *testing.T) {
	const real = 632020992
	if saving := savingOf(t, "mlp", "foreach"); saving == nil || math.Abs(float64(saving.PeakBytes)/real-1) > 0.001 {
		t.Errorf("%+v, want a peak of %d", saving, real)
	}
}

// TestDroppedGraph: nothing has to be computed again for a backward pass that never runs.
func TestDroppedGraph(t *testing.T) {
	if savingOf(t, "dropped", "no_grad") == nil || savingOf(t, "dropped", "checkpoint") != nil {
		t.Error("want no_grad, and no checkpoint")
	}
}

// TestReplacedResult: the result of a line lives until the line has computed the next one. A run of the program with del has the peak that
// is foretold. No backward pass ever runs, so nothing has to be computed again for it.
func TestReplacedResult(t *testing.T) {
	const real = 37376000
	if saving := savingOf(t, "replaced", "del"); saving == nil || saving.PeakBytes != real || !strings.Contains(saving.Text, "main (replaced.py:38)") {
		t.Errorf("%+v, want a peak of %d", saving, real)
	}
	if savingOf(t, "replaced", "no_grad") == nil || savingOf(t, "replaced", "checkpoint") != nil {
		t.Error("want no_grad, and no checkpoint")
	}
	for _, name := range []string{"dropped", "mlp", "gpt_small"} {
		if saving := savingOf(t, name, "del"); saving != nil {
			t.Errorf("%s: %+v", name, saving)
		}
	}
}

// TestTimelineOfTraining: a timeline has no stacks, so no backward pass is seen. Its gradients tell that there was one.
func TestTimelineOfTraining(t *testing.T) {
	const timeline = `[[-1, 1, 1048576, 0], [1000, 2, 4194304, 4], [2000, 2, 1048576, 5], [3000, 4, 4194304, 4], [4000, 4, 1048576, 5]]`
	file := filepath.Join(t.TempDir(), "timeline.raw.json")
	if err := os.WriteFile(file, []byte(timeline), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	savings := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At).Savings
	if len(savings) != 1 || savings[0].Action != "checkpoint" {
		t.Errorf("%+v, want checkpoint", savings)
	}
}

// TestDroppedInTraining: a validation with autograd on sets the peak of a training.
func TestDroppedInTraining(t *testing.T) {
	if savingOf(t, "../meaning/principles/w02", "no_grad") == nil {
		t.Error("want no_grad")
	}
}

// TestLossInChunks: the logits, their copies, the logarithm of their softmax and the gradients are one chain, which a line of the program
// begins. The largest buffers of the peak have no stack: the autograd engine allocates them.
func TestLossInChunks(t *testing.T) {
	saving := savingOf(t, "../meaning/a17", "chunk")
	if saving == nil || saving.Site == nil || saving.Site.Name != "forward (gpt_tied.py:29)" || saving.Buffers != 4 {
		t.Errorf("%+v", saving)
	}
}

// TestPreviousResult: another run of the program, which deletes its result before the next pass, has the peak that is foretold.
func TestPreviousResult(t *testing.T) {
	const real = 59935744
	if saving := savingOf(t, "../meaning/principles/w05", "del"); saving == nil || saving.PeakBytes != real {
		t.Errorf("%+v, want a peak of %d", saving, real)
	}
}

// savingOf returns a change that would lower the peak of a capture; nil if it is not told.
func savingOf(t *testing.T, name, action string) *answer.Saving {
	t.Helper()
	c, err := judged.Open("../../testdata/whatif/"+name+".pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	savings := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At).Savings
	for i := range savings {
		if savings[i].Action == action {
			return &savings[i]
		}
	}
	return nil
}

// sameForGroups checks that what is advised does not depend on what the memory is summed up by.
func sameForGroups(t *testing.T, c *lifetime.Capture, s *lifetime.Space, savings []answer.Saving) {
	t.Helper()
	for _, by := range []selection.By{selection.ByFunction, selection.ByLayer, selection.ByPhase} {
		grouped, err := selection.GroupBy(c, by)
		if err != nil { // no buffer has a group
			continue
		}
		g := grouped.Spaces[slices.Index(c.Spaces, s)]
		if got := answer.PeakOf(&grouped.Tables, g, g.Peak(lifetime.Occupied).At).Savings; !reflect.DeepEqual(got, savings) {
			t.Errorf("%s by %s: %+v, want %+v", c.Name(), by, got, savings)
		}
	}
}

// peakWithout returns the peak without the buffers of a category.
func peakWithout(c *lifetime.Capture, s *lifetime.Space, category purpose.Category) (peak int64) {
	type event struct{ at, bytes int64 }
	var events []event
	for i, b := range s.Buffers {
		if c.Purpose(s.PurposeOf(i)).Category == category {
			continue
		}
		events = append(events, event{b.Begin, b.Size})
		if b.Edge&lifetime.EndOpen == 0 {
			events = append(events, event{b.End, -b.Size})
		}
	}
	slices.SortStableFunc(events, func(x, y event) int {
		if x.at != y.at {
			return int(min(max(x.at-y.at, -1), 1))
		}
		return int(min(max(x.bytes, -1), 1) - min(max(y.bytes, -1), 1)) // frees first
	})
	level := s.Base
	for _, e := range events {
		level += e.bytes
		peak = max(peak, level)
	}
	return peak
}
