package xprofjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/render/xprofjson"
)

// fact is a report with its site.
type fact struct {
	lifetime.AllocatorEvent
	site lifetime.Site
}

// alloc and free return reports at t, in picoseconds, after which heap bytes are in use.
func alloc(t int64, addr uint64, size, heap int64, op string) fact {
	return fact{lifetime.AllocatorEvent{
		Addr: addr, Requested: size - 1, Occupied: size, Allocated: heap, Stack: 0, Available: 1000 - heap, Peak: heap, RawTime: t, Step: -1,
	}, lifetime.Site{Op: op, Region: "temp", DType: "float", Shape: "[2]"}}
}

func free(t int64, addr uint64, size, heap int64) fact {
	f := alloc(t, addr, size, heap, "")
	f.Free, f.site = true, lifetime.Site{}
	return f
}

// in assigns a fact to a step.
func (f fact) in(step int32) fact {
	f.Step = step
	return f
}

// capture returns a capture of one space.
func capture(t *testing.T, s lifetime.SpaceInfo, facts []fact) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Reports)
	b.Source(lifetime.Source{File: "x.xplane.pb"})
	add(b, s, facts)
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func add(b *build.Builder, s lifetime.SpaceInfo, facts []fact) {
	ref := b.Space()
	for _, f := range facts {
		f.Site = b.Site(f.site)
		b.Report(ref, f.RawTime/1000, &f.AllocatorEvent)
	}
	b.Describe(ref, s)
}

// bfc is the space of most tests.
var bfc = lifetime.SpaceInfo{Allocator: "GPU_0_bfc"}

// written returns the output of WriteMemoryProfile.
func written(t *testing.T, c *lifetime.Capture) document {
	t.Helper()
	var out bytes.Buffer
	if err := xprofjson.WriteMemoryProfile(&out, c); err != nil {
		t.Fatal(err)
	}
	return parse(t, out.Bytes())
}

func parse(t *testing.T, text []byte) document {
	t.Helper()
	var d document
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return d
}

// The document as its readers parse it: integers are strings. TestText has the exact names.
type (
	document struct {
		MemoryProfilePerAllocator map[string]*profile
		NumHosts, Version         int
		MemoryIDs                 []string
		HloModules                []map[string]string
	}
	profile struct {
		MemoryProfileSnapshots []snapshot
		ProfileSummary         struct {
			PeakBytesUsageLifetime          string
			PeakStats                       stats
			PeakStatsTimePs, MemoryCapacity string
		}
		ActiveAllocations        []active
		SpecialAllocations       []activity
		SampledTimelineSnapshots []snapshot
	}
	snapshot struct {
		TimeOffsetPs     string
		AggregationStats stats
		ActivityMetadata activity
	}
	stats struct {
		StackReservedBytes, HeapAllocatedBytes, FreeMemoryBytes string
		Fragmentation                                           any
		PeakBytesInUse                                          string
	}
	activity struct {
		MemoryActivity, RequestedBytes, AllocationBytes, Address, TfOpName, StepID, RegionType, DataType, TensorShape string
	}
	active struct{ SnapshotIndex, SpecialIndex, NumOccurrences string }
)

// table formats the rows of the peak: "3x op size".
func (p *profile) table() []string {
	var rows []string
	for _, a := range p.ActiveAllocations {
		var what activity
		if i := number(a.SnapshotIndex); i >= 0 {
			what = p.MemoryProfileSnapshots[i].ActivityMetadata
		} else {
			what = p.SpecialAllocations[number(a.SpecialIndex)]
		}
		rows = append(rows, fmt.Sprintf("%sx %s %s", a.NumOccurrences, what.TfOpName, what.AllocationBytes))
	}
	return rows
}

func equal[T any](t *testing.T, what string, have, want T) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s: %v, want %v", what, have, want)
	}
}

// one returns the document's only profile.
func one(t *testing.T, facts ...fact) *profile {
	t.Helper()
	return written(t, capture(t, bfc, facts)).MemoryProfilePerAllocator["GPU_0_bfc"]
}

