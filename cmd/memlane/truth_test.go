package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// pickles returns the snapshots in testdata, by name.
func pickles(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(snapshots, "*.pickle"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".pickle")] = file
	}
	return all
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAllocatorCounters compares info with the allocator's own counters at the time of the
// capture.
func TestAllocatorCounters(t *testing.T) {
	compared := 0
	for name, file := range pickles(t) {
		data, err := os.ReadFile(strings.TrimSuffix(file, ".pickle") + ".stats.json")
		if err != nil {
			continue
		}
		// Unused devices have an entry as well.
		stats := decode[map[string]map[string]int64](t, string(data))
		info := decode[answer.Info](t, succeed(t, "info", "--json", file)).Captures[0]
		missing := map[string]bool{}
		for _, l := range info.Losses {
			missing[l.Reason] = true
		}
		for index, counters := range stats {
			i := slices.IndexFunc(info.Spaces, func(s answer.Space) bool { return s.ID == "cuda:"+index })
			if i < 0 {
				if counters["reserved_bytes.all.peak"] != 0 {
					t.Errorf("%s: no memory ID cuda:%s", name, index)
				}
				continue
			}
			s := info.Spaces[i]
			checks := map[string]int64{
				"active_bytes.all.current":    s.Live.Bytes,
				"allocated_bytes.all.current": s.Live.Bytes - s.Live.PendingFreeBytes,
				"requested_bytes.all.current": s.Live.RequestedBytes,
				"reserved_bytes.all.current":  *s.ReservedBytes,
			}
			// The peaks are equal if the window contains the allocator's whole life.
			if !missing["before-window"] && !missing["ring-overflow"] && !missing["not-a-history"] {
				checks["requested_bytes.all.peak"] = s.Peak.RequestedBytes
				checks["reserved_bytes.all.peak"] = *s.ReservedPeakBytes
				checks["allocation.all.allocated"] = int64(s.Allocations)
			}
			for key, got := range checks {
				compared++
				if want, ok := counters[key]; !ok || got != want {
					t.Errorf("%s cuda:%s: %s is %d, info has %d", name, index, key, want, got)
				}
			}
		}
	}
	if compared < 150 {
		t.Errorf("only %d figures were compared", compared)
	}
}

