package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

func TestRanks(t *testing.T) {
	of := func(process string, peak int64) *lifetime.Capture {
		return &lifetime.Capture{Tables: lifetime.Tables{Sources: make([]lifetime.Source, 1)}, Spaces: []*lifetime.Space{
			{SpaceInfo: lifetime.SpaceInfo{Process: process, Base: 1, End: 1}}, {SpaceInfo: lifetime.SpaceInfo{Process: process, Base: peak, End: 1}}}}
	}
	for _, c := range []struct {
		captures []*lifetime.Capture
		want     string
	}{
		{[]*lifetime.Capture{of("rank 0", 512)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("rank 0", 600)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("", 600)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("rank 1", 512)}, "\n2 ranks: peak 512 B on each\n"},
		{[]*lifetime.Capture{of("rank 2", 300), of("rank 0", 512), of("rank 1", 512)}, "\n3 ranks: peak 512 B on rank 0, least 300 B on rank 2\n"},
		{[]*lifetime.Capture{of("rank 0, pid 7", 300), of("rank 0, pid 8", 512), of("rank 1", 400)}, "\n2 ranks: peak 512 B on rank 0, least 400 B on rank 1\n"},
	} {
		var b strings.Builder
		r := &ranks{}
		for _, capture := range c.captures {
			r.add(capture, nil)
		}
		r.print(&b)
		if b.String() != c.want {
			t.Errorf("prints %q, want %q", b.String(), c.want)
		}
	}
}

// TestManyRanks: a leak that all ranks but one have is told once, and the rank that
// needs more than the others is named.
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
		data, err := os.ReadFile(captures(t)[source])
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
		"\n6 ranks: peak 104 MiB on rank 4, least 19.1 MiB on rank 2\nmedian 43.6 MiB, median deviation 0 B\n",
		"\nleak forward (leak_loss.py:9): 4 of 6 ranks, 64.0 MiB in all, 2.00 MiB a\n  step in the median; not on rank 2, rank 4\n",
		"\nleak make_activation (leak.py:8): 1 of 6 ranks, 80.0 MiB in all, 4.00 MiB a\n  step in the median; on rank 4\n",
		"\nwarning  rank_outlier\n  rank 4 differs from the other 5 ranks: peak 104 MiB, ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	out := decode[leaksJSON](t, succeed(t, append([]string{"leaks", "--json", "--rank-from", `worker(\d+)`}, files...)...))
	odd := 0
	for _, f := range out.Findings {
		if f.Rule == "rank_outlier" {
			odd++
		}
	}
	if len(out.Ranks) != 6 || odd != 2 || out.Ranks[4].Leaked != 80<<20 {
		t.Errorf("%d outliers, ranks %+v", odd, out.Ranks)
	}
	if text := succeed(t, append([]string{"info"}, files...)...); strings.Contains(text, "6 ranks") {
		t.Error("ranks are known without --rank-from")
	}
	if _, _, status := memlane("", append([]string{"leaks", "--fail-on", "rank_outlier", "--rank-from", `worker(\d+)`}, files...)...); status != statusFound {
		t.Errorf("status %d", status)
	}
}

// TestManyPanels: a picture has 64 panels at most, and says so.
func TestManyPanels(t *testing.T) {
	args := []string{"svg"}
	for range maxPanels + 2 {
		args = append(args, captures(t)["leak_4mib_20steps"])
	}
	picture := succeed(t, args...)
	if n := strings.Count(picture, ": peak 104 MiB (109,051,904 B)</title>"); n != maxPanels {
		t.Errorf("%d panels", n)
	}
	if !strings.Contains(picture, "<title>memory in use - 66 captures: peak 104 MiB on each</title>") || !strings.Contains(picture, ">2 more are left out: these are the first 64.<") {
		t.Error("it does not say how many there are")
	}
}
