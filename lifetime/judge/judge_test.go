package judge_test

import (
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
)

// TestNew checks that New finds what buffers are for before the rules, which use it, and that it marks leaks. Without
// the categories of the timeline, there would be a leak.
func TestNew(t *testing.T) {
	leaked := func(file string) (marked int, found []finding.Finding) {
		c, err := formats.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		found = judge.New(c, finding.Settings{}).Findings()
		for _, s := range c.Spaces {
			for i := range s.Buffers {
				if c.Purpose(s.PurposeOf(i)).Category == purpose.Leaked {
					marked++
				}
			}
		}
		return marked, found
	}
	if _, found := leaked("chrome/cuprof_leak.timeline.raw.json.gz"); found == nil || len(found) > 0 {
		t.Errorf("%d findings in a timeline", len(found))
	}
	if marked, found := leaked("labelled/d01_list_act.pickle.zst"); marked != 40 || len(found) == 0 || found[0].Amount.Count != 40 {
		t.Errorf("%d buffers are marked; findings %v", marked, found)
	}
	if found := judge.Of(&lifetime.Capture{}).Findings(); found == nil {
		t.Error("no findings are nil")
	}
}