// each returns one field of all samples.
func each(p *profile, field func(*snapshot) string) []string {
	var all []string
	for i := range p.SampledTimelineSnapshots {
		all = append(all, field(&p.SampledTimelineSnapshots[i]))
	}
	return all
}

func step(s *snapshot) string { return s.ActivityMetadata.StepID }
func op(s *snapshot) string   { return s.ActivityMetadata.TfOpName }

const unused = "unused preallocated device memory"

func TestEmptyProfile(t *testing.T) {
	for _, c := range []*lifetime.Capture{{}, capture(t, bfc, nil)} {
		if err := xprofjson.WriteMemoryProfile(&bytes.Buffer{}, c); err == nil || !strings.Contains(err.Error(), "TF_CPU_ALLOCATOR_USE_BFC=1") {
			t.Errorf("error %v gives no advice", err)
		}
	}
}

// TestText: the names, their order and the number formats.
func TestText(t *testing.T) {
	f := alloc(7, 16, 9, 30, "Mat<Mul>").in(2)
	f.Fragmentation = 0.5
	var out bytes.Buffer
	if err := xprofjson.WriteMemoryProfile(&out, capture(t, bfc, []fact{f})); err != nil {
		t.Fatal(err)
	}
	snapshot := `{"timeOffsetPs":"7","aggregationStats":{"stackReservedBytes":"0","heapAllocatedBytes":"30","freeMemoryBytes":"970",` +
		`"fragmentation":0.5,"peakBytesInUse":"30"},"activityMetadata":{"memoryActivity":"ALLOCATION","requestedBytes":"8","allocationBytes":"9",` +
		`"address":"16","tfOpName":"Mat\u003cMul\u003e","stepId":"2","regionType":"temp","dataType":"float","tensorShape":"[2]"}}`
	equal(t, "text", out.String(), `{"memoryProfilePerAllocator":{"GPU_0_bfc":{"memoryProfileSnapshots":[`+snapshot+`],`+
		`"profileSummary":{"peakBytesUsageLifetime":"30","peakStats":{"stackReservedBytes":"0","heapAllocatedBytes":"30","freeMemoryBytes":"970",`+
		`"fragmentation":0.5,"peakBytesInUse":"30"},"peakStatsTimePs":"7","memoryCapacity":"1000"},`+
		`"activeAllocations":[{"snapshotIndex":"-1","specialIndex":"0","numOccurrences":"1"},`+
		`{"snapshotIndex":"0","specialIndex":"-1","numOccurrences":"1"}],`+
		`"specialAllocations":[{"memoryActivity":"ALLOCATION","requestedBytes":"21","allocationBytes":"21","address":"0",`+
		`"tfOpName":"unused preallocated device memory","stepId":"2","regionType":"persist/dynamic","dataType":"INVALID","tensorShape":"unknown"}],`+
		`"sampledTimelineSnapshots":[`+snapshot+`]}},"numHosts":1,"memoryIds":["GPU_0_bfc"],"version":1,"hloModules":[]}`+"\n")
}

func TestMemoryIDs(t *testing.T) {
	b := build.New(build.Reports)
	b.Source(lifetime.Source{File: "a"})
	b.Source(lifetime.Source{File: "b"})
	facts := []fact{alloc(1, 1, 8, 8, "")}
	add(b, lifetime.SpaceInfo{Host: "h0", Allocator: "none"}, nil)
	add(b, lifetime.SpaceInfo{Host: "h1", Device: "tpu:3"}, facts)
	add(b, lifetime.SpaceInfo{Host: "h1", Device: "tpu:10"}, facts)
	add(b, lifetime.SpaceInfo{Host: "h1", Device: "gpu:0", Allocator: "GPU_0_bfc"}, facts)
	add(b, lifetime.SpaceInfo{Host: "h2", Device: "tpu:4"}, facts)
	add(b, lifetime.SpaceInfo{Source: 1, Host: "h1", Device: "tpu:5"}, facts)
	b.Run(lifetime.Run{Name: "jit_f(5)", Plane: "TPU:0", ID: 1, Begin: 2, End: 3})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	d := written(t, c)
	equal(t, "memoryIds", d.MemoryIDs, []string{"10", "3", "GPU_0_bfc"})
	equal(t, "profiles", len(d.MemoryProfilePerAllocator), 3)
	equal(t, "numHosts", d.NumHosts, 1)
	equal(t, "version", d.Version, 1)
	equal(t, "hloModules", d.HloModules, []map[string]string{
		{"name": "jit_f(5)", "planeName": "TPU:0", "id": "1", "startTimePs": "2", "endTimePs": "3"},
	})
}

