package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
)

// pprofPath returns the program that go tool pprof runs. Looking for it takes longer than it runs.
var pprofPath = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "pprof").Output()
	return strings.TrimSpace(string(out)), err
})

// goTool runs go tool pprof.
func goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	program, err := pprofPath()
	if err != nil || args[0] != "pprof" {
		t.Fatalf("go tool %v: %v", args, err)
	}
	out, err := exec.Command(program, args[1:]...).Output()
	if err != nil {
		t.Fatalf("go tool %v: %v", args, err)
	}
	return out
}

// top runs go tool pprof -top and returns the value of each function, by name.
func top(t *testing.T, args ...string) map[string]int64 {
	t.Helper()
	out := goTool(t, append([]string{"pprof", "-top", "-unit=B", "-nodecount=1000"}, args...)...)
	found := map[string]int64{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(-?\d+B?)\s.*%\s+(\S.*)$`).FindAllStringSubmatch(string(out), -1) {
		if n, err := strconv.ParseInt(strings.TrimSuffix(m[1], "B"), 10, 64); err == nil && n != 0 {
			found[m[2]] = n
		}
	}
	return found
}

// TestLeakedSpace checks that leaked_space equals the sum of the leaks of a capture.
func TestLeakedSpace(t *testing.T) {
	heap := filepath.Join(t.TempDir(), "heap.pb.gz")
	for name, file := range pickles(t) {
		var leaked int64
		for _, f := range decode[answer.Leaks](t, succeed(t, "leaks", "--quiet", "--json", file)).Findings {
			if f.Severity != "info" && (f.Rule == "leak" || f.Rule == "growing_buffer") {
				leaked += f.Bytes
			}
		}
		if _, _, status := memlane("", "pprof", "--quiet", "-o", heap, file); status != 0 {
			continue // nothing to profile
		}
		if got := totals(t, heap)["leaked_space"]; got != leaked {
			t.Errorf("%s: leaked_space is %d, leaks finds %d", name, got, leaked)
		}
	}
}

// TestDiffProfile checks that the profile of diff equals the difference that pprof itself
// computes between two profiles.
func TestDiffProfile(t *testing.T) {
	dir := t.TempDir()
	before, after, d := filepath.Join(dir, "before.pb.gz"), filepath.Join(dir, "after.pb.gz"), filepath.Join(dir, "diff.pb.gz")
	for _, pair := range [][2]string{{"pair_before", "pair_after"}, {"leak_loss", "leak_loss_fixed"}} {
		one, two := pickles(t)[pair[0]], pickles(t)[pair[1]]
		succeed(t, "pprof", "-o", before, one)
		succeed(t, "pprof", "-o", after, two)
		succeed(t, "diff", "-o", d, one, two)
		// diff names functions without lines, which move from one version to the next.
		ours, theirs := top(t, "-nodefraction=0", d), map[string]int64{}
		for name, bytes := range top(t, "-nodefraction=0", "-diff_base", before, after) {
			name, _, _ = strings.Cut(name, " (")
			theirs[name] += bytes
		}
		if !maps.Equal(ours, theirs) || len(ours) == 0 {
			t.Errorf("%v: ours %v, pprof's %v", pair, ours, theirs)
		}
	}
}

// TestInstants checks that pprof can compare two instants of a capture, and that an instant must have been recorded.
func TestInstants(t *testing.T) {
	dir := t.TempDir()
	early, late := filepath.Join(dir, "early.pb.gz"), filepath.Join(dir, "late.pb.gz")
	file := "../../testdata/labelled/d01_list_act.pickle.zst"
	capture, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := capture.Spaces[0]
	var steps []int64 // their beginnings
	for _, m := range s.Marks {
		if m.Kind == lifetime.Step {
			steps = append(steps, m.Begin)
		}
	}
	succeed(t, "pprof", "--at", strconv.FormatInt(steps[1], 10), "-o", early, file)
	succeed(t, "pprof", "--at", strconv.FormatInt(steps[31], 10), "-o", late, file)
	if got := top(t, "-diff_base", early, late); got["project (train_mlp.py:33)"] != 30*4<<20 {
		t.Errorf("%v", got)
	}
	if _, stderr, status := memlane("", "pprof", "--at", "oom", "-o", late, file); status != statusNothing {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestUserFrames checks that the leaf is a frame of the user's program, if there is one.
func TestUserFrames(t *testing.T) {
	heap := filepath.Join(t.TempDir(), "heap.pb.gz")
	leaves := func(args ...string) (all []string) {
		succeed(t, append([]string{"pprof", "-o", heap, pickles(t)["leak_loss"]}, args...)...)
		for _, s := range readProfile(t, heap).Sample {
			all = append(all, s.Location[0].Line[0].Function.Filename)
		}
		return all
	}
	inTorch := func(file string) bool { return strings.Contains(file, "/torch/") }
	if slices.ContainsFunc(leaves(), inTorch) || !slices.ContainsFunc(leaves("--frames", "all"), inTorch) {
		t.Errorf("leaves %v, with all frames %v", leaves(), leaves("--frames", "all"))
	}
}

func readProfile(t *testing.T, file string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
