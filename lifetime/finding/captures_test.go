package finding_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/preset"
)

// leakAt is a leak in the form of the truth tables.
type leakAt struct {
	device, function, file string
	line                   int
	requested, count       int64
}

func (l leakAt) site() string {
	return fmt.Sprintf("%s %s %s:%d", l.device, l.function, l.file, l.line)
}

// found returns the leaks in a capture, sorted by place.
func found(t *testing.T, file string) []leakAt {
	t.Helper()
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var all []leakAt
	for _, f := range find(t, c.Capture, finding.Settings{}) {
		if !f.IsLeak() {
			continue
		}
		all = append(all, placeOf(c.Capture, &f))
	}
	return sorted(all)
}

// placeOf returns a finding in the form of the truth tables.
func placeOf(c *lifetime.Capture, f *finding.Finding) leakAt {
	l := leakAt{device: f.Space.ID(), requested: f.Amount.Requested, count: f.Amount.Count}
	l.function = c.Sites[f.Place()].Op
	if frame, ok := c.FrameOf(f.Place()); ok {
		l.function, l.file, l.line = frame.Function, path.Base(frame.File), frame.Line
	}
	return l
}

func sorted(all []leakAt) []leakAt {
	slices.SortFunc(all, func(x, y leakAt) int { return cmp.Compare(x.site(), y.site()) })
	return all
}

// TestTorchCaptures: the rules find every leak of the captures in testdata, with exact bytes and count, and nothing else.
// testdata/README.md describes their programs.
func TestTorchCaptures(t *testing.T) {
	const device = "cuda:0"
	activation := func(count, size int64) []leakAt {
		return []leakAt{{device, "make_activation", "leak.py", 8, count * size, count}}
	}
	truth := map[string][]leakAt{
		"leak_4mib_20steps":        activation(20, 4<<20),
		"proto0_leak_4mib_20steps": activation(20, 4<<20),
		"proto2_leak_4mib_20steps": activation(20, 4<<20),
		"proto3_leak_4mib_20steps": activation(20, 4<<20),
		"proto5_leak_4mib_20steps": activation(20, 4<<20),
		"t215_leak_1mib_12steps":   activation(12, 1<<20),
		"t212_leak":                activation(7, 2<<20),
		"t241_leak":                activation(7, 2<<20),
		"t201_dict":                {{device, "make_activation", "old_api.py", 7, 6 * 2 << 20, 6}}, // t201_list has no history
		"leak_loss": {
			{device, "forward", "leak_loss.py", 9, 8 * 2 << 20, 8},
			{device, "forward", "leak_loss.py", 10, 8 * 512 << 10, 8},
			{device, "step", "leak_loss.py", 19, 8 * 1 << 20, 8},
		},
		"small_leak_cycles": {{device, "leak_small", "small.py", 12, 30 * 2048, 30}},
		"cuprof_leak":       {{device, "forward", "cuda_prof.py", 8, 6 * 65536, 6}},
		"t215_cuprof_leak":  {{device, "forward", "cuda_prof.py", 8, 4 * 65536, 4}},
		"held": {
			{device, "new", "held.py", 14, 24*6<<10 + 12*(5+12+13)<<10, 60}, // of a hook, a context, a dict and a queue
			{device, "forward", "held.py", 24, 24 * 4096, 24},
			{device, "train", "held.py", 85, 12*4096 + 12*4, 24},
		},
		"twodev":      {{"cuda:1", "leaky_step", "twodev.py", 11, 10 << 20, 10}},
		"t215_twodev": {{"cuda:1", "leaky_step", "twodev.py", 11, 6 << 20, 6}},
	}
	files, err := filepath.Glob("../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pickle")
		want, got := truth[name], found(t, file)
		delete(truth, name)
		if !slices.Equal(got, sorted(want)) {
			t.Errorf("%s: found\n  %v, want\n  %v", name, got, want)
		}
	}
	for name := range truth {
		t.Errorf("%s is not in testdata", name)
	}
}

