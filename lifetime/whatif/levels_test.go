package whatif_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/whatif"
)

// pending reports whether the program freed a buffer before its memory was free: the replay frees it at another moment of the same call.
func pending(s *lifetime.Space) bool {
	for i, t := range s.FreeRequests {
		if t != s.Buffers[i].End {
			return true
		}
	}
	return false
}

// TestLevels: without a change, the levels are those of the recording at each time; with one, the highest is the predicted peak. They are in
// order of time.
func TestLevels(t *testing.T) {
	files, _ := filepath.Glob("../../testdata/replay/*.pickle.zst")
	scenarios := 0
	for _, file := range files {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			e, _ := c.WhatIf(s)
			if e == nil {
				continue
			}
			recorded := map[int64]int64{} // the highest level of each time
			for l := range s.Levels(lifetime.Occupied) {
				recorded[l.At] = max(recorded[l.At], l.Bytes)
			}
			if e.Law.First < 0 && !pending(s) {
				now := map[int64]int64{}
				for _, l := range e.Levels(nil, s) {
					now[l.At] = max(now[l.At], l.Bytes)
				}
				for at, bytes := range recorded {
					if now[at] < bytes {
						t.Fatalf("%s: %d bytes at %d, recorded %d", file, now[at], at, bytes)
					}
				}
			}
			for _, r := range e.Remedies() {
				scenarios++
				most, last := int64(0), s.Begin
				for _, l := range e.Levels(r.Scenario, s) {
					if l.At < last || l.Bytes < 0 {
						t.Fatalf("%s: %s: %d bytes at %d, after %d", file, r.Scenario, l.Bytes, l.At, last)
					}
					most, last = max(most, l.Bytes), l.At
				}
				if want := e.Run(r.Scenario, replay.Device{}).Peak; most != want {
					t.Errorf("%s: %s: at most %d bytes, predicted %d", file, r.Scenario, most, want)
				}
			}
		}
	}
	if scenarios < 50 {
		t.Errorf("only %d scenarios", scenarios)
	}
}

// TestChanges: what a change edits is marked, and nothing else: by category, and only in steps that train.
func TestChanges(t *testing.T) {
	c, err := judged.Open("../../testdata/meaning/a17.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	e, _ := c.WhatIf(s)
	at := s.Peak(lifetime.Occupied).At
	for edit, want := range map[string][]string{
		"optimizer=adam8bit": {"optimizer_state", "unknown", "workspace"}, "optimizer.device=host": {"optimizer_state", "unknown", "workspace"}, "checkpoint=blocks": {"activation"},
		"batch=2": {"activation", "input", "temporary", "unknown"}, "batch=1": {},
	} {
		scenario, err := whatif.Parse(edit)
		if err != nil {
			t.Fatal(err)
		}
		changed, all := e.Changes(scenario), int64(0)
		for _, i := range changed {
			b := &s.Buffers[i]
			if b.Begin > at || b.End <= at {
				continue
			}
			all += b.Size
			if name := c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i)); !slices.Contains(want, name) {
				t.Errorf("%s changes buffer %d, %s", edit, i, name)
			}
		}
		// A replay also counts what the allocator does not split off.
		if saved := e.Needs.Peak - e.Run(scenario, replay.Device{}).Peak; saved > all+2<<20 || (all == 0) != (len(want) == 0) {
			t.Errorf("%s: the buffers that it changes have %d bytes at the peak, it saves %d", edit, all, saved)
		}
	}
}
