package xprofjson_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReplay compares with a reference that searches all reports for every question.
func TestReplay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		n := 1 + rng.IntN(16) // ties keep their order below 17
		if round%10 == 0 {
			n = 1 + rng.IntN(3000)
		}
		facts := randomFacts(rng, n)
		if diff := difference(t, one(t, facts...), replay(facts)); diff != "" {
			t.Fatalf("round %d, %d facts: %s", round, n, diff)
		}
	}
}

// difference returns the first difference of two values as JSON.
func difference(t *testing.T, have, want any) string {
	t.Helper()
	var lines [2][]string
	for i, v := range []any{have, want} {
		text, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = strings.Split(strings.ReplaceAll(string(text), "null", "[]"), "\n")
	}
	for i := range min(len(lines[0]), len(lines[1])) {
		if lines[0][i] != lines[1][i] {
			return fmt.Sprintf("line %d: %s, want %s, in %s", i, lines[0][i], lines[1][i], strings.Join(lines[1][max(i-9, 0):i], ""))
		}
	}
	return ""
}

func randomFacts(rng *rand.Rand, n int) []fact {
	var facts []fact
	times := rng.Perm(4 * n)
	for i := range n {
		at := int64(times[i])
		if n <= 16 {
			at /= 8
		}
		f := alloc(at, uint64(rng.IntN(1+n/4)), 1+rng.Int64N(3), rng.Int64N(int64(4+n/50)), strconv.Itoa(rng.IntN(3)))
		if rng.IntN(2) == 0 {
			f = free(at, f.Addr, f.Occupied, f.Allocated)
		}
		if rng.IntN(4) > 0 {
			f.Step = int32(at) * 4 / int32(4*n)
		}
		if rng.IntN(3) == 0 {
			f.Stack = rng.Int64N(3)
		}
		if rng.IntN(9) == 0 {
			f.Occupied, f.site.DType = -1, ""
		}
		f.Fragmentation = float64(rng.IntN(3)) / 2
		facts = append(facts, f)
	}
	return facts
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func known(n int64) int64 { return max(n, 0) }

func (f *fact) snapshot() snapshot {
	what := map[bool]string{false: "ALLOCATION", true: "DEALLOCATION"}[f.Free]
	return snapshot{text(f.RawTime),
		stats{text(known(f.Stack)), text(known(f.Allocated)), text(known(f.Available)), f.Fragmentation, text(known(f.Peak))},
		activity{what, text(known(f.Requested)), text(known(f.Occupied)), strconv.FormatUint(f.Addr, 10), f.site.Op, text(int64(f.Step)),
			f.site.Region, cmp.Or(f.site.DType, "INVALID"), f.site.Shape}}
}

// replay is the reference of TestReplay.
func replay(facts []fact) *profile {
	usage := func(f *fact) int64 { return known(f.Allocated) + known(f.Stack) }
	peak := &facts[0]
	for i := range facts {
		if usage(&facts[i]) >= usage(peak) {
			peak = &facts[i]
		}
	}
	p := &profile{}
	s := peak.snapshot()
	sum := &p.ProfileSummary
	sum.PeakBytesUsageLifetime, sum.PeakStats, sum.PeakStatsTimePs = text(known(facts[len(facts)-1].Peak)), s.AggregationStats, s.TimeOffsetPs
	sum.PeakStats.PeakBytesInUse, sum.MemoryCapacity = text(usage(peak)), text(usage(peak)+known(peak.Available))
	top, topHeap, topStack, topTime := usage(peak), known(peak.Allocated), known(peak.Stack), peak.RawTime

	sorted := slices.Clone(facts)
	slices.SortStableFunc(sorted, func(a, b fact) int { return cmp.Compare(a.RawTime, b.RawTime) })
	peakStep, last := int32(0), int32(-1)
	for i := range sorted {
		if sorted[i].Step == -1 {
			sorted[i].Step = last + 1
		} else {
			last = sorted[i].Step
		}
		if usage(&sorted[i]) == top {
			peakStep = sorted[i].Step
		}
	}
	p.breakdown(sorted, peakStep, topHeap, topStack, topTime)
	for i := range sorted {
		if open := openAt(sorted[:i], sorted[i].Addr); sorted[i].Free && open != nil {
			sorted[i].site = open.site
		}
	}
	n := len(sorted)
	for lo, box := 0, 0; lo < n; box++ {
		hi := lo + max(n/1000, 1)
		if n > 1000 && box >= 1000-n%1000 {
			hi++
		}
		best := slices.MaxFunc(sorted[lo:hi], func(a, b fact) int { return cmp.Compare(usage(&a), usage(&b)) })
		p.SampledTimelineSnapshots = append(p.SampledTimelineSnapshots, best.snapshot())
		lo = hi
	}
	return p
}

// openAt returns the open allocation at addr after the facts: the first one since the last free there.
func openAt(facts []fact, addr uint64) *fact {
	var open *fact
	for i := range facts {
		switch {
		case facts[i].Addr != addr:
		case facts[i].Free:
			open = nil
		case open == nil:
			open = &facts[i]
		}
	}
	return open
}

// breakdown fills in the table of the peak.
func (p *profile) breakdown(sorted []fact, step int32, heap, stack, until int64) {
	in := slices.DeleteFunc(slices.Clone(sorted), func(f fact) bool { return f.Step != step || f.RawTime > until })
	var rows []snapshot
	for i, f := range in {
		before, after := lastAt(in[:i], f.Addr), lastAt(in[i+1:], f.Addr)
		switch {
		case !f.Free:
			heap -= known(f.Occupied)
			if after == nil {
				rows = append(rows, f.snapshot())
			}
		case before != nil && !before.Free:
			heap += known(f.Occupied)
		}
	}
	special := func(bytes int64, op, region string) {
		if bytes > 0 {
			what := activity{"ALLOCATION", text(bytes), text(bytes), "0", op, text(int64(step)), region, "INVALID", "unknown"}
			p.SpecialAllocations = append(p.SpecialAllocations, what)
			rows = append(rows, snapshot{text(int64(-len(p.SpecialAllocations))), stats{}, what}) // its index where others have a time
		}
	}
	special(heap, unused, "persist/dynamic")
	special(stack, "stack", "stack")
	key := func(s snapshot) string {
		a := s.ActivityMetadata
		size, requested := 99999-number(a.AllocationBytes), 99999-number(a.RequestedBytes)
		return fmt.Sprintf("%05d %05d %s %s %s %s", size, requested, a.TfOpName, a.RegionType, a.DataType, a.TensorShape)
	}
	slices.SortStableFunc(rows, func(a, b snapshot) int { return strings.Compare(key(a), key(b)) })
	for i, s := range rows {
		switch {
		case i > 0 && key(s) == key(rows[i-1]):
			row := &p.ActiveAllocations[len(p.ActiveAllocations)-1]
			row.NumOccurrences = text(number(row.NumOccurrences) + 1)
		case s.TimeOffsetPs[0] == '-':
			p.ActiveAllocations = append(p.ActiveAllocations, active{s.TimeOffsetPs, text(-number(s.TimeOffsetPs) - 1), "1"})
		default:
			p.ActiveAllocations = append(p.ActiveAllocations, active{text(int64(len(p.MemoryProfileSnapshots))), "-1", "1"})
			p.MemoryProfileSnapshots = append(p.MemoryProfileSnapshots, s)
		}
	}
}

// lastAt returns the last fact at an address, if there is one.
func lastAt(facts []fact, addr uint64) *fact {
	for i := len(facts) - 1; i >= 0; i-- {
		if facts[i].Addr == addr {
			return &facts[i]
		}
	}
	return nil
}
