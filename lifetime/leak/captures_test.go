package leak_test

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
	"github.com/memlane/memlane/lifetime/leak"
)

// leakAt is a leak as the truth tables name it.
type leakAt struct {
	device, function, file string
	line                   int
	requested, count       int64
}

func (l leakAt) site() string {
	return fmt.Sprintf("%s %s %s:%d", l.device, l.function, l.file, l.line)
}

// found runs the rules on a capture, by place.
func found(t *testing.T, file string) []leakAt {
	t.Helper()
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var all []leakAt
	for _, f := range leak.Find(c, c.Spaces, leak.Settings{}) {
		if !f.IsLeak() {
			continue
		}
		l := leakAt{device: f.Space.ID(), requested: f.Amount.Requested, count: f.Amount.Count}
		if frame, ok := c.UserFrame(f.Sites[0]); ok {
			l.function, l.file, l.line = frame.Function, path.Base(frame.File), frame.Line
		}
		all = append(all, l)
	}
	return sorted(all)
}

func sorted(all []leakAt) []leakAt {
	slices.SortFunc(all, func(x, y leakAt) int { return cmp.Compare(x.site(), y.site()) })
	return all
}

// TestTorchCaptures: every leak of the captures in testdata is found, with its
// exact bytes and count, and nothing else. The truth is what their programs do
// (testdata/README.md).
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
		"twodev":            {{"cuda:1", "leaky_step", "twodev.py", 11, 10 << 20, 10}},
		"t215_twodev":       {{"cuda:1", "leaky_step", "twodev.py", 11, 6 << 20, 6}},
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

// TestLabelledCaptures measures the rules on captures whose programs wrote down
// what they leak, in the folder "labelled" below MEMLANE_CAPTURES.
func TestLabelledCaptures(t *testing.T) {
	dir := os.Getenv("MEMLANE_CAPTURES")
	files, _ := filepath.Glob(filepath.Join(dir, "labelled", "*.truth.json"))
	if dir == "" || len(files) == 0 {
		t.Skip("MEMLANE_CAPTURES names no folder with labelled captures")
	}
	var hits, missed, wrong int
	for _, file := range files {
		capture := strings.TrimSuffix(file, ".truth.json") + ".pickle"
		if _, err := os.Stat(capture); err != nil {
			continue // of another format
		}
		name := strings.TrimSuffix(filepath.Base(capture), ".pickle")
		want, got := truthOf(t, file), found(t, capture)
		bySite := map[string]leakAt{}
		for _, l := range got {
			bySite[l.site()] = l
		}
		hit, miss := 0, 0
		for _, l := range want {
			f, ok := bySite[l.site()]
			delete(bySite, l.site())
			switch {
			case !ok:
				t.Errorf("%s: missed %v", name, l)
				miss++
			default:
				hit++
				if f != l {
					t.Errorf("%s: found %v, want %v", name, f, l)
				}
			}
		}
		for _, l := range bySite {
			t.Errorf("%s: %v is no leak", name, l)
		}
		hits, missed, wrong = hits+hit, missed+miss, wrong+len(bySite)
		t.Logf("%-20s found %d, missed %d, wrong %d", name, hit, miss, len(bySite))
	}
	t.Logf("sites: precision %d/%d, recall %d/%d", hits, hits+wrong, hits, hits+missed)
}

// TestTraceCaptures: the same of traces of the profiler, which know the line of
// the def, not that of the call, before PyTorch 2.15.
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

// kept renders the leaks of a profile: operation, count, bytes.
func kept(t *testing.T, file string) []string {
	t.Helper()
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range leak.Find(c, c.Spaces, leak.Settings{}) {
		if f.IsLeak() {
			all = append(all, fmt.Sprintf("%s %d %d", c.Sites[f.Sites[0]].Op, f.Amount.Count, f.Amount.Bytes))
		}
	}
	return all
}

// TestXProfCaptures: leaks are found by operation where no stacks are recorded.
func TestXProfCaptures(t *testing.T) {
	for name, want := range map[string][]string{
		"tf_leak":       {"Relu 12 786432"},
		"tf_graph":      {"encoder/matmul 12 786432"}, // which the activation is written over
		"tf_oom":        {"Relu 16 33554432"},         // kept until there is no room: more than the 12 steps it was to run
		"tf_frag":       nil,
		"tf_warm_cache": nil,
	} {
		if got := kept(t, "../../testdata/xplane/"+name+".xplane.pb"); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	}
}

// TestLabelledProfiles is TestLabelledCaptures for profiles, whose programs name
// the operation in place of the function.
func TestLabelledProfiles(t *testing.T) {
	dir := os.Getenv("MEMLANE_CAPTURES")
	files, _ := filepath.Glob(filepath.Join(dir, "labelled", "*.xplane.pb"))
	if dir == "" || len(files) == 0 {
		t.Skip("MEMLANE_CAPTURES names no folder with labelled profiles")
	}
	for _, file := range files {
		data, err := os.ReadFile(strings.TrimSuffix(file, ".xplane.pb") + ".truth.json")
		if err != nil {
			t.Fatal(err)
		}
		var truth struct {
			Leaks []struct {
				Function     string
				Bytes, Count int64
			}
		}
		if err := json.Unmarshal(data, &truth); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, l := range truth.Leaks {
			want = append(want, fmt.Sprintf("%s %d %d", l.Function, l.Count, l.Bytes))
		}
		if got := kept(t, file); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", filepath.Base(file), got, want)
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
			Function, File             string
			Line, Device               int
			Bytes, Count, BytesPerStep int64
		}
	}
	if err := json.Unmarshal(data, &truth); err != nil && !strings.Contains(err.Error(), "bytes_per_step") {
		t.Fatalf("%s: %v", file, err)
	}
	var all []leakAt
	for _, l := range truth.Leaks {
		all = append(all, leakAt{fmt.Sprintf("cuda:%d", l.Device), l.Function, filepath.Base(l.File), l.Line, l.Bytes, l.Count})
	}
	return all
}
