package finding_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/outline"
)

// TestRanks: one of five ranks needs more memory and has the only finding.
func TestRanks(t *testing.T) {
	var figures []finding.RankFigures
	for rank := range 5 {
		p := newProgram(2)
		p.steps = 40
		c, found := p.run(t, func(step int) {
			if rank == 3 && step == 1 {
				p.alloc("only_here", 64<<20)
			}
		})
		figures = append(figures, finding.FiguresOf(outline.Of(c), found, func(*lifetime.SpaceInfo) string {
			return fmt.Sprint("rank ",
				rank)
		})...)
	}
	found := finding.CompareRanks(figures)
	if len(found) != 1 || evidence(found[0], "rank") != "rank 3" || found[0].Amount.Bytes < 64<<20 || found[0].Severity != finding.Warning {
		t.Errorf("%v", found)
	}
	if found := finding.CompareRanks(figures[1:4]); len(found) != 0 {
		t.Errorf("of three ranks: %v", found)
	}
}

// TestCompareRanks: a rank is an outlier if its distance from the median is more than a twentieth of the median peak and more
// than 3.5 deviations.
func TestCompareRanks(t *testing.T) {
	rank := func(n int, device string, peak, growth, leaked int64) finding.RankFigures {
		return finding.RankFigures{Rank: fmt.Sprint("rank ", n), File: fmt.Sprint(n, ".json"),
			Space: &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Device: device}}, Peak: peak, Growth: growth, Leaked: leaked}
	}
	for name, c := range map[string]struct {
		peaks [][3]int64 // peak, growth, leaked bytes
		want  string
	}{
		"three are too few": {[][3]int64{{1000, 0, 0}, {1000, 0, 0}, {2000, 0, 0}}, ""},
		"one of four has more": {[][3]int64{{1000, 0, 0}, {1000, 0, 0}, {2000, 0, 0}, {1000, 0, 0}},
			"warning rank 2 peak 2000, median 1000, deviation 0, off 1000; "},
		"one has less": {[][3]int64{{1000, 0, 0}, {1000, 0, 0}, {400, 0, 0}, {1000, 0, 0}},
			"info rank 2 peak 400, median 1000, deviation 0, off 600; "},
		"a twentieth": {[][3]int64{{1000, 0, 0}, {1000, 0, 0}, {1050, 0, 0}, {1000, 0, 0}}, ""},
		"more than it": {[][3]int64{{1000, 0, 0}, {1000, 0, 0}, {1051, 0, 0}, {1000, 0, 0}},
			"warning rank 2 peak 1051, median 1000, deviation 0, off 51; "},
		"growth": {[][3]int64{{1000, 9, 0}, {1000, 9, 0}, {1000, 99, 0}, {1000, 9, 0}},
			"warning rank 2 growth 99, median 9, deviation 0, off 90; "},
		"what is furthest off": {[][3]int64{{1000, 0, 0}, {1000, 0, 0}, {1300, 200, 400}, {1000, 0, 0}},
			"warning rank 2 leaked bytes 400, median 0, deviation 0, off 400; "},
		"the median of four": {[][3]int64{{1000, 0, 0}, {1010, 0, 0}, {1020, 0, 0}, {2000, 0, 0}},
			"warning rank 3 peak 2000, median 1015, deviation 10, off 985; "},
		"the median of five": {[][3]int64{{1000, 0, 0}, {1010, 0, 0}, {1020, 0, 0}, {2000, 0, 0}, {1030, 0, 0}},
			"warning rank 3 peak 2000, median 1020, deviation 10, off 980; "},
		"they are spread":        {[][3]int64{{1000, 0, 0}, {1300, 0, 0}, {1600, 0, 0}, {2000, 0, 0}, {900, 0, 0}}, ""},
		"5.1 deviations are few": {[][3]int64{{1000, 0, 0}, {1020, 0, 0}, {1040, 0, 0}, {1123, 0, 0}, {1000, 0, 0}}, ""},
		"5.2 deviations are more": {[][3]int64{{1000, 0, 0}, {1020, 0, 0}, {1040, 0, 0}, {1124, 0, 0}, {1000, 0, 0}},
			"warning rank 3 peak 1124, median 1020, deviation 20, off 104; "},
	} {
		var all []finding.RankFigures
		for n, p := range c.peaks {
			all = append(all, rank(n, fmt.Sprint("cuda:", n), p[0], p[1], p[2]), rank(n, "cpu", 1, 1, 1))
		}
		var got string
		for _, f := range finding.CompareRanks(all) {
			got += fmt.Sprintf("%s %s %s %v, median %v, deviation %v, off %d; ", f.Severity, evidence(f, "rank"), evidence(f, "measure"),
				evidence(f, "value"),
				evidence(f, "median"), evidence(f, "median_deviation"), f.Amount.Bytes)
			if evidence(f, "ranks") != float64(len(c.peaks)) || f.Rule != "rank_outlier" || f.Kind != finding.KindUsage {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCategoryOfRank: a rank whose peak is off names the category that is furthest off, in either direction.
func TestCategoryOfRank(t *testing.T) {
	type parts = []finding.CategoryBytes
	for _, c := range []struct {
		name string
		last parts // of four ranks; the others have 500 of activations and 500 of parameters
		want string
	}{
		{"the first", parts{{Name: "activation", Bytes: 1400}, {Name: "parameter", Bytes: 600}}, "; mostly activation, 900 B more"},
		{"the second", parts{{Name: "activation", Bytes: 600}, {Name: "parameter", Bytes: 1400}}, "; mostly parameter, 900 B more"},
		{"less", parts{{Name: "activation", Bytes: 600}, {Name: "parameter", Bytes: 100}}, "; mostly parameter, 400 B less"},
		{"less, then more", parts{{Name: "activation", Bytes: 100}, {Name: "parameter", Bytes: 600}}, "; mostly activation, 400 B less"},
		{"the same", parts{{Name: "activation", Bytes: 500}, {Name: "parameter", Bytes: 500}}, ""},
		{"not known", nil, ""},
	} {
		var all []finding.RankFigures
		for n := range 4 {
			r := finding.RankFigures{Rank: fmt.Sprint("rank ", n), Space: &lifetime.Space{}, Peak: 1000,
				Categories: parts{{Name: "activation", Bytes: 500}, {Name: "parameter", Bytes: 500}}}
			if n == 3 {
				r.Peak, r.Categories = 2000, c.last
			}
			all = append(all, r)
		}
		found := finding.CompareRanks(all)
		if len(found) != 1 {
			t.Fatalf("%s: %v", c.name, found)
		}
		if _, after, _ := strings.Cut(found[0].Description, "; mostly"); c.want == "" && after != "" || !strings.HasSuffix(found[0].Description, c.want) {
			t.Errorf("%s: %s", c.name, found[0].Description)
		}
	}
}

// TestRankNames: the rank is from the capture, else from the file name, or from the path by a regular expression.
func TestRankNames(t *testing.T) {
	for _, c := range []struct{ expression, process, file, want string }{
		{"", "rank 3", "rank5.json", "rank 3"},
		{"", "rank 3, pid 7", "x", "rank 3"},
		{"", "pid 7", "job/rank_05.json", "rank 5"},
		{"", "", `job\Rank-12.pickle`, "rank 12"},
		{"", "", "rank7/trace.json", ""},
		{"", "", "trace.json", ""},
		{"", "", "rank99999999999999999999.json", "rank 99999999999999999999"},
		{"worker-([0-9]+)", "rank 3", "job/worker-04/trace.json", "rank 4"},
		{"worker-(.)", "", "worker-b", "rank b"},
		{"worker-(.)", "rank 3", "x", ""},
	} {
		names, err := finding.ParseRankNames(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := names.Of(c.process, c.file); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	for _, bad := range []string{"(", "worker-[0-9]+"} {
		if _, err := finding.ParseRankNames(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	for rank, want := range map[string]int{"rank 3": 3, "rank 0": 0, "rank b": -1, "3": -1, "": -1} {
		if n, ok := finding.RankNumber(rank); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d %v", rank, n, ok)
		}
	}
}
