package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// TestManyRanks checks that a leak of several ranks is printed once, and that the rank
// with more memory than the others is named.
func TestManyRanks(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for rank := range 6 {
		source := "leak_loss"
		switch rank {
		case 2:
			source = "leak_loss_fixed"
		case 4:
			source = "leak_4mib_20steps"
		}
		data, err := os.ReadFile(pickles(t)[source])
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("worker%d.pickle", rank))
		if err := os.WriteFile(file, data, 0o666); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	text := succeed(t, append([]string{"leaks", "--rank-from", `worker(\d+)`}, files...)...)
	for _, want := range []string{
		"\n6 ranks: highest peak 104 MiB on rank 4, lowest 19.1 MiB on rank 2\nmedian 43.6 MiB, median deviation 0 B\n",
		"  4 of 6 ranks, 64.0 MiB in total, median 2.00 MiB per step; not on rank 2, rank 4; shown is worker0.pickle\n",
		"  1 of 6 ranks, 80.0 MiB in total, median 4.00 MiB per step; on rank 4; shown is worker4.pickle\n",
		"\nwarning  rank_outlier  cuda:0\n  rank 4 differs from the other 5 ranks: peak 104 MiB, ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	out := decode[answer.Leaks](t, succeed(t, append([]string{"leaks", "--json", "--rank-from", `worker(\d+)`}, files...)...))
	outliers := 0
	for _, f := range out.Findings {
		if f.Rule == "rank_outlier" {
			outliers++
		}
	}
	if len(out.Ranks) != 6 || outliers != 2 || *out.Ranks[4].Leaked != 80<<20 {
		t.Errorf("%d outliers, ranks %+v", outliers, out.Ranks)
	}
	if text := succeed(t, append([]string{"info"}, files...)...); strings.Contains(text, "6 ranks") {
		t.Error("ranks are known without --rank-from")
	}
	if _, _, status := memlane("", append([]string{"leaks", "--fail-on", "rank_outlier", "--rank-from", `worker(\d+)`}, files...)...); status != statusFound {
		t.Errorf("status %d", status)
	}
}

// TestManyPanels checks that a picture has at most 64 panels, and states the rest.
func TestManyPanels(t *testing.T) {
	args := []string{"svg"}
	for range maxPanels + 2 {
		args = append(args, pickles(t)["leak_4mib_20steps"])
	}
	picture := succeed(t, args...)
	if n := strings.Count(picture, ": peak 104 MiB (109,051,904 B)</title>"); n != maxPanels {
		t.Errorf("%d panels", n)
	}
	if !strings.Contains(picture, "<title>memory in use - 66 captures: peak 104 MiB on each</title>") || !strings.Contains(picture, ">Only the first 64 are shown, 2 more are not.<") {
		t.Error("the picture does not state the counts")
	}
}

// TestReportOfRanks checks that a report describes the findings of each capture once, and adds a line for each leak.
func TestReportOfRanks(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(pickles(t)["leak_4mib_20steps"])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank%d.pickle", i)), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text := succeed(t, "report", "--quiet", dir)
	if n := strings.Count(text, "\nwarning  leak (confidence 87 %)  make_activation (leak.py:8) on cuda:0\n"); n != 5 {
		t.Errorf("the leak is described %d times, want once for each capture", n)
	}
	if !strings.Contains(text, "\nleak make_activation (leak.py:8): 5 of 5 ranks, 400 MiB in total, median 4.00 MiB per step\n") {
		t.Error("no line for the leak of all ranks")
	}
}

// TestRankPatterns checks that a folder or a pattern of ranks gives the same as the files that it stands for.
func TestRankPatterns(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i := range 3 {
		file := filepath.Join(dir, fmt.Sprintf("rank%d.pickle", i))
		data, err := os.ReadFile(pickles(t)["leak_4mib_20steps"])
		if err == nil {
			err = os.WriteFile(file, data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	want := succeed(t, append([]string{"svg"}, files...)...)
	for _, several := range []string{dir, filepath.Join(dir, "rank*.pickle")} {
		if got := succeed(t, "svg", several); got != want {
			t.Errorf("svg %s draws another picture than its files", several)
		}
		if _, stderr, status := memlane("", "export", "--to", "json", several); status != statusUsage || !strings.Contains(stderr, "takes one capture (got 3)") {
			t.Errorf("export %s: status %d, %s", several, status, stderr)
		}
	}
	heap := filepath.Join(dir, "heap.pb.gz")
	succeed(t, append([]string{"pprof", "-o", heap}, files...)...)
	ranks := map[string]bool{}
	for _, s := range readProfile(t, heap).Sample {
		ranks[strings.Join(s.Label["rank"], ",")+" "+s.Location[len(s.Location)-1].Line[0].Function.Name] = true
	}
	if want := map[string]bool{"0 rank 0/cuda:0": true, "1 rank 1/cuda:0": true, "2 rank 2/cuda:0": true}; !maps.Equal(ranks, want) {
		t.Errorf("ranks and outermost frames %v, want %v", ranks, want)
	}
	info := decode[answer.Info](t, succeed(t, append([]string{"info", "--json"}, files...)...))
	if len(info.Ranks) != 3 || info.Ranks[0].Leaked != nil {
		t.Errorf("info has ranks %+v; it looks for no leaks", info.Ranks)
	}
}