func TestSteps(t *testing.T) {
	p := one(t, alloc(50, 5, 1, 1, "e"), alloc(10, 1, 1, 1, "a"),
		alloc(30, 3, 1, 1, "c").in(4), alloc(20, 2, 1, 1, "b").in(2), alloc(40, 4, 1, 1, "d"))
	equal(t, "ops by time", each(p, op), []string{"a", "b", "c", "d", "e"})
	equal(t, "steps", each(p, step), []string{"0", "2", "4", "5", "5"})
}

func TestSiteOfFree(t *testing.T) {
	own := free(60, 2, 8, 0)
	own.site.Op = "its own"
	p := one(t,
		alloc(10, 1, 8, 8, "first"), alloc(20, 1, 8, 16, "second"), // one address: the first counts
		free(30, 1, 8, 8), free(40, 1, 8, 0), // and only once
		own)
	equal(t, "ops", each(p, op), []string{"first", "second", "first", "", "its own"})
	equal(t, "type", p.SampledTimelineSnapshots[2].ActivityMetadata.DataType, "float")
	equal(t, "no type", p.SampledTimelineSnapshots[3].ActivityMetadata.DataType, "INVALID")
}

func TestSummary(t *testing.T) {
	stacked := alloc(20, 2, 8, 60, "b")
	stacked.Stack, stacked.Peak, stacked.Available = 40, 500, 900
	same := alloc(10, 3, 8, 100, "c") // as high, later in the file, earlier in time
	same.Peak, same.Fragmentation = 400, 0.25
	p := one(t, alloc(5, 1, 8, 8, "a"), stacked, same, alloc(30, 4, 8, 50, "d"))
	equal(t, "lifetime", p.ProfileSummary.PeakBytesUsageLifetime, "50")
	equal(t, "time", p.ProfileSummary.PeakStatsTimePs, "10")
	equal(t, "capacity", p.ProfileSummary.MemoryCapacity, "1000")
	equal(t, "stats", p.ProfileSummary.PeakStats, stats{"0", "100", "900", 0.25, "100"})
}

func TestMissingFigures(t *testing.T) {
	p := one(t, fact{AllocatorEvent: lifetime.AllocatorEvent{
		Addr: math.MaxUint64, Requested: -1, Occupied: -1, Allocated: -1, Stack: -1, Available: -1, Peak: -1, RawTime: 7, Step: -1,
	}})
	want := snapshot{"7", stats{"0", "0", "0", 0.0, "0"}, activity{"ALLOCATION", "0", "0", "18446744073709551615", "", "0", "", "INVALID", ""}}
	equal(t, "sample", p.SampledTimelineSnapshots, []snapshot{want})
	equal(t, "capacity", p.ProfileSummary.MemoryCapacity, "0")
	equal(t, "rows", p.table(), []string{"1x  0"})
}