// labelled is a capture whose program recorded its own leaks. They are in the folder "labelled" of MEMLANE_CAPTURES, or of
// testdata if that is not set.
type labelled struct {
	name string // without the folder
	file string
	want []leakAt
}

// labelledCaptures returns all labelled captures: snapshots, traces of the same programs, and profiles. The functions of a
// profile are operations.
func labelledCaptures(t *testing.T) (all []labelled) {
	dir := cmp.Or(os.Getenv("MEMLANE_CAPTURES"), "../../testdata")
	truths, _ := filepath.Glob(filepath.Join(dir, "labelled", "*.truth.json"))
	if len(truths) == 0 {
		t.Fatalf("%s has no labelled captures", dir)
	}
	for _, truth := range truths {
		files, _ := filepath.Glob(strings.TrimSuffix(truth, ".truth.json") + ".*")
		for _, file := range files {
			if !strings.HasSuffix(file, ".json") { // of the truth
				all = append(all, labelled{filepath.Base(file), file, truthOf(t, truth)})
			}
		}
	}
	return all
}

// same reports whether a finding is a leak of the truth. Traces of CUDA have rounded sizes and, before PyTorch 2.15, the
// line of the def. Operations have no file and line, and another name for the device.
func (l leakAt) same(want leakAt, file string) bool {
	switch {
	case strings.Contains(file, ".trace.json"):
		want.line, want.requested = l.line, l.requested
	case strings.Contains(file, ".xplane.pb"):
		want.device, want.file, want.line = l.device, l.file, l.line
	}
	return l == want
}

// tally counts correct, missed and wrong findings.
type tally struct{ hits, missed, wrong int }

func (c *tally) add(o tally) {
	c.hits, c.missed, c.wrong = c.hits+o.hits, c.missed+o.missed, c.wrong+o.wrong
}

