package oom_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
)

// recordings are the true reasons of recorded failures in testdata: from the programs, and from runs of them under other settings.
var recordings = map[string]string{
	"torchsnap/frag_oom.pickle": "fragmented", "torchsnap/frag_oom_observer.pickle": "fragmented", "torchsnap/t215_frag_oom.pickle": "fragmented",
	"torchsnap/t215_frag_oom_observer.pickle": "fragmented", "torchsnap/oom_observer.pickle": "exhausted",
	"replay/b02.c2.oom.pickle.zst": "fragmented", "replay/b03.c2.oom.pickle.zst": "fragmented", "replay/b04.c2.oom.pickle.zst": "fragmented",
	"replay/b09.c2.oom.pickle.zst": "fragmented", "replay/b13.c2.oom.pickle.zst": "fragmented", "replay/b14.c2.oom.pickle.zst": "private_pools",
	"replay/b16.c2.oom.pickle.zst": "fragmented", "replay/b19.c2.oom.pickle.zst": "fragmented", "chrome/cpu_oom.json.gz": "larger_than_device survived survived",
	"failures/table.pickle.zst": "leak", "failures/first_pass.pickle.zst": "exhausted", "failures/shards.pickle.zst": "exhausted", "failures/whole.pickle.zst": "exhausted",
	"xplane/tf_oom.xplane.pb": "leak", // it retains the results of every step
}

// verdicts are the reasons behind the verdicts of other truth files.
var verdicts = map[string]string{
	"capacity": "exhausted", "oversubscribed": "exhausted", "pool_full_or_preallocation": "exhausted outside", "temporaries": "exhausted",
	"outputs_and_temporaries": "exhausted", "fragmentation": "fragmented", "fragmentation_or_not_granted": "fragmented not_granted",
	"pool_not_granted": "not_granted", "refused_with_free_memory": "not_granted limit", "fraction_limit": "limit", "other_process": "other_process",
	"other_allocations": "outside", "unaccounted": "outside", "outside_allocator": "outside", "private_pools": "private_pools", "padding": "padding",
	"host_memory": "host", "not_a_failure": "survived", "bogus_size": "larger_than_device", "request_exceeds_device": "larger_than_device",
}

// texts are the reasons of logs from public reports that memlane was not made from. A blank separates reasons that fit both.
var texts = map[string]string{
	"mygirlgpt": "exhausted outside", "mgfn": "fragmented", "framepack": "larger_than_device", "lerf": "fragmented outside", "echomimic": "exhausted",
	"mps7440": "limit outside", "xpu629": "limit", "npu1127": "exhausted", "jax13428": "outside", "recdiff": "fragmented exhausted", "cellpose": "limit not_granted",
	"vllm20305": "other_process", "monodepth": "outside other_process", "torch03": "host", "cublas625": "outside",
}

// tally counts how often the reasons of captures are right.
type tally struct {
	t      *testing.T
	seen   map[string]bool // figures of failures
	counts map[oom.Count][2][2]int
}

// add compares the failures of a capture with their true reasons, in the order of [oom.Of]; one truth may be several reasons. Without
// each, only the first failure counts.
func (y *tally) add(where int, file string, each bool, truths ...string) {
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		return // nothing that memlane reads
	}
	var all []oom.Diagnosis
	j := judge.Of(c)
	for _, s := range c.Spaces {
		all = append(all, j.Failures(s)...)
	}
	slices.SortStableFunc(all, func(x, y oom.Diagnosis) int { // across the spaces
		return cmp.Or(strings.Compare(fmt.Sprint(x.Caught()), fmt.Sprint(y.Caught())), cmp.Compare(x.Line, y.Line))
	})
	for i := range all {
		d := &all[i]
		if i >= len(truths) || i > 0 && !each {
			break
		}
		figures := fmt.Sprint(d.Reason, d.Mark.Requested, d.Mark.Free, d.Capacity, d.Live, d.Needed, d.Allowed, d.Mark.Begin*int64(1-min(len(d.Source), 1)))
		if truths[i] == "" || d.Reason == oom.Unknown || y.seen[figures] {
			continue
		}
		y.seen[figures] = true
		n := y.counts[d.Count()]
		n[where][1]++
		if slices.Contains(strings.Fields(truths[i]), string(d.Reason)) {
			n[where][0]++
		} else {
			y.t.Logf("%s: %s, but it is %s", file, d.Reason, truths[i])
		}
		y.counts[d.Count()] = n
	}
}