func TestFragmentationTexts(t *testing.T) {
	texts := map[float64]any{0: 0.0, 1.0 / 3: 1.0 / 3, 1e-7: 1e-7, math.NaN(): "NaN", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity"}
	for number, want := range texts {
		f := alloc(1, 1, 1, 1, "")
		f.Fragmentation, f.HasFragmentation = number, true
		equal(t, "fragmentation", one(t, f).SampledTimelineSnapshots[0].AggregationStats.Fragmentation, want)
	}
}

// TestPeakOfStep: the table has only reports of the peak's step up to the peak; the rest of the heap is in one
// row.
func TestPeakOfStep(t *testing.T) {
	peak := alloc(60, 0x60, 30, 100, "big").in(1)
	peak.Stack = 7
	p := one(t,
		alloc(10, 0x10, 20, 20, "old").in(0),
		alloc(20, 0x20, 5, 25, "twin").in(1), alloc(30, 0x30, 5, 30, "twin").in(1),
		alloc(40, 0x40, 5, 35, "gone").in(1), free(45, 0x40, 5, 30).in(1),
		free(50, 0x10, 20, 10).in(1),          // of the step before: takes nothing from the table
		alloc(55, 0x20, 6, 16, "again").in(1), // the address was taken
		peak,
		alloc(70, 0x70, 9, 90, "late").in(1))
	// 100 in use, minus 5+5+5-5, 6 and 30 of this step.
	equal(t, "rows", p.table(), []string{"1x " + unused + " 54", "1x big 30", "1x stack 7", "1x again 6", "1x twin 5"})
	equal(t, "active", p.ActiveAllocations, []active{{"-1", "0", "1"}, {"0", "-1", "1"}, {"-2", "1", "1"}, {"1", "-1", "1"}, {"2", "-1", "1"}})
	equal(t, "special", p.SpecialAllocations, []activity{
		{"ALLOCATION", "54", "54", "0", unused, "1", "persist/dynamic", "INVALID", "unknown"},
		{"ALLOCATION", "7", "7", "0", "stack", "1", "stack", "INVALID", "unknown"},
	})
}

// TestStepOfPeak: the time of the peak is that of the last one in file order, its step that of the last one in
// order of time.
func TestStepOfPeak(t *testing.T) {
	p := one(t, alloc(30, 3, 8, 100, "later").in(1), alloc(10, 1, 8, 100, "peak").in(0))
	equal(t, "time", p.ProfileSummary.PeakStatsTimePs, "10")
	equal(t, "rows", p.table(), []string{"1x " + unused + " 100"})
	equal(t, "step", p.SpecialAllocations[0].StepID, "1")
}

func TestRowOrder(t *testing.T) {
	vary := func(place int64, change func(*fact)) fact {
		f := alloc(100-place, uint64(place), 10, 10, "op")
		change(&f)
		return f
	}
	facts := []fact{
		vary(0, func(f *fact) { f.Occupied = 11 }),
		vary(1, func(f *fact) { f.Requested = 10 }),
		vary(2, func(f *fact) { f.site.Op = "Z" }),
		vary(3, func(f *fact) { f.site.Region = "a" }),
		vary(4, func(f *fact) { f.site.DType = "" }),
		vary(5, func(f *fact) { f.site.Shape = "[1]" }),
		vary(6, func(*fact) {}),
		vary(7, func(*fact) {}),
		vary(8, func(f *fact) { f.Requested = 1 }),
	}
	facts[0].Allocated, facts[0].Available = 1000, 0 // the peak
	p := one(t, facts...)
	var addrs, counts []string
	for _, s := range p.MemoryProfileSnapshots {
		addrs = append(addrs, s.ActivityMetadata.Address)
	}
	for _, a := range p.ActiveAllocations {
		counts = append(counts, a.NumOccurrences)
	}
	equal(t, "rows", addrs, []string{"0", "1", "2", "3", "4", "5", "7", "8"}) // 7: the earlier of its row
	equal(t, "counts", counts, []string{"1", "1", "1", "1", "1", "1", "1", "2", "1"})
}

// TestSampling: 1000 boxes. For 2500 reports the first 500 boxes have 2 reports, the others 3. Each contributes
// its first highest report.
func TestSampling(t *testing.T) {
	var facts []fact
	for i := range int64(2500) {
		f := alloc(i, uint64(i), 1, 5, "")
		if i == 1 || i == 1001 || i == 1002 || i == 2499 {
			f.Allocated = 6
		}
		facts = append(facts, f)
	}
	p := one(t, facts...)
	equal(t, "samples", len(p.SampledTimelineSnapshots), 1000)
	for place, want := range map[int]string{0: "1", 1: "2", 499: "998", 500: "1001", 501: "1003", 999: "2499"} {
		equal(t, fmt.Sprint("sample ", place), p.SampledTimelineSnapshots[place].TimeOffsetPs, want)
	}
	equal(t, "samples of 1000", len(one(t, facts[:1000]...).SampledTimelineSnapshots), 1000)
	equal(t, "samples of 1001", one(t, facts[:1001]...).SampledTimelineSnapshots[999].TimeOffsetPs, "999")
}

// TestEqualTimes: the order that XProf 2.24.2 gave to events with equal offsets.
func TestEqualTimes(t *testing.T) {
	for _, c := range []struct {
		n     int
		every int // so many events have one time
		want  string
	}{
		{10, 10, "0 1 2 3 4 5 6 7 8 9"},
		{20, 20, "10 19 18 17 16 15 14 13 12 11 0 9 8 7 6 5 4 3 2 1"},
		{40, 7, "1 2 3 4 5 6 0 8 13 12 11 10 9 7 20 19 18 16 15 14 17 21 22 23 24 25 26 27 28 34 33 32 31 30 29 35 36 37 38 39"},
	} {
		var facts []fact
		for i := range c.n {
			facts = append(facts, alloc(int64(i/c.every), uint64(i), 1, 1, strconv.Itoa(i)))
		}
		equal(t, fmt.Sprint(c.n, " events"), strings.Join(each(one(t, facts...), op), " "), c.want)
	}
}

// badTimes returns n times for which the median of three is always a bad pivot: the sequence of Musser's paper
// on introsort.
func badTimes(n int) []int64 {
	times := make([]int64, n)
	for i := range n / 2 {
		if i%2 == 0 {
			times[i], times[i+1] = int64(i), int64(n/2+i)
		}
		times[n/2+i] = int64(2 * i)
	}
	return times
}

// TestBadTimes: such times are sorted correctly, and equal times have the order of XProf 2.24.2.
func TestBadTimes(t *testing.T) {
	facts := make([]fact, 20_000)
	for i, at := range badTimes(len(facts)) {
		facts[i].RawTime = at
	}
	last := int64(-1)
	for _, s := range one(t, facts...).SampledTimelineSnapshots {
		if number(s.TimeOffsetPs) < last {
			t.Fatalf("%s after %d", s.TimeOffsetPs, last)
		}
		last = number(s.TimeOffsetPs)
	}
	facts = nil
	for i, at := range badTimes(76) {
		if at >= 38 {
			at -= at % 5
		}
		facts = append(facts, alloc(at, uint64(i), 1, 1, strconv.Itoa(i)))
	}
	equal(t, "order", strings.Join(each(one(t, facts...), op), " "), "0 38 2 39 4 40 6 41 8 42 10 43 44 12 14 45 16 46 47 18 48 20 22 49 50 24 "+
		"51 26 52 28 53 30 54 32 55 34 1 57 36 56 3 60 59 58 5 7 11 9 62 61 17 15 13 65 64 63 21 67 66 19 27 25 23 68 69 70 31 29 71 72 75 33 74 73 37 35")
}

func TestProfileWriteError(t *testing.T) {
	full := errors.New("full")
	for _, n := range []int{1, 100} { // less and more than is written at once
		r, w := io.Pipe()
		r.CloseWithError(full)
		if err := xprofjson.WriteMemoryProfile(w, capture(t, bfc, make([]fact, n))); !errors.Is(err, full) {
			t.Errorf("error %v, want that of the disk", err)
		}
	}
}
