package answer_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/replay"
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
	for outcome, want := range map[string]string{"ok": "with x it may get past the request that failed", "oom": "no other settings avoid the OOM"} {
		out := answer.Tune{Keep: true, Settings: []answer.TuneSetting{
			{Conf: "default", Outcome: "oom", PeakReservedBytes: 80}, {Conf: "x", Outcome: outcome, PeakReservedBytes: 85, HighBytes: &high, Range: true},
		}}
		if _, reason := out.Verdict(); !strings.HasPrefix(reason, want) {
			t.Errorf("%s: %q", outcome, reason)
		}
	}
	for of, want := range map[answer.TuneSetting]string{
		{Outcome: "ok", Exact: true}:    "it does not run out of memory until the recording ends; ",
		{Outcome: "ok"}:                 "it may get past the request that failed; ",
		{Outcome: "later", Exact: true}: "it gets past the request that failed; ", // a leak fills the memory again
	} {
		of.Conf, of.HighBytes = "x", &high
		out := answer.Tune{Recommended: "x", Settings: []answer.TuneSetting{{Conf: "default", Outcome: "oom", PeakReservedBytes: 80}, of}}
		if _, reason := out.Verdict(); !strings.HasPrefix(reason, want) {
			t.Errorf("%+v: %q", of, reason)
		}
	}
}

// TestTuneRecorded: with the recorded settings the peaks are those that were recorded, also where the program went on after a request that failed; what a
// replay counts is beside them. The picture recommends what the table recommends.
func TestTuneRecorded(t *testing.T) {
	for _, file := range []string{"torchsnap/t215_expandable.pickle", "replay/b06.pickle.zst", "replay/b13.c2.oom.pickle.zst", "whatif/retry.pickle.zst", "whatif/table.pickle.zst"} {
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
		if p, ok := tuning.Picture(); ok && p.Helps == out.Keep {
			t.Errorf("%s: keep %t, the picture recommends %q: %t", file, out.Keep, p.Names[1], p.Helps)
		}
		space, own := answer.InfoOf(c.Outline()).Spaces[0], out.Settings[0]
		replayed := strings.HasSuffix(own.Result(), " replayed")
		if own.PeakLiveBytes != space.Peak.Bytes || own.PeakReservedBytes != *space.ReservedPeakBytes || replayed != (own.OOMEvent == nil && units.Bytes(own.ReplayedBytes) != units.Bytes(own.PeakLiveBytes)) {
			t.Errorf("%s: %+v, %q; recorded %d of %d reserved", file, own, own.Result(), space.Peak.Bytes, *space.ReservedPeakBytes)
		}
	}
}

// TestTuneLater: settings that join the free pieces get past a failure of which a leak is the reason, but only for a while: 36 steps keep 1.5 MiB
// each, in segments of 20 MiB, and 5.5 MiB fail.
func TestTuneLater(t *testing.T) {
	const mib = 1 << 20
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x", Format: "torch-snapshot", Producer: "PyTorch"})
	s, at, base, used := b.Space(), int64(0), uint64(0), int64(20*mib)
	site := func(function string) lifetime.SiteID {
		return b.Site(lifetime.Site{Stack: b.Call(b.Frame(frame.Frame{Function: function, File: "a.py", Line: 1, Kind: frame.User}), 0)})
	}
	keep, temporary := site("keep"), site("temporary")
	alloc := func(size int64, site lifetime.SiteID) build.Block {
		if at++; used+size > 20*mib {
			base, used = base+1<<32, 0
			b.Reserve(s, at, lifetime.Region{Addr: base, Size: 20 * mib, Kind: "large"})
			at++
		}
		block := build.Block{Addr: base + uint64(used), Requested: size, Occupied: size, Site: site}
		if rest := 20*mib - used - size; rest <= mib { // it is not split off
			block.Occupied += rest
		}
		b.Alloc(s, at, block)
		used += size
		return block
	}
	for range 36 {
		begin := at + 1
		alloc(3*mib/2, keep)
		block := alloc(5*mib/4, temporary)
		at, used = at+1, used-block.Requested
		b.Free(s, at, block)
		at++
		b.Mark(s, lifetime.Mark{Begin: begin, End: at, Kind: lifetime.Step})
	}
	b.Mark(s, lifetime.Mark{Begin: at + 1, End: at + 1, Kind: lifetime.OOM, Requested: 11 * mib / 2, Free: failure.BytesOf(0)})
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.History | lifetime.Regions | lifetime.Addresses | lifetime.Stacks})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	j := judge.Of(c)
	if all, _ := answer.OOMsOf(j, c.Spaces); all[0].Reason != "leak" {
		t.Errorf("%s: %s", all[0].Reason, all[0].Words)
	}
	var tuning answer.Tuning
	if err := tuning.Add(j); err != nil {
		t.Fatal(err)
	}
	joined := replay.Default()
	joined.Expandable = true
	out, err := tuning.Tune([]answer.Conf{{Text: "expandable", Settings: joined}}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	_, reason := out.Verdict()
	if out.Settings[0].Outcome != "oom" || out.Settings[1].Outcome != "later" || !strings.Contains(reason, "no setting helps for long: keep (a.py:1) leaks 1.53 MiB per step") {
		t.Errorf("%q, %+v", reason, out)
	}
}
