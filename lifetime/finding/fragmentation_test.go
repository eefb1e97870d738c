package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/finding"
)

// fragments is a program with fragmented regions: freed buffers lie between retained ones. Sizes are in MiB.
type fragments struct {
	regions [][]int // layout of each region: hole, retained buffer, hole, and so on
	forced  []int   // regions reserved afterwards, each for one buffer of its size
	refill  bool    // allocates in all holes and frees again then
	small   int     // regions of 2 MiB reserved then
	after   int     // buffers allocated and freed at the end
	failed  *request
}

// request is an allocation that fails at the end.
type request struct{ requested, free int64 } // bytes; free -1 = unknown

func (f fragments) capture(t *testing.T) *lifetime.Capture {
	t.Helper()
	h := newByHand()
	b, s, addr := h.b, h.s, uint64(1<<40)
	now := func() int64 { h.at += 10; return h.at }
	h.free(h.alloc("first", 64)) // the window begins
	var holes []madeBlock
	for _, layout := range f.regions {
		size := 0
		for _, n := range layout {
			size += n
		}
		b.Reserve(s, now(), lifetime.Region{Addr: addr, Size: int64(size) * mib})
		inside := addr
		for i, n := range layout {
			name := "kept"
			if i%2 == 0 {
				name = "freed"
				holes = append(holes, madeBlock{inside, int64(n) * mib})
			}
			if n > 0 {
				b.Alloc(s, now(), build.Block{Addr: inside, Requested: int64(n) * mib, Occupied: int64(n) * mib, Site: h.site(name)})
			}
			inside += uint64(n) << 20
		}
		addr += 1 << 32
	}
	for _, x := range holes {
		if x.size > 0 {
			h.free(x)
		}
	}
	for _, n := range f.forced {
		b.Reserve(s, now(), lifetime.Region{Addr: addr, Size: int64(n) * mib})
		b.Alloc(s, now(), build.Block{Addr: addr, Requested: int64(n) * mib, Occupied: int64(n) * mib, Site: h.site("large")})
		addr += 1 << 32
	}
	for _, x := range holes {
		if f.refill && x.size > 0 {
			b.Alloc(s, now(), build.Block{Addr: x.addr, Requested: x.size, Occupied: x.size, Site: h.site("again")})
		}
	}
	for _, x := range holes {
		if f.refill && x.size > 0 {
			h.free(x)
		}
	}
	for range f.small {
		b.Reserve(s, now(), lifetime.Region{Addr: addr, Size: 2 * mib})
		b.Alloc(s, now(), build.Block{Addr: addr, Requested: 2 * mib, Occupied: 2 * mib, Site: h.site("small")})
		addr += 1 << 32
	}
	for range f.after {
		b.Alloc(s, now(), build.Block{Addr: holes[0].addr, Requested: mib, Occupied: mib, Site: h.site("later")})
		b.Free(s, now(), build.Block{Addr: holes[0].addr, Requested: mib, Occupied: mib})
	}
	if f.failed != nil {
		b.Mark(s, lifetime.Mark{Begin: now(), End: h.at, Kind: lifetime.OOM, Requested: f.failed.requested, Free: failure.BytesOf(f.failed.free)})
	}
	return h.capture(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.History | lifetime.Addresses})
}

