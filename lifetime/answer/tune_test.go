package answer_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime/answer"
)

// TestTuneOfLeaks: where a leak grows, no setting helps for long.
func TestTuneOfLeaks(t *testing.T) {
	for file, leaks := range map[string]bool{"d01_list_act": true, "d14_healthy": false} {
		c, err := judged.Open("../../testdata/labelled/"+file+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		var tuning answer.Tuning
		if err := tuning.Add(c); err != nil {
			t.Fatal(err)
		}
		out, err := tuning.Tune([]answer.Conf{{Text: "default"}}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		_, reason := out.Verdict()
		if strings.Contains(reason, "no setting helps for long: ") != leaks || strings.HasPrefix(out.Next, "memlane leaks") != leaks {
			t.Errorf("%s: %q, next %q", file, reason, out.Next)
		}
	}
}

// TestTuneFollowsTable: the verdict does not deny what a row of the table shows.
func TestTuneFollowsTable(t *testing.T) {
	high := int64(90)
	for outcome, want := range map[string]string{"ok": "with x it may not run out of memory", "oom": "no other settings avoid the OOM"} {
		out := answer.Tune{Keep: true, Settings: []answer.TuneSetting{
			{Conf: "default", Outcome: "oom", PeakReservedBytes: 80}, {Conf: "x", Outcome: outcome, PeakReservedBytes: 85, HighBytes: &high, Range: true},
		}}
		if _, reason := out.Verdict(); !strings.HasPrefix(reason, want) {
			t.Errorf("%s: %q", outcome, reason)
		}
	}
}
