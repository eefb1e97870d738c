package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// causes makes the records of a job of n ranks in stages of equal numbers, each with parameters of its own size. The captures have a truth of causes: stage 3 leaks, rank 0
// has a larger bucket, the last rank of every eighth fragments, rank 7 runs another commit, two ranks fail, and one capture ends
// early.
func causes(n, stages int) (all []*fleet.Record, table string) {
	const mib = 1 << 20
	call := func(function string, line int) frame.Frame {
		return frame.Frame{Function: function, File: "/job/model.py", Line: line, Kind: frame.User}
	}
	table = "rank,pipeline,tensor\n"
	for rank := range n {
		stage, moved := rank*stages/n, 0
		table += fmt.Sprintf("%d,%d,%d\n", rank, stage, rank%2)
		if rank == 7 {
			moved = 4
		}
		m := fleet.Memory{Rank: fmt.Sprintf("rank %d", rank), Device: fmt.Sprintf("cuda:%d", rank%8), Peak: 1000*mib + int64(rank%13)*mib, Growth: mib}
		site := func(function string, line int, bytes int64) {
			a := lifetime.Amount{Count: 1, Bytes: bytes, Requested: bytes}
			m.Sites = append(m.Sites, fleet.SiteTotals{Site: fleet.Site{Frames: []frame.Frame{call(function, line+moved), call("train", 90+moved)}}, Allocated: a, AtPeak: a})
		}
		activation, gradient := int64(600*mib), int64(400*mib)
		r := &fleet.Record{Name: fmt.Sprintf("rank%d.pickle", rank), Format: "torch-snapshot"}
		perLayer := activation / 8
		if stage == 3 && rank != 9 {
			m.Leaked, m.Growth = 400*mib, 400*mib
			m.Peak += 400 * mib
			activation += 400 * mib
			perLayer += 50 * mib
			site("record", 44, 400*mib)
			r.Findings = append(r.Findings, fleet.Finding{Rule: "leak", Severity: "warning", Place: "record (model.py:44)", Amount: lifetime.Amount{Count: 40, Bytes: 400 * mib},
				BytesPerStep: 10 * mib, HeldBy: "history[*]"})
		}
		if rank == 0 {
			gradient += 300 * mib
			m.Peak += 300 * mib
		}
		site("forward", 27, 600*mib)
		site("bucket", 61, gradient)
		m.Categories = []finding.CategoryBytes{{Name: "activation", Bytes: activation}, {Name: "gradient", Bytes: gradient}, {Name: "parameter", Bytes: int64(100+stage) * mib}}
		for l := range 8 {
			m.Parts = append(m.Parts, fleet.Part{Category: "activation", Layer: fmt.Sprintf("layers[%d]", stage*8+l), Bytes: perLayer})
		}
		m.Change = fleet.Change{Edits: "checkpoint=blocks", Advice: "Checkpoint the layers.", Peak: m.Peak, Low: m.Peak / 2, High: m.Peak / 2, Saved: m.Peak / 2}
		m.ReservedPeak = m.Peak + 50*mib
		if rank%8 == 6 && stage != 3 {
			m.ReservedPeak += 500 * mib
		}
		if rank == 11 || rank == 12 {
			m.Failed, m.Requester = "fragmented: enough is free in pieces", "forward (model.py:27)"
		}
		if rank == 13 { // cut before most of it
			m.Peak /= 4
			r.Losses = []fleet.Loss{{Reason: "truncated", Count: 1}}
		}
		r.Memories = []fleet.Memory{m}
		all = append(all, r)
	}
	return all, table
}