func (c tally) String() string {
	return fmt.Sprintf("precision %.2f (%d of %d), recall %.2f (%d of %d)", ratio(c.hits, c.hits+c.wrong), c.hits, c.hits+c.wrong,
		ratio(c.hits, c.hits+c.missed), c.hits, c.hits+c.missed)
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// compare counts the leaks of got that are in want. equal reports whether two are the same.
func compare(got, want []leakAt, equal func(got, want leakAt) bool) (c tally) {
	left := slices.Clone(want)
	for _, l := range got {
		i := slices.IndexFunc(left, func(w leakAt) bool { return equal(l, w) })
		if i < 0 {
			c.wrong++
			continue
		}
		c.hits++
		left = slices.Delete(left, i, i+1)
	}
	c.missed = len(left)
	return c
}

// TestLabelledCaptures measures the rules by site, with exact bytes and counts, and for comparison the leak rule of each
// preset by function.
func TestLabelledCaptures(t *testing.T) {
	var own tally
	others := make([]tally, len(preset.Presets))
	for _, l := range labelledCaptures(t) {
		got := found(t, l.file)
		c := compare(got, l.want, func(got, want leakAt) bool { return got.same(want, l.file) })
		if c.missed+c.wrong > 0 {
			t.Errorf("%s: found\n  %v, want\n  %v", l.name, got, l.want)
		}
		own.add(c)
		line := fmt.Sprintf("%-30s own %d found, %d missed, %d wrong", l.name, c.hits, c.missed, c.wrong)
		for i, p := range preset.Presets {
			c := compare(foundBy(t, p, l.file), functionsOf(l.want), func(got, want leakAt) bool { return got.function == want.function })
			others[i].add(c)
			line += fmt.Sprintf("; %s %d, %d, %d", p.Name, c.hits, c.missed, c.wrong)
		}
		t.Log(line)
	}
	t.Logf("own rules, by site: %v", own)
	for i, p := range preset.Presets {
		t.Logf("%s, by function: %v", p.Name, others[i])
	}
}

// functionsOf returns one leak per function.
func functionsOf(all []leakAt) (out []leakAt) {
	for _, l := range all {
		if !slices.ContainsFunc(out, func(o leakAt) bool { return o.function == l.function }) {
			out = append(out, l)
		}
	}
	return out
}

// foundBy returns the leaking functions according to a preset.
func foundBy(t *testing.T, p preset.Preset, file string) (all []leakAt) {
	t.Helper()
	c, err := judged.Open(file, formats.Input{Keep: build.Calls})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range p.Optimize(c.Capture, preset.CallsOf(c.Capture), p.Thresholds).AllPatterns {
		if pattern.PatternType == "memory_leak" {
			all = append(all, leakAt{function: pattern.AffectedFunctions[0]})
		}
	}
	return all
}

// TestTraceCaptures is TestTorchCaptures for traces of the profiler. Before PyTorch 2.15 they have the line of the def, not
// of the call.
func TestTraceCaptures(t *testing.T) {
	for name, want := range map[string][]leakAt{
		"cpu_leak":         {{"cpu", "make_activation", "cpu_prof.py", 24, 12 << 20, 12}},
		"t215_cpu_leak":    {{"vm/cpu", "make_activation", "cpu_prof.py", 25, 12 << 20, 12}},
		"cuprof_leak":      {{"cuda:0", "forward", "cuda_prof.py", 8, 6 * 65536, 6}},
		"t215_cuprof_leak": {{"vm/cuda:0", "forward", "cuda_prof.py", 8, 4 * 65536, 4}},
		"cpu_healthy":      nil,
		"cpu_rank0":        nil,
		"cpu_rank1":        {{"rank 1/cpu", "body", "cpu_prof.py", 37, 3 * 500000, 3}},
	} {
		if got := found(t, "../../testdata/chrome/"+name+".json.gz"); !slices.Equal(got, want) {
			t.Errorf("%s: found\n  %v, want\n  %v", name, got, want)
		}
	}
}

// kept returns the leaks of a profile as text: operation, count, bytes.
func kept(t *testing.T, file string) []string {
	t.Helper()
	c, err := judged.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range find(t, c.Capture, finding.Settings{}) {
		if f.IsLeak() {
			all = append(all, fmt.Sprintf("%s %d %d", c.Sites[f.Sites[0]].Op, f.Amount.Count, f.Amount.Bytes))
		}
	}
	return all
}

// TestXProfCaptures: without stacks, the rules find leaks by operation.
func TestXProfCaptures(t *testing.T) {
	for name, want := range map[string][]string{
		"tf_leak":       {"Relu 12 786432"},
		"tf_graph":      {"encoder/matmul 12 786432"}, // the activation overwrites its result
		"tf_oom":        {"Relu 16 33554432"},         // retained until memory runs out, after more than 12 steps
		"tf_frag":       nil,
		"tf_warm_cache": nil,
	} {
		if got := kept(t, "../../testdata/xplane/"+name+".xplane.pb"); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	}
}

func truthOf(t *testing.T, file string) []leakAt {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var truth struct {
		Leaks []struct {
			Function, File string
			Line           int
			Bytes, Count   int64
			Device         any // a number of CUDA's, or a name
		}
	}
	if err := json.Unmarshal(data, &truth); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var all []leakAt
	for _, l := range truth.Leaks {
		file := path.Base(l.File)
		if l.File == "" {
			file = ""
		}
		all = append(all, leakAt{fmt.Sprintf("cuda:%v", l.Device), l.Function, file, l.Line, l.Bytes, l.Count})
	}
	return all
}

// TestCompiler: a compiler that allocates the same again and again works once.
func TestCompiler(t *testing.T) {
	c, err := judged.Open("../../testdata/meaning/compiled/compiled.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	if all := find(t, c.Capture, finding.Settings{}); len(all) > 0 {
		t.Errorf("%s: %s", all[0].Rule, all[0].Description)
	}
}
