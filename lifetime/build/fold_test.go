package build

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// randomReports returns reports of an allocator. Most are correct; some events are lost,
// some addresses were in use before the window, some totals are wrong. steady has no lost
// events and no wrong totals.
func randomReports(rng *rand.Rand, n int, steady bool) (times []int64, reports []lifetime.AllocatorEvent) {
	live := map[uint64]lifetime.AllocatorEvent{}
	var addrs []uint64
	allocated, stack, t := int64(rng.IntN(3)*10000), int64(-1), rng.Int64N(1000)-500
	for addr := range uint64(rng.IntN(8)) { // from before the window
		r := lifetime.AllocatorEvent{Addr: (200 + addr) << 16, Requested: rng.Int64N(5000), Occupied: 5120}
		live[r.Addr] = r
		addrs = append(addrs, r.Addr)
		allocated += r.Occupied
	}
	for range n {
		t += rng.Int64N(3)
		r := lifetime.AllocatorEvent{Addr: uint64(1+rng.IntN(40)) << 16, Requested: rng.Int64N(60000), Site: lifetime.SiteID(rng.IntN(4))}
		r.Occupied = (r.Requested + 255) / 256 * 256
		if len(addrs) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(addrs))
			r = live[addrs[i]]
			r.Free = true
			delete(live, addrs[i])
			addrs = append(addrs[:i], addrs[i+1:]...)
			allocated -= r.Occupied
		} else if _, taken := live[r.Addr]; taken {
			continue
		} else {
			live[r.Addr] = r
			addrs = append(addrs, r.Addr)
			allocated += r.Occupied
		}
		if !steady && rng.IntN(50) == 0 {
			continue // lost
		}
		if rng.IntN(20) == 0 {
			stack = rng.Int64N(3) * 1000
		}
		r.Allocated, r.Stack, r.Available, r.Peak = allocated, stack, rng.Int64N(1<<20), -1
		switch r.HasFragmentation = rng.IntN(3) > 0; {
		case !steady && rng.IntN(30) == 0:
			r.Allocated += 100
		case rng.IntN(100) == 0:
			r.Allocated = -1
		case rng.IntN(100) == 0:
			r.Fragmentation = math.NaN()
		default:
			r.Fragmentation = float64(rng.IntN(100)) / 100
		}
		times, reports = append(times, t), append(reports, r)
	}
	return times, reports
}

// reported builds a space from reports and returns its outline as text.
func reported(t *testing.T, times []int64, reports []lifetime.AllocatorEvent, peakAndEnd bool) (space string, losses []loss.Loss, unsure bool) {
	t.Helper()
	keep := Everything
	if peakAndEnd {
		keep |= PeakAndEnd
	}
	b := New(keep)
	b.Source(lifetime.Source{})
	for i := range 4 {
		b.Site(lifetime.Site{Op: fmt.Sprint(i)})
	}
	ref := b.Space()
	b.ReportsInOrder(ref)
	for i := range reports {
		b.Report(ref, times[i], &reports[i])
	}
	b.Mark(ref, lifetime.Mark{Begin: 3, End: 3, Kind: lifetime.OOM})
	b.Describe(ref, lifetime.SpaceInfo{Facts: lifetime.Clock})
	if b.StartOver(ref) {
		return "", nil, true
	}
	if peakAndEnd {
		o, err := b.FinishOutline()
		if err != nil {
			t.Fatal(err)
		}
		o.SetRows()
		return outlineText(o), o.Losses, false
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return outlineText(c.Outline()), c.Losses, false
}

// outlineText writes all fields of an outline with one space, but for the recording that only whole spaces keep.
func outlineText(o *lifetime.Outline) string {
	s := *o.Spaces[0]
	shares := ""
	if s.Stack != nil {
		shares = fmt.Sprint(*s.Stack)
	}
	s.Stack, s.Recording = nil, nil
	for _, share := range []**float64{&s.FragmentationAtPeak, &s.FragmentationMax, &s.FragmentationAtEnd} {
		if *share != nil {
			shares += fmt.Sprint(" ", **share)
		}
		*share = nil
	}
	return fmt.Sprintf("%+v%s", s, shares)
}

// TestFoldEqualsAllBuffers: an outline from PeakAndEnd equals the outline from all buffers
// in every field.
func TestFoldEqualsAllBuffers(t *testing.T) {
	unsure := 0
	const runs = 3000
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		steady := seed%2 == 0
		times, reports := randomReports(rng, rng.IntN(300), steady)
		got, losses, doubt := reported(t, times, reports, true)
		if doubt {
			if unsure++; steady {
				t.Errorf("seed %d: unsure about a complete history", seed)
			}
			continue
		}
		want, wantLosses, _ := reported(t, times, reports, false)
		if got != want {
			t.Fatalf("seed %d:\n got %s\nwant %s", seed, got, want)
		}
		if fmt.Sprint(losses) != fmt.Sprint(wantLosses) {
			t.Fatalf("seed %d: losses\n got %v\nwant %v", seed, losses, wantLosses)
		}
	}
	t.Logf("unsure about %d of %d", unsure, runs)
}

