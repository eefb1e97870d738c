package memtimeline_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/memtimeline"
)

// known are the categories of PyTorch's timelines.
var known = map[string]bool{"parameter": true, "optimizer_state": true, "input": true, "temporary": true, "activation": true, "gradient": true}

// levels returns the requested bytes of each category after every instant.
func levels(c *lifetime.Capture, s *lifetime.Space) map[int64]map[string]int64 {
	all, now := map[int64]map[string]int64{}, map[string]int64{"unknown": s.Base}
	for change := range s.Changes() {
		b := &s.Buffers[change.Buffer]
		name := c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(change.Buffer))
		if !known[name] {
			name = "unknown"
		}
		bytes := b.Requested
		if !change.Begin {
			bytes = -bytes
		}
		now[name] += bytes
		if b.Edge&lifetime.BeginUnseen == 0 || !change.Begin {
			sums := maps.Clone(now)
			maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
			all[change.T] = sums
		}
	}
	return all
}

// TestRoundTrip: what memlane reads from the timeline that it writes has the same sums by category at every instant.
func TestRoundTrip(t *testing.T) {
	for _, file := range []string{"meaning/a02.pickle.zst", "meaning/a14.pickle.zst", "meaning/m07.pickle.zst", "torchsnap/leak_loss.pickle"} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := memtimeline.Write(&out, c.Capture); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "timeline.raw.json")
		if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := judged.Open(name, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Losses) > 0 && again.Losses[0].Reason.String() == "state-mismatch" {
			t.Errorf("%s: %v", file, again.Losses)
		}
		want, got := levels(c.Capture, c.Spaces[0]), levels(again.Capture, again.Spaces[0])
		if len(want) < 100 {
			t.Errorf("%s: %d instants", file, len(want))
		}
		first, wrong := slices.Min(slices.Collect(maps.Keys(want))), 0
		for at, sums := range want { // the reader spreads what was there before over the instants before the first row
			if at != first && !maps.Equal(sums, got[at]) {
				if wrong++; wrong == 1 {
					t.Errorf("%s at %d: %v, want %v", file, at, got[at], sums)
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d of %d instants differ", file, wrong, len(want))
		}
	}
}