// TestLeaksTruth checks that leaks finds exactly the leaks of the programs that made the
// captures.
func TestLeaksTruth(t *testing.T) {
	activation := func(count, size int64) string {
		return fmt.Sprintf("cuda:0 make_activation leak.py:8 %d x %d", count, size)
	}
	truth := map[string][]string{
		"leak_4mib_20steps":        {activation(20, 4<<20)},
		"proto0_leak_4mib_20steps": {activation(20, 4<<20)},
		"proto2_leak_4mib_20steps": {activation(20, 4<<20)},
		"proto3_leak_4mib_20steps": {activation(20, 4<<20)},
		"proto5_leak_4mib_20steps": {activation(20, 4<<20)},
		"t215_leak_1mib_12steps":   {activation(12, 1<<20)},
		"t212_leak":                {activation(7, 2<<20)},
		"t241_leak":                {activation(7, 2<<20)},
		"t201_dict":                {"cuda:0 make_activation old_api.py:7 6 x 2097152"},
		"leak_loss": {
			"cuda:0 forward leak_loss.py:9 8 x 2097152",
			"cuda:0 step leak_loss.py:19 8 x 1048576",
			"cuda:0 forward leak_loss.py:10 8 x 524288",
		},
		"small_leak_cycles": {"cuda:0 leak_small small.py:12 30 x 2048"},
		"cuprof_leak":       {"cuda:0 forward cuda_prof.py:8 6 x 65536"},
		"t215_cuprof_leak":  {"cuda:0 forward cuda_prof.py:8 4 x 65536"},
		"held": {
			"cuda:0 new held.py:14 60 x 8601", "cuda:0 forward held.py:24 24 x 4096", "cuda:0 train held.py:85 24 x 2050",
		},
		"twodev":      {"cuda:1 leaky_step twodev.py:11 10 x 1048576"},
		"t215_twodev": {"cuda:1 leaky_step twodev.py:11 6 x 1048576"},
	}
	for name, file := range pickles(t) {
		var got []string
		warnings := 0
		for _, f := range decode[answer.Leaks](t, succeed(t, "leaks", "--quiet", "--json", file)).Findings {
			if f.Severity != "info" && f.Rule != "oom" { // which the answer about the failure says
				warnings++
			}
			if f.Severity == "info" || f.Rule != "leak" && f.Rule != "growing_buffer" {
				continue
			}
			got = append(got, fmt.Sprintf("%s %s %s:%d %d x %d",
				f.Space, f.Site.Function, filepath.Base(f.Site.File), f.Site.Line, f.Count, f.RequestedBytes/f.Count))
			if f.Rule == "" || f.Severity == "" || f.Description == "" || len(f.Suggestions) == 0 || len(f.Site.Stack) == 0 || f.File != file {
				t.Errorf("%s: incomplete: %+v", name, f)
			}
		}
		if !slices.Equal(got, truth[name]) {
			t.Errorf("%s: found\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(truth[name], "\n  "))
		}
		text := succeed(t, "leaks", "--quiet", "--all", file)
		if n := strings.Count(text, "\nwarning  ") + strings.Count(text, "\ncritical  "); n != warnings {
			t.Errorf("%s: %d findings in JSON, %d in text:\n%s", name, warnings, n, text)
		}
	}
}

// TestPeakSums checks that the rows of a breakdown add up to the peak of info.
func TestPeakSums(t *testing.T) {
	for name, file := range pickles(t) {
		spaces := decode[answer.Info](t, succeed(t, "info", "--json", file)).Captures[0].Spaces
		for _, at := range []string{"peak", "end"} {
			peaks := decode[answer.Peaks](t, succeed(t, "peak", "--quiet", "--json", "--at", at, file)).Peaks
			if len(peaks) != len(spaces) {
				t.Fatalf("%s: %d peaks in %d memory IDs", name, len(peaks), len(spaces))
			}
			for i, p := range peaks {
				s := spaces[i]
				var bytes, requested, count int64
				share := 0.0
				for _, r := range p.Rows {
					bytes, requested, count, share = bytes+r.Bytes, requested+r.RequestedBytes, count+r.Count, share+r.Share
				}
				if bytes != p.Bytes || p.Space != s.ID || bytes > 0 && (share < 0.999 || share > 1.001) {
					t.Errorf("%s %s at %s: rows have %d bytes and %.3f of the whole, the peak %d", name, p.Space, at, bytes, share, p.Bytes)
				}
				switch at {
				case "peak":
					if bytes != s.Peak.Bytes || p.At != s.Peak.At {
						t.Errorf("%s %s: %d bytes at %d, info has %+v", name, p.Space, bytes, p.At, s.Peak)
					}
				case "end":
					if bytes != s.BaseBytes+s.Live.Bytes || requested != s.BaseBytes+s.Live.RequestedBytes || count != s.Live.Count {
						t.Errorf("%s %s at the end: %d bytes, %d requested, %d buffers; info has %+v", name, p.Space, bytes, requested, count, s.Live)
					}
				}
				// An instant from JSON output is accepted.
				again := decode[answer.Peaks](t, succeed(t, "peak", "--quiet", "--json", "--space", p.Space, "--at", strconv.FormatInt(p.At, 10), file))
				if got := again.Peaks[0]; got.Bytes != p.Bytes || got.At != p.At {
					t.Errorf("%s %s --at %d: %d bytes, want %d", name, p.Space, p.At, got.Bytes, p.Bytes)
				}
			}
		}
	}
}

// TestOOMTruth compares the failed allocations with the reports of the programs.
func TestOOMTruth(t *testing.T) {
	for name, want := range map[string][2]int64{
		"frag_oom":          {62914560, 16777216},
		"frag_oom_observer": {62914560, 16777216},
		"oom_observer":      {56 << 20, 48 << 20}, // other users have 64 MiB of the device
	} {
		s := decode[answer.Info](t, succeed(t, "info", "--json", pickles(t)[name])).Captures[0].Spaces[0]
		if len(s.OOMs) != 1 || s.OOMs[0].RequestedBytes != want[0] || *s.OOMs[0].DeviceFreeBytes != want[1] {
			t.Errorf("%s: %+v, want one with %v", name, s.OOMs, want)
		}
	}
}