// TestMeasured counts again how often reasons are right, and compares the counts with the data beside the reasons, from which
// confidences are made. MEMLANE_CAPTURES names a folder with more captures; without it only those of testdata are counted.
func TestMeasured(t *testing.T) {
	y := &tally{t, map[string]bool{}, map[oom.Count][2][2]int{}}
	const testdata = "../../testdata/"
	for _, file := range sorted(recordings) {
		y.add(0, testdata+file, true, strings.Fields(recordings[file])...)
	}
	for _, file := range glob(t, testdata+"oomtext/*.truth.json") {
		var truth []struct{ Line, Reason any }
		decode(t, file, &truth)
		slices.SortStableFunc(truth, func(x, y struct{ Line, Reason any }) int { // what the program survived comes last
			return strings.Compare(fmt.Sprint(x.Reason == "survived"), fmt.Sprint(y.Reason == "survived"))
		})
		var reasons []string
		for _, x := range truth {
			reasons = append(reasons, fmt.Sprint(x.Reason))
		}
		y.add(0, strings.TrimSuffix(file, ".truth.json")+".log", true, reasons...)
	}
	more := os.Getenv("MEMLANE_CAPTURES")
	if more != "" {
		y.others(more)
	}
	right, all := 0, 0
	for count, n := range y.counts {
		want := oom.Measured[count]
		if more == "" {
			n[1] = want[1]
		}
		if n != want {
			t.Errorf("measured: %s by %s was right %v times", count.Reason(), count.From(), n)
		}
		said, seen := oom.ConfidenceOf(count.From(), count.Reason()), float64(n[0][1])
		if math.Abs(said*seen-float64(n[0][0])) > 1+2*math.Sqrt(seen*said*(1-said)) {
			t.Errorf("%s by %s: %.2f is said, %d of %d are right", count.Reason(), count.From(), said, n[0][0], n[0][1])
		}
		right, all = right+n[0][0], all+n[0][1]
	}
	for count, n := range oom.Measured {
		if _, ok := y.counts[count]; !ok && (more != "" || n[0][1] > 0) {
			t.Errorf("measured: no capture shows %s by %s", count.Reason(), count.From())
		}
	}
	if t.Failed() {
		var lines []string
		for count, n := range y.counts {
			lines = append(lines, fmt.Sprintf("\t{%q, %q}: {{%d, %d}, {%d, %d}},", count.From(), count.Reason(), n[0][0], n[0][1], n[1][0], n[1][1]))
		}
		slices.Sort(lines)
		t.Log("\n" + strings.Join(lines, "\n"))
	}
	t.Logf("testdata: %d of %d reasons are right", right, all)
}

// others counts the captures of a folder with the layout of replay, oom-text, found/oom-text, hunt/leaks and targeted.
func (y *tally) others(folder string) {
	for _, file := range glob(y.t, folder+"/replay/*.oom.pickle.zst") {
		run := strings.Split(filepath.Base(file), ".")
		var truth struct {
			Settings map[string]struct {
				Passes bool `json:"passes_where_default_died"`
			}
		}
		decode(y.t, filepath.Join(filepath.Dir(file), run[0]+".truth.json"), &truth)
		reason := "" // no setting helps: nothing says whether it is exhausted or fragmented
		for conf, outcome := range truth.Settings {
			if strings.HasPrefix(conf, run[1]+":") && outcome.Passes {
				reason = "fragmented"
			}
		}
		y.add(1, file, false, reason)
	}
	for _, file := range glob(y.t, folder+"/oom-text/*.truth.json") {
		var truth struct {
			Kind, Verdict string
			Acceptable    []string `json:"also_acceptable"`
		}
		decode(y.t, file, &truth)
		reason, ok := verdicts[truth.Verdict]
		for _, verdict := range truth.Acceptable {
			reason += " " + verdicts[verdict]
		}
		if !ok && truth.Kind == "xla-tpu-compile-oom" { // what fills a program
			reason = "larger_than_device"
		}
		for _, ext := range []string{".log", ".txt"} {
			y.add(1, strings.TrimSuffix(file, ".truth.json")+ext, false, reason)
		}
	}
	y.add(1, folder+"/targeted/t02.pickle", false, "exhausted") // it loads a model
	for _, file := range glob(y.t, folder+"/hunt/leaks/*oom*.pickle*") {
		y.add(1, file, false, "leak")
	}
	for _, name := range sorted(texts) {
		y.add(1, folder+"/found/oom-text/"+name+".log", false, texts[name])
	}
}

func sorted(of map[string]string) (keys []string) {
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, err)
	}
	return files
}

func decode(t *testing.T, file string, to any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatal(file, err)
	}
}
