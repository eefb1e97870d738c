package answer_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/outline"
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
	for of, want := range map[answer.TuneSetting]string{
		{Outcome: "ok", Exact: true}:    "it does not run out of memory; ",
		{Outcome: "ok"}:                 "it may not run out of memory; ",
		{Outcome: "later", Exact: true}: "it gets past the request that failed; ", // a leak fills the memory again
	} {
		of.Conf, of.HighBytes = "x", &high
		out := answer.Tune{Recommended: "x", Settings: []answer.TuneSetting{{Conf: "default", Outcome: "oom", PeakReservedBytes: 80}, of}}
		if _, reason := out.Verdict(); !strings.HasPrefix(reason, want) {
			t.Errorf("%+v: %q", of, reason)
		}
	}
}

// TestTuneRecorded: with the recorded settings the peaks are those that were recorded; what a replay counts is beside them.
func TestTuneRecorded(t *testing.T) {
	for _, file := range []string{"torchsnap/t215_expandable.pickle", "replay/b06.pickle.zst", "replay/b13.c2.oom.pickle.zst"} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
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
		space, own := answer.InfoOf(outline.Of(c)).Spaces[0], out.Settings[0]
		replayed := strings.HasSuffix(own.Result(), " replayed")
		if own.PeakLiveBytes != space.Peak.Bytes || own.PeakReservedBytes != *space.ReservedPeakBytes || replayed != (own.OOMEvent == nil && units.Bytes(own.ReplayedBytes) != units.Bytes(own.PeakLiveBytes)) {
			t.Errorf("%s: %+v, %q; recorded %d of %d reserved", file, own, own.Result(), space.Peak.Bytes, *space.ReservedPeakBytes)
		}
	}
}