// TestFragmentation tests the rule at its thresholds.
func TestFragmentation(t *testing.T) {
	cut := [][]int{{10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1,
		9}} // 200, 190 of it free
	for name, c := range map[string]struct {
		program  fragments
		critical int64 // MiB
		want     string
	}{
		"no harm":                       {fragments{regions: cut}, 0, "info 200 190 10 0"},
		"one forced region is too few":  {fragments{regions: cut, forced: []int{20}}, 0, "info 220 190 10 20"},
		"two are not":                   {fragments{regions: cut, forced: []int{20, 20}}, 0, "warning 240 190 10 40"},
		"the peak used all":             {fragments{regions: cut, forced: []int{20, 20}, refill: true}, 0, "info 240 190 10 40"},
		"a tenth exactly":               {fragments{regions: append(cut[:9:9], []int{10, 1, 7}), forced: []int{22}}, 0, "warning 220 188 10 22"},
		"below a tenth":                 {fragments{regions: cut, forced: []int{11, 11}}, 0, "info 222 190 10 22"},
		"as much as is free":            {fragments{regions: cut, forced: []int{190}}, 0, "warning 390 190 10 190"},
		"more than is free":             {fragments{regions: cut, forced: []int{191}}, 0, "info 391 190 10 0"},
		"regions for small buffers":     {fragments{regions: cut, small: 30}, 0, "info 260 190 10 0"},
		"reserved memory is stable":     {fragments{regions: cut, forced: []int{20, 20}, after: 15}, 0, "info 240 190 10 40 stable"},
		"not quite":                     {fragments{regions: cut, forced: []int{20, 20}, after: 14}, 0, "warning 240 190 10 40"},
		"critical, though stable":       {fragments{regions: cut, forced: []int{20, 20}, after: 15}, 190, "warning 240 190 10 40 stable"},
		"just below critical":           {fragments{regions: cut, forced: []int{20, 20}, after: 15}, 191, "info 240 190 10 40 stable"},
		"the least gap":                 {fragments{regions: [][]int{{16, 20, 16, 20, 16, 20, 16, 20}}}, 0, "info 144 64 16 0"},
		"below it":                      {fragments{regions: [][]int{{16, 20, 16, 20, 16, 20, 15, 20}}}, 0, ""},
		"the least share":               {fragments{regions: [][]int{{30, 70, 30, 70, 30, 70}}}, 0, "info 300 90 30 0"},
		"a smaller one":                 {fragments{regions: [][]int{{30, 70, 30, 70, 30, 71}}}, 0, ""},
		"half in the largest piece":     {fragments{regions: [][]int{{50, 1, 50, 1}}}, 0, "info 102 100 50 0"},
		"more than half":                {fragments{regions: [][]int{{51, 1, 50, 1}}}, 0, ""},
		"nothing is free":               {fragments{regions: [][]int{{0, 100}}}, 0, ""},
		"pieces do not reach over ends": {fragments{regions: [][]int{{40, 1}, {40, 1}, {40, 1}, {0, 1, 40}}}, 0, "info 164 160 40 0"},
		"regions without a buffer":      {fragments{regions: [][]int{{40}, {40}, {40}, {0, 1, 40}}}, 0, ""},
		"those that others were forced": {fragments{regions: [][]int{{40}, {40}, {40}, {0, 1, 40}}, forced: []int{50}}, 0,
			"warning 211 160 40 50"},
		"a region that was filled first": {fragments{regions: append([][]int{{0, 100}}, cut...)}, 0, "info 300 190 10 0"},
	} {
		capture := c.program.capture(t)
		var got string
		for _, f := range find(t, capture, finding.Settings{Critical: c.critical * mib}) {
			if f.Rule != "fragmentation" {
				continue
			}
			size := func(name string) int64 { return int64(evidence(f, name).(float64)) / mib }
			got += fmt.Sprint(f.Severity, " ", size("reserved"), " ", size("free_in_reserved"), " ", size("largest_hole"), " ", size("forced_bytes"))
			if strings.Contains(f.Description, "has been stable") && c.program.after > 0 {
				got += " stable"
			}
			if n := evidence(f, "allocations_since_last_reservation"); c.program.after > 0 && n != float64(c.program.after+
				1) { // with that of the region itself
				t.Errorf("%s: %v allocations since the last reservation", name, n)
			}
			if free := size("free_in_reserved"); f.Amount.Bytes != free*mib || f.Confidence != 1 {
				t.Errorf("%s: %v, confidence %v", name, f.Amount, f.Confidence)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestReasons tests the cause of a failed allocation at the thresholds of each cause.
func TestReasons(t *testing.T) {
	cut := [][]int{{10, 1, 9, 3}, {10, 2, 20, 5}} // 60 reserved, 49 of it free, the largest hole between 2 and 5
	full := [][]int{{0, 60}}
	for name, c := range map[string]struct {
		regions         [][]int
		limit           int64 // MiB
		requested, free int64
		reason, text    string
	}{
		"fits no hole": {cut, 0, 21 * mib, -1, "fragmented",
			"the largest hole of 49.0 MiB was 20.0 MiB; next to it: kept (train.py) 2.00 MiB"},
		"all that is free":              {cut, 0, 49 * mib, 0, "fragmented", "the largest hole of 49.0 MiB was 20.0 MiB"},
		"more than is free":             {cut, 0, 49*mib + 1, -1, "exhausted", "11.0 MiB of 60.0 MiB reserved were in use"},
		"fits a hole":                   {cut, 0, 20 * mib, -1, "exhausted", "11.0 MiB of 60.0 MiB reserved were in use"},
		"a tenth is elsewhere":          {full, 100, mib, 30 * mib, "limit", "the device had 30.0 MiB free"},
		"less than that is":             {full, 100, mib, 30*mib + 1, "limit", "the device had 30.0 MiB free"},
		"with what the device has free": {cut, 0, 50 * mib, mib, "fragmented", "the largest hole of 49.0 MiB"},
		"not even then":                 {cut, 0, 50*mib + 1, mib, "exhausted", "11.0 MiB of 60.0 MiB reserved were in use"},
		"little of it is free":          {[][]int{{2, 28, 1, 29}}, 0, 4 * mib, 2 * mib, "exhausted", "57.0 MiB of 60.0 MiB reserved were in use"},
		"as much is free":               {full, 0, mib, mib, "exhausted", "the device had 1.00 MiB free"},
		"less is free": {full, 0, mib, mib - 1, "exhausted",
			"60.0 MiB of 60.0 MiB reserved were in use; the device had 1.00 MiB free"},
		"what is free is hidden": {full, 100, mib, -1, "exhausted", "60.0 MiB of 60.0 MiB reserved were in use"},
		"nothing was free":       {full, 100, mib, 0, "outside", "others used 40.0 MiB, and 0 B were free"},
	} {
		capture := fragments{regions: c.regions, failed: &request{c.requested, c.free}}.capture(t)
		f := find(t, capture, finding.Settings{Limit: c.limit * mib})[0]
		if f.Rule != "oom" || f.Severity != finding.Critical || evidence(f, "reason") != c.reason || !strings.Contains(f.Description, c.text) {
			t.Errorf("%s: %v, want %s with %q: %s", name, evidence(f, "reason"), c.reason, c.text, f.Description)
		}
		if evidence(f, "requested") != float64(c.requested) || evidence(f, "failures") != 1.0 || (evidence(f,
			"device_free") == nil) != (c.free < 0) {
			t.Errorf("%s: %v", name, f.Evidence)
		}
	}
}

// TestCloseToLimit: a peak close to the limit is a finding if no failure was recorded.
func TestCloseToLimit(t *testing.T) {
	capture := fragments{regions: [][]int{{0, 95}}}.capture(t)
	for limit, want := range map[int64]bool{100 * mib: true, 100*mib + 2: false, 95 * mib: true, 0: false} {
		found := find(t, capture, finding.Settings{Limit: limit})
		got := len(found) > 0 && found[0].Rule == "oom"
		if got != want || got && (found[0].Severity != finding.Info || evidence(found[0], "limit") != float64(limit) || evidence(found[0],
			"peak") != float64(95*mib)) {
			t.Errorf("limit %d: %v", limit, found)
		}
	}
}

// TestStateAlone checks that a fragmented end state is found without a history, and that a solid one is not.
func TestStateAlone(t *testing.T) {
	for name, c := range map[string]struct {
		every int // of 100 blocks, every how many-th is alive
		want  string
	}{
		"fragmented": {10, "the capture has no history, so it is unknown since when"},
		"solid":      {1, ""},
	} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "f", Format: "torch-snapshot"})
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Axis: lifetime.Event,
			Facts: lifetime.EndState | lifetime.Addresses | lifetime.Regions})
		const size = 4 << 20
		b.LiveRegion(s, lifetime.Region{Addr: 1 << 30, Size: 100 * size, Kind: "large"})
		for i := 0; i < 100; i += c.every {
			b.Live(s, build.Block{Addr: 1<<30 + uint64(i)*size, Requested: size, Occupied: size})
		}
		capture, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range find(t, capture, finding.Settings{}) {
			if f.Rule == "fragmentation" {
				got = f.Description
			}
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestFragmentationOverTime: what a program frees at the end does not hide that its memory was in pieces before.
func TestFragmentationOverTime(t *testing.T) {
	for regions, want := range map[int]bool{1: false, 6: true, 20: true} {
		h := newByHand()
		h.free(h.alloc("first", 64))
		var kept []madeBlock
		addr := uint64(1 << 40)
		reserve := func(size int64) {
			h.at += 10
			addr += 1 << 32
			h.b.Reserve(h.s, h.at, lifetime.Region{Addr: addr, Size: size})
		}
		alloc := func(at uint64, size int64, name string) madeBlock {
			h.at += 10
			h.b.Alloc(h.s, h.at, build.Block{Addr: at, Requested: size, Occupied: size, Site: h.site(name)})
			return madeBlock{at, size}
		}
		for range regions {
			reserve(64 * mib)
			hole := alloc(addr, 60*mib, "batch")
			kept = append(kept, alloc(addr+uint64(60*mib), 4*mib, "kept"))
			h.free(hole)
		}
		reserve(100 * mib) // although more is free
		kept = append(kept, alloc(addr, 100*mib, "large"))
		for _, x := range kept {
			h.free(x)
		}
		h.free(alloc(addr, mib, "last"))
		reserve(2 * mib)
		c := h.capture(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.History | lifetime.Addresses})
		got := slices.ContainsFunc(find(t, c, finding.Settings{}), func(f finding.Finding) bool {
			return f.Rule == "fragmentation" && strings.Contains(f.Description, "were free at +")
		})
		if got != want {
			t.Errorf("%d regions: %v, want %v", regions, got, want)
		}
	}
}

// TestForcedOnce: the same holes are too small for many requests, but in one piece they would have met no more than their own size.
func TestForcedOnce(t *testing.T) {
	c := fragments{regions: [][]int{{30, 1, 30, 1, 30, 1}}, forced: []int{40, 40, 40, 40}}.capture(t)
	found := find(t, c, finding.Settings{})
	i := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Rule == "fragmentation" })
	if i < 0 || int64(found[i].Value(finding.FigForced)) != 90*mib {
		t.Errorf("%v, want %d forced bytes", found, 90*mib)
	}
}