// TestCauses: outliers are grouped by their causes, and captures that end early are not judged.
func TestCauses(t *testing.T) {
	const n, stages = 64, 8
	records, table := causes(n, stages)
	roles, err := fleet.ReadRoles(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	var fragmented, stage3 []string
	for rank := range n {
		switch {
		case rank*stages/n == 3:
			stage3 = append(stage3, fmt.Sprintf("rank %d", rank))
		case rank%8 == 6:
			fragmented = append(fragmented, fmt.Sprintf("rank %d", rank))
		}
	}
	f := of(records...)
	for _, given := range []*fleet.Roles{roles, nil} {
		groups := f.Outliers(given)
		have := map[string]*fleet.OutlierGroup{}
		for i := range groups {
			what := "in use"
			if groups[i].Measure == finding.IdleReserved {
				what = "idle"
			}
			have[strings.Join(groups[i].Ranks, " ")+" "+what] = &groups[i]
		}
		leak := have[strings.Join(stage3, " ")+" in use"]
		if leak == nil || leak.Leak == nil || leak.Leak.Place != "record (model.py:44)" || leak.Leak.HeldBy[0] != "history[*]" {
			t.Errorf("the leak is not found: %+v", leak)
		} else if c := leak.Categories; len(c) == 0 || c[0].Category != "activation" || c[0].Bytes != 400<<20 || !slices.Equal(c[0].Layers, []string{"layers[24-31]"}) {
			t.Errorf("the leak: %+v", c)
		} else if given != nil && leak.Role != "pipeline stage 3" || given == nil && leak.Role != "103 MiB of parameters" {
			t.Errorf("its ranks are %q", leak.Role)
		}
		if w := leak.WhatIf; w == nil || w.Rank != "rank 25" || w.Saved != 706<<20 {
			t.Errorf("what if: %+v", w)
		}
		bucket := have["rank 0 in use"]
		if bucket == nil || bucket.Leak != nil || bucket.Categories[0].Category != "gradient" || bucket.Places[0].Place != "bucket (model.py:61)" {
			t.Errorf("the bucket: %+v", bucket)
		}
		if have[strings.Join(fragmented, " ")+" idle"] == nil || len(groups) != 3 {
			t.Errorf("%d groups, want 3: %v", len(groups), slices.Sorted(maps.Keys(have)))
		}
	}
	if code := f.OtherCode(); len(code) != 1 || !slices.Equal(code[0].Ranks, []string{"rank 7"}) || code[0].Line-code[0].Usual != 4 {
		t.Errorf("other code: %+v", code)
	}
	if failures := f.Failures(); len(failures) != 1 || !slices.Equal(failures[0].Ranks, []string{"rank 11", "rank 12"}) || failures[0].Requesters[0] != "forward (model.py:27)" ||
		failures[0].WhatIf == nil || failures[0].WhatIf.Rank != "rank 12" {
		t.Errorf("failures: %+v", failures)
	}
}

// TestOtherCode: an edit moves all that follows it, also only a part of a function with several calls. A branch that some ranks take
// moves only its own lines.
func TestOtherCode(t *testing.T) {
	type lines map[string][]int
	usual := lines{"build": {5}, "batch": {10}, "loss": {14, 18}, "step": {20, 21, 22, 23}, "train": {30, 31}}
	for what, other := range map[string]struct {
		lines lines
		want  string
	}{
		"an edit in a function":  {lines{"build": {5}, "batch": {10}, "loss": {14, 18}, "step": {20, 21, 23, 24}, "train": {31, 32}}, "step 23 22 2 [rank 7]"},
		"lines that are deleted": {lines{"build": {5}, "batch": {8}, "loss": {12, 16}, "step": {18, 19, 20, 21}, "train": {28, 29}}, "batch 8 10 4 [rank 7]"},
		"another branch":         {lines{"build": {5}, "batch": {9}, "loss": {14, 17}, "step": {20, 21, 22, 23}, "train": {30, 31}}, ""},
		"one function":           {lines{"build": {5}, "batch": {10}, "loss": {14, 18}, "step": {20, 21, 22, 23}, "train": {31, 32}}, ""},
	} {
		var records []*fleet.Record
		for rank := range 9 {
			of := usual
			if rank == 7 {
				of = other.lines
			}
			m := fleet.Memory{Rank: fmt.Sprintf("rank %d", rank), Device: "cuda:0"}
			for _, function := range slices.Sorted(maps.Keys(of)) {
				for _, line := range of[function] {
					frames := []frame.Frame{{Function: function, File: "/job/train.py", Line: line, Kind: frame.User}}
					m.Sites = append(m.Sites, fleet.SiteTotals{Site: fleet.Site{Frames: frames}, Allocated: lifetime.Amount{Count: 1, Bytes: 8, Requested: 8}})
				}
			}
			records = append(records, &fleet.Record{Name: fmt.Sprintf("rank%d.pickle", rank), Format: "torch-snapshot", Memories: []fleet.Memory{m}})
		}
		have := ""
		for _, c := range of(records...).OtherCode() {
			have += fmt.Sprint(c.Function, " ", c.Line, " ", c.Usual, " ", c.Count, " ", c.Ranks)
		}
		if have != other.want {
			t.Errorf("%s: %q, want %q", what, have, other.want)
		}
	}
}

// TestReadRoles: a table of ranks has commas or tabs; a wrong one has an error.
func TestReadRoles(t *testing.T) {
	if _, err := fleet.ReadRoles(strings.NewReader("host\trank\nn1\t0\n")); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{"": "empty", "a,b\n1,2\n": "column rank", "rank,pp\nx,1\n": "line 2", "rank,pp\n1\n": "wrong number of fields"} {
		if _, err := fleet.ReadRoles(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestRankRanges: numbers that follow each other are a range.
func TestRankRanges(t *testing.T) {
	if got := strings.Join(fleet.RankRanges([]string{"rank 3", "rank 5", "rank 4", "rank 9", "main"}), ", "); got != "main, 3-5, 9" {
		t.Error(got)
	}
}
