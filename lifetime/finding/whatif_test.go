package finding_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/replay"
)

// findingOf returns the finding of a rule in a capture of testdata.
func findingOf(t *testing.T, file, rule string) finding.Finding {
	t.Helper()
	c, err := judged.Open("../../testdata/"+file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	found := c.Findings()
	i := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Rule == rule })
	if i < 0 {
		t.Fatalf("%s: no finding of %s", file, rule)
	}
	return found[i]
}

// TestReplayedAdvice: the advice against fragmentation is what a replay shows to help, with the figures that the real
// allocator has under these settings.
func TestReplayedAdvice(t *testing.T) {
	data, err := os.ReadFile("../../testdata/replay/b16.truth.json")
	if err != nil {
		t.Fatal(err)
	}
	var truth struct {
		Settings map[string]struct {
			Reserved int64 `json:"peak_reserved"`
			Passes   bool  `json:"passes_where_default_died"`
		}
	}
	if err := json.Unmarshal(data, &truth); err != nil {
		t.Fatal(err)
	}
	f := findingOf(t, "replay/b16.pickle.zst", "fragmentation")
	for name, want := range map[string]any{
		"replayed_conf": "expandable_segments:True", "replayed_exact": 1.0, "pinned_by": "buf (pinned_pieces.py:2)",
		"replayed_recorded_bytes": float64(truth.Settings["default"].Reserved), "replayed_bytes": float64(truth.Settings["expandable"].Reserved),
	} {
		if got := evidence(f, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if f.Suggestions[0] != "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to save 1.33 GiB." ||
		!strings.Contains(f.Description, "with other settings 362 MiB suffice, replayed exactly") {
		t.Errorf("%s: %q", f.Description, f.Suggestions)
	}
	f = findingOf(t, "replay/b16.c2.oom.pickle.zst", "oom")
	if !truth.Settings["c2:expandable"].Passes ||
		f.Suggestions[0] != "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True." || !strings.Contains(f.Failures[0].Proof,
		"it would have fit, replayed exactly") {
		t.Errorf("%+v", f.Failures[0])
	}
}

// TestRefutedAdvice: no setting gets past the failure of a program whose retained pieces are in every page, so that
// expandable segments return none.
func TestRefutedAdvice(t *testing.T) {
	f := findingOf(t, "torchsnap/frag_oom.pickle", "oom")
	if evidence(f, "replayed_conf") != nil || evidence(f, "replayed_recorded_bytes") == nil || strings.Contains(f.Suggestions[0],
		"expandable_segments") {
		t.Errorf("%v: %q", f.Evidence, f.Suggestions)
	}
}

// TestAdviceBeforeFailure: the pieces cost memory, but no setting gets past the failure of the program, which needs more than there is. So
// none is advised.
func TestAdviceBeforeFailure(t *testing.T) {
	h := newByHand()
	next, now := uint64(1<<40), func() int64 { h.at += 10; return h.at }
	reserve := func() madeBlock {
		next += 1 << 30
		h.b.Reserve(h.s, now(), lifetime.Region{Addr: next, Size: 40 * mib, Kind: "large"})
		return madeBlock{next, 40 * mib}
	}
	alloc := func(x madeBlock) {
		h.b.Alloc(h.s, now(), build.Block{Addr: x.addr, Requested: x.size, Occupied: x.size, Site: h.site("batch")})
	}
	var regions []madeBlock
	for range 4 {
		regions = append(regions, reserve())
		alloc(regions[len(regions)-1])
	}
	for _, x := range regions {
		h.free(x)
	}
	for _, x := range regions {
		alloc(madeBlock{x.addr, 20 * mib})
		alloc(madeBlock{x.addr + (20 << 20), 20 * mib})
	}
	for _, x := range regions {
		h.free(madeBlock{x.addr, 20 * mib})
	}
	alloc(reserve())
	h.b.Mark(h.s, lifetime.Mark{Begin: now(), End: h.at, Kind: lifetime.OOM, Requested: 400 * mib, Free: failure.BytesOf(10 * mib)})
	c, found := h.findIn(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.History | lifetime.Addresses | lifetime.Regions}, "fragmentation")
	if replay.Of(c.Spaces[0], nil) == nil || len(found) != 1 || evidence(found[0], "replayed_recorded_bytes") != nil ||
		strings.Contains(found[0].Suggestions[0], "expandable_segments") {
		t.Fatalf("%+v", found)
	}
	if want := "no other settings get past the failure"; !strings.Contains(found[0].Description, want) {
		t.Errorf("%s, want %s", found[0].Description, want)
	}
}

// TestOwnPool: in a program whose cached masks pin segments, a pool of their own for the masks saves memory.
func TestOwnPool(t *testing.T) {
	f := findingOf(t, "labelled/d16_warm_cache.pickle.zst", "fragmentation")
	if by := evidence(f, "pinned_by"); by != "mask_for (train_cache.py:34)" {
		t.Errorf("pinned by %v", by)
	}
	own, recorded := evidence(f, "own_pool_bytes").(float64), evidence(f, "reserved").(float64)
	if own >= recorded || own < recorded-evidence(f, "free_in_reserved").(float64) {
		t.Errorf("%v with a pool of its own, %v recorded", own, recorded)
	}
}

// TestSizeOfWorkspace: one of the cached masks, of sizes that rise by 64 KiB, has that of a workspace of cuBLAS.
func TestSizeOfWorkspace(t *testing.T) {
	if f := findingOf(t, "labelled/d16_warm_cache.pickle.zst", "cache"); f.Amount.Count != 16 || f.Amount.Bytes != 142_082_048 {
		t.Errorf("%+v, want 16 masks of 142,082,048 B", f.Amount)
	}
}

// TestNoRepeatedAdvice: a program that has expandable segments is not told to use them.
func TestNoRepeatedAdvice(t *testing.T) {
	for _, kind := range []string{"large", lifetime.Expandable} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "f", Format: "torch-snapshot"})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Axis: lifetime.Event,
			Facts: lifetime.EndState | lifetime.Addresses | lifetime.Regions})
		const size = 4 << 20
		b.LiveRegion(s, lifetime.Region{Addr: 1 << 30, Size: 100 * size, Kind: kind})
		for i := 0; i < 100; i += 10 {
			b.Live(s, build.Block{Addr: 1<<30 + uint64(i)*size, Requested: size, Occupied: size})
		}
		capture, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		found := find(t, capture, finding.Settings{})
		if len(found) != 1 || found[0].Rule != "fragmentation" {
			t.Fatalf("%v", found)
		}
		if told := strings.Contains(found[0].Suggestions[0], "expandable_segments"); told != (kind != lifetime.Expandable) {
			t.Errorf("%s: %q", kind, found[0].Suggestions)
		}
	}
}