// TestFoldUnsure: a buffer without an allocation begins after earlier buffers at its
// addresses, which fold has not kept.
func TestFoldUnsure(t *testing.T) {
	report := func(free bool, addr uint64, allocated int64) lifetime.AllocatorEvent {
		return lifetime.AllocatorEvent{Free: free, Addr: addr, Requested: 1000, Occupied: 1000, Allocated: allocated, Stack: -1, Available: -1, Peak: -1}
	}
	times := []int64{1, 2, 3, 4}
	for name, last := range map[string]uint64{"the same address": 5000, "its middle": 5500, "its end": 5999} {
		reports := []lifetime.AllocatorEvent{report(false, 5000, 1000), report(true, 5000, 0), report(false, 90000, 1000), report(true, last, 0)}
		if _, _, unsure := reported(t, times, reports, true); !unsure {
			t.Errorf("%s: it should not be sure", name)
		}
	}
	older := []lifetime.AllocatorEvent{report(false, 5000, 3000), report(true, 5000, 2000), report(false, 90000, 3000), report(true, 7000, 2000)}
	if _, _, unsure := reported(t, times, older, true); unsure {
		t.Error("a buffer from before the recording must not be unsure")
	}
}

// TestFoldUnsureBeyond: fold is unsure about sums beyond 2^60, which may saturate.
func TestFoldUnsureBeyond(t *testing.T) {
	for name, r := range map[string]lifetime.AllocatorEvent{"occupied": {Occupied: 1 << 59}, "requested": {Requested: 1 << 59}} {
		for _, r.Free = range []bool{false, true} {
			var times []int64
			var reports []lifetime.AllocatorEvent
			for i := range int64(4) { // fold does not look at the last one yet
				r.Addr, r.Allocated, r.Stack, r.Available, r.Peak = uint64(i+1)<<60, -1, -1, -1, -1
				times, reports = append(times, i), append(reports, r)
			}
			if _, _, unsure := reported(t, times, reports, true); !unsure {
				t.Errorf("%s, freed %t: it should not be sure", name, r.Free)
			}
		}
	}
}

// TestFoldOfFew: cases that random reports do not have.
func TestFoldOfFew(t *testing.T) {
	report := func(free bool, addr uint64, bytes int64) lifetime.AllocatorEvent {
		return lifetime.AllocatorEvent{Free: free, Addr: addr, Requested: bytes, Occupied: bytes, Allocated: -1, Stack: -1, Available: -1, Peak: -1}
	}
	for name, reports := range map[string][]lifetime.AllocatorEvent{
		"no addresses":          {report(false, 0, 5)},
		"the same level twice":  {report(false, 1000, 5), report(true, 1000, 5), report(false, 3000, 5), report(true, 3000, 5)},
		"the same level before": {report(true, 1000, 5), report(false, 3000, 5), report(true, 3000, 5)},
	} {
		times := []int64{1, 2, 3, 4}[:len(reports)]
		got, _, unsure := reported(t, times, reports, true)
		if want, _, _ := reported(t, times, reports, false); got != want || unsure {
			t.Errorf("%s: unsure %t\n got %s\nwant %s", name, unsure, got, want)
		}
	}
}

// TestKeptTotals: keptTotals has the fragmentation at the peak, the first of the highest,
// and the last.
func TestKeptTotals(t *testing.T) {
	var k keptTotals
	for i, share := range []float32{0.25, 0.75, 0.75, 0.5} {
		if k.add(&lifetime.Total{T: int64(i), HasFragmentation: true, Fragmentation: share}); i == 1 {
			k.atPeak = k.last
		}
	}
	k.add(&lifetime.Total{T: 9}) // without fragmentation
	var times []int64
	for _, kept := range k.list() {
		times = append(times, kept.T)
	}
	if !slices.Equal(times, []int64{1, 3}) {
		t.Errorf("totals at %v, want 1 and 3", times)
	}
}

func TestCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var c coverage
	used := make([]bool, 1<<16)
	for i := range 40000 {
		lo := uint64(rng.IntN(len(used) - 40))
		hi := lo + uint64(rng.IntN(6))
		if rng.IntN(4) == 0 {
			c.add(lo, hi)
			for a := lo; a < hi; a++ {
				used[a] = true
			}
			continue
		}
		want := false
		for a := lo; a < hi; a++ {
			want = want || used[a]
		}
		if got := c.overlaps(lo, hi); got != want {
			t.Fatalf("step %d: [%d, %d) overlaps: %v, want %v", i, lo, hi, got, want)
		}
	}
	c.merge()
	for i := 1; i < len(c.merged); i++ {
		if c.merged[i].lo <= c.merged[i-1].hi {
			t.Fatalf("ranges %v and %v touch", c.merged[i-1], c.merged[i])
		}
	}
}
