package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCausesOfRun: of the captures of a job with a truth of causes, all causes are found, and no others. Stage 3 leaks, rank 0 has a
// larger bucket, the ranks of expert 6 reserve more, rank 7 runs another commit, and ranks 11 and 12 fail.
func TestCausesOfRun(t *testing.T) {
	dir, n := t.TempDir(), *captures
	const stages, experts = 8, 8
	table := "rank,pipeline,expert\n"
	var names, stage3, expert6 []string
	for i := range n {
		r := newRank(i)
		stage, expert := i*stages/n, i%experts
		if r.leaks = stage == 3; r.leaks {
			stage3 = append(stage3, fmt.Sprintf("rank %d", i))
		}
		if r.fragmented = expert == 6; r.fragmented {
			expert6 = append(expert6, fmt.Sprintf("rank %d", i))
		}
		switch i {
		case 0:
			r.bucket = 60 * mib
		case 7:
			r.moved = 4
		case 11, 12:
			r.fails = true
		}
		table += fmt.Sprintf("%d,%d,%d\n", i, stage, expert)
		name := filepath.Join(dir, fmt.Sprintf("rank%d.pickle", i))
		if err := os.WriteFile(name, r.capture(), 0o666); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	roles := filepath.Join(dir, "ranks.csv")
	if err := os.WriteFile(roles, []byte(table), 0o666); err != nil {
		t.Fatal(err)
	}
	results := t.TempDir()
	call(t, 0, lines(names), "run", "--quiet", "--ranks", roles, "-o", results)
	files := resultsIn(t, results)
	if n := strings.Count(files["report.txt"], "\n"); n > 40 {
		t.Errorf("the report has %d lines", n)
	}
	type ranked struct{ Ranks []string }
	var have struct {
		Outlier_Groups []struct {
			ranked
			Measure, Role string
			Leak          *string
			Places        []struct{ Place string }
		}
		Other_Code []ranked
		Failures   []ranked
	}
	if err := json.Unmarshal([]byte(files["fleet.json"]), &have); err != nil {
		t.Fatal(err)
	}
	var causes []string
	for _, g := range have.Outlier_Groups {
		why := g.Measure
		if g.Leak != nil {
			why = *g.Leak
		} else if len(g.Places) > 0 {
			why = g.Places[0].Place
		}
		causes = append(causes, fmt.Sprint(why, " of ", g.Role, g.Ranks))
	}
	for _, c := range have.Other_Code {
		causes = append(causes, fmt.Sprint("other code ", c.Ranks))
	}
	for _, f := range have.Failures {
		causes = append(causes, fmt.Sprint("out of memory ", f.Ranks))
	}
	want := []string{
		fmt.Sprint("leak record_loss (metrics.py:8) of pipeline stage 3", stage3),
		"new_bucket (reducer.py:31) of [rank 0]",
		fmt.Sprint("idle reserved bytes of expert rank 6", expert6),
		"other code [rank 7]",
		"out of memory [rank 11 rank 12]",
	}
	for _, c := range causes {
		if !slices.Contains(want, c) {
			t.Errorf("wrong: %.300s", c)
		}
	}
	for _, c := range want {
		if !slices.Contains(causes, c) {
			t.Errorf("missed: %.300s", c)
		}
	}
	if t.Failed() {
		t.Log(files["report.txt"])
	}
}

// TestGroupsOfTraces: traces of PyTorch name ranks by their process groups. A table wins, and names that say nothing are not used.
func TestGroupsOfTraces(t *testing.T) {
	const n, stages = 32, 4
	for what, c := range map[string]struct{ groups, table, want string }{
		"Megatron":   {`{"pg_desc": "PIPELINE_MODEL_PARALLEL_GROUP", "ranks": [%[1]s]}, {"pg_desc": "MODEL_PARALLEL_GROUP", "ranks": [%[2]s]}`, "", "of pipeline stage 2"},
		"DeviceMesh": {`{"pg_desc": "default_pg", "ranks": [%[2]s]}, {"pg_desc": "mesh_pp", "ranks": [%[1]s]}`, "", "of pipeline stage 2"},
		"no names":   {`{"pg_desc": "undefined", "ranks": [%[1]s]}, {"pg_desc": "mesh_dim_0", "ranks": [%[2]s]}`, "", ""},
		"two":        {`{"pg_desc": "mesh_pp", "ranks": [%[1]s]}, {"pg_desc": "pp", "ranks": [%[2]s]}`, "", ""},
		"a table":    {`{"pg_desc": "mesh_tp", "ranks": [%[1]s]}, {"pg_desc": "dp", "ranks": [%[2]s]}`, "pp", "of pipeline stage 2"},
	} {
		dir := t.TempDir()
		table := "rank," + c.table + "\n"
		var names []string
		for rank := range n {
			stage := rank / (n / stages)
			var group, all []string
			for i := range n {
				if i%(n/stages) == rank%(n/stages) {
					group = append(group, fmt.Sprint(i))
				}
				all = append(all, fmt.Sprint(i))
			}
			bytes := 64 * mib
			if stage == 2 {
				bytes += 32 * mib
			}
			table += fmt.Sprintf("%d,%d\n", rank, stage)
			groups := fmt.Sprintf(c.groups, strings.Join(group, ", "), strings.Join(all, ", "))
			text := fmt.Sprintf(`{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "distributedInfo": {"rank": %d, "pg_config": [%s]}, "traceEvents": [
				{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": {"Total Allocated": %[3]d, "Bytes": %[3]d, "Device Id": 0, "Device Type": 1, "Addr": 4096}},
				{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 9, "args": {"Total Allocated": 0, "Bytes": -%[3]d, "Device Id": 0, "Device Type": 1, "Addr": 4096}}]}`,
				rank, groups, bytes)
			name := filepath.Join(dir, fmt.Sprintf("trace%d.json", rank))
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		results := t.TempDir()
		args := []string{"run", "--quiet", "-o", results}
		if c.table != "" {
			file := filepath.Join(dir, "ranks.csv")
			if err := os.WriteFile(file, []byte(table), 0o666); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--ranks", file)
		}
		call(t, 0, lines(names), args...)
		report := resultsIn(t, results)["report.txt"]
		if !strings.Contains(report, "8 ranks") || !strings.Contains(report, c.want) || c.want == "" && strings.Contains(report, "stage") {
			t.Errorf("%s: want %q\n%s", what, c.want, report)
		}
	}
}

// newDays writes the results of ten days of two models, as folders whose names have labels. Ranks 4 to 7 of model a leak from day six on.
func newDays(t *testing.T) (runs string) {
	dir := t.TempDir()
	runs = filepath.Join(dir, "runs")
	rnd := rand.New(rand.NewPCG(10, 6))
	for _, model := range []string{"a", "b"} {
		for day := 1; day <= 10; day++ {
			var names []string
			for i := range 16 {
				r := newRank(rnd.IntN(1 << 30))
				r.leaks = model == "a" && day >= 6 && i/4 == 1
				name := filepath.Join(dir, "captures", model, fmt.Sprintf("day%d", day), fmt.Sprintf("rank%d.pickle", i))
				if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, r.capture(), 0o666); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			call(t, 0, lines(names), "run", "--quiet", "-o", filepath.Join(runs, "model="+model, fmt.Sprintf("commit=%04x", rnd.IntN(1<<16)), fmt.Sprintf("day%d", day)))
		}
	}
	return runs
}

// TestDays: trend finds the day, the ranks and the first capture of a regression, in the runs of its model alone.
func TestDays(t *testing.T) {
	runs := newDays(t)
	out, _ := call(t, 0, "", "trend", runs)
	changed, steady, ok := strings.Cut(out, "No lasting change\n")
	if !ok || !strings.HasPrefix(changed, "model=a: 10 runs\n") || strings.Count(changed, "since") != 1 || strings.Contains(changed, "model=b") || !strings.Contains(steady, "model=b: 10 runs") {
		t.Errorf("prints\n%s", out)
	}
	if !strings.Contains(changed, "leaked bytes 0 B to 9.00 MiB") || !strings.Contains(changed, "/day6, on 4 ranks (4-7): ") || !strings.Contains(changed, "captures/a/day6/rank4.pickle") {
		t.Errorf("prints\n%s", out)
	}
	out, _ = call(t, 0, "", "trend", "--by", "job", runs)
	if !strings.HasPrefix(out, "cuda since model=a/commit=") && !strings.HasPrefix(out, "No lasting change in 20 runs") {
		t.Errorf("prints\n%s", out)
	}
}

// TestStoredRuns: runs in an object store are found, not only those of a disk.
func TestStoredRuns(t *testing.T) {
	s := newStore(t)
	bucket := s.bucket(t)
	if err := bucket.WriteAll(t.Context(), "runs/model=a/day9/notes.txt", nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"runs/model=a/day9", "runs/model=b/day9", "runs/model=a/day10"} {
		call(t, 0, lines(job(t)[:2]), "run", "--quiet", "-o", s.address(run))
	}
	out, _ := call(t, 0, "", "trend", "--by", "job", s.address("runs"))
	if a, b, c := strings.Index(out, "model=a/day9"), strings.Index(out, "model=b/day9"), strings.Index(out, "model=a/day10"); a < 0 || b < a || c < b {
		t.Errorf("prints\n%s", out)
	}
	call(t, 0, "", "trend", s.address("runs/model=a/day10"), s.address("runs/model=a/day10"))
}
