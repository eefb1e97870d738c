package finding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
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

// TestFragmentation tests the rule at its thresholds, where nothing can be replayed: what is free counts when the program needs most,
// and without a proof it is no warning.
func TestFragmentation(t *testing.T) {
	cut := [][]int{{10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1, 9}, {10, 1,
		9}} // 200, all of it in use, then 190 of it free
	for name, c := range map[string]struct {
		program fragments
		want    string
	}{
		"free only at the end":           {fragments{regions: cut}, ""},
		"a tenth more is reserved then":  {fragments{regions: cut, forced: []int{22}}, ""},
		"more than a tenth":              {fragments{regions: cut, forced: []int{23}}, "info 223 190 10"},
		"twice":                          {fragments{regions: cut, forced: []int{20, 20}}, "info 240 190 10"},
		"the peak used all":              {fragments{regions: cut, forced: []int{20, 20}, refill: true}, ""},
		"as much as is free":             {fragments{regions: cut, forced: []int{190}}, "info 390 190 10"},
		"regions for small buffers":      {fragments{regions: cut, small: 30}, "info 260 190 10"},
		"reserved memory is stable":      {fragments{regions: cut, forced: []int{20, 20}, after: 15}, "info 240 189 10 stable"},
		"not quite":                      {fragments{regions: cut, forced: []int{20, 20}, after: 14}, "info 240 189 10"},
		"the least gap":                  {fragments{regions: [][]int{{16, 20, 16, 20, 16, 20, 16, 20}}, forced: []int{20}}, "info 164 64 16"},
		"below it":                       {fragments{regions: [][]int{{16, 20, 16, 20, 16, 20, 15, 20}}, forced: []int{20}}, ""},
		"the least share":                {fragments{regions: [][]int{{40, 60, 40, 60, 40, 60}}, forced: []int{100}}, "info 400 120 40"},
		"a smaller one":                  {fragments{regions: [][]int{{40, 60, 40, 60, 40, 60}}, forced: []int{101}}, ""},
		"half in the largest piece":      {fragments{regions: [][]int{{50, 1, 50, 1}}, forced: []int{50}}, "info 152 100 50"},
		"more than half":                 {fragments{regions: [][]int{{51, 1, 50, 1}}, forced: []int{50}}, ""},
		"nothing is free":                {fragments{regions: [][]int{{0, 100}}}, ""},
		"pieces do not reach over ends":  {fragments{regions: [][]int{{40, 1}, {40, 1}, {40, 1}, {0, 1, 40}}, forced: []int{50}}, "info 214 160 40"},
		"regions without a buffer":       {fragments{regions: [][]int{{40}, {40}, {40}, {0, 1, 40}}, forced: []int{50}}, ""},
		"a region that was filled first": {fragments{regions: append([][]int{{0, 100}}, cut...), forced: []int{40}}, "info 340 190 10"},
	} {
		capture := c.program.capture(t)
		var got string
		for _, f := range find(t, capture, finding.Settings{Critical: mib}) {
			if f.Rule != "fragmentation" {
				continue
			}
			size := func(name string) int64 { return int64(evidence(f, name).(float64)) / mib }
			got += fmt.Sprint(f.Severity, " ", size("reserved"), " ", size("free_in_reserved"), " ", size("largest_hole"))
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

// TestProvedFragmentation: it is a warning only if a replay proves that another way needs much less, and reserved memory still grows or
// that is critical.
func TestProvedFragmentation(t *testing.T) {
	for name, c := range map[string]struct {
		file     string
		critical int64
		want     string
	}{
		"proved, and it grows":                  {"replay/b16.pickle.zst", 0, "warning"},
		"proved and stable":                     {"labelled/d16_warm_cache.pickle.zst", 0, "info"},
		"critical":                              {"labelled/d16_warm_cache.pickle.zst", 100 * mib, "warning"},
		"below critical":                        {"labelled/d16_warm_cache.pickle.zst", 100*mib + 1, "info"},
		"a recording from the middle":           {"meaning/libraries/c29.pickle.zst", 0, "info"},
		"less than 64 MiB":                      {"meaning/libraries/c04.pickle.zst", 0, "info"},
		"no gain":                               {"leaks/l123.pickle.zst", mib, "[]"},
		"no gain, from the middle":              {"meaning/k19.pickle.zst", mib, "[]"},
		"free at the end, and little is gained": {"leaks/l032.pickle.zst", mib, "[]"},
		"free between two steps":                {"whatif/llama.pickle.zst", mib, "[]"},
	} {
		capture, err := judged.Open("../../testdata/"+c.file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		capture.Settings.Critical = c.critical
		got := "[]"
		for _, f := range capture.Findings() {
			if f.Rule == "fragmentation" {
				got = f.Severity.String()
			}
		}
		if got != c.want {
			t.Errorf("%s, %s: %s, want %s", name, c.file, got, c.want)
		}
	}
}

// TestPrivatePools: pools that each keep their memory need more than one pool of all.
func TestPrivatePools(t *testing.T) {
	for name, pool := range map[string]func(i int) string{
		"one each": func(i int) string { return fmt.Sprintf("(0,%d)", i+1) },
		"one":      func(int) string { return "(0,1)" },
	} {
		h := newByHand()
		for i := range 8 {
			at := madeBlock{uint64(i+1) << 40, 20 * mib}
			if name == "one" {
				at.addr = 1 << 40
			}
			if h.at += 10; i == 0 || name != "one" {
				h.b.Reserve(h.s, h.at, lifetime.Region{Addr: at.addr, Size: at.size, Kind: "large", Pool: pool(i)})
			}
			h.at += 10
			h.b.Alloc(h.s, h.at, build.Block{Addr: at.addr, Requested: at.size, Occupied: at.size, Site: h.site("graph")})
			h.free(at)
		}
		_, found := h.findIn(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock | lifetime.History | lifetime.Addresses | lifetime.Regions}, "fragmentation")
		if name == "one" {
			if len(found) != 0 {
				t.Errorf("%s: %v", name, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Severity != finding.Warning || !strings.Contains(found[0].Suggestions[0], "one private pool") ||
			evidence(found[0], "one_pool_bytes") != float64(20*mib) {
			t.Errorf("%s: %+v", name, found)
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
		"fragmented": {10, "without a history it is unknown how much was free when memory was short"},
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
		for _, f := range find(t, capture, finding.Settings{Critical: 1}) {
			if f.Rule == "fragmentation" && f.Severity == finding.Info {
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
