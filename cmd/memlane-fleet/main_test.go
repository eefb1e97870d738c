package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/cmd/memlane-fleet/report"
)

// snapshots are captures of real runs.
const snapshots = "../../testdata/torchsnap/"

// job writes the captures of a job into a folder: healthy ranks, a rank that leaks, a truncated
// capture and a file that is not a capture. It returns their names, and one of a missing file.
func job(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for rank, source := range []string{"leak_loss_fixed", "leak_loss_fixed", "leak_loss", "leak_loss_fixed", "leak_loss_fixed", "cut", "none"} {
		data := []byte("{\"what\": \"this is\"}")
		switch source {
		case "cut": // before its first memory event
			whole, err := os.ReadFile(snapshots + "leak_loss.pickle")
			if err != nil {
				t.Fatal(err)
			}
			data = whole[:40]
		case "none":
		default:
			var err error
			if data, err = os.ReadFile(snapshots + source + ".pickle"); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(dir, "rank"+string(rune('0'+rank))+".pickle")
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return append(names, filepath.Join(dir, "rank7.pickle"))
}

// call runs the program and returns its standard output; it must end with status.
func call(t testing.TB, status int, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errors bytes.Buffer
	if have := run(strings.NewReader(stdin), &out, &errors, append([]string{"memlane-fleet"}, args...)); have != status {
		t.Fatalf("memlane-fleet %s: status %d, want %d; %s", args, have, status, errors.String())
	}
	return out.String(), errors.String()
}

// resultsIn returns the files of a folder of results by name.
func resultsIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, r := range report.Files {
		data, err := os.ReadFile(filepath.Join(dir, r.Name))
		if err != nil {
			t.Fatal(err)
		}
		files[r.Name] = string(data)
	}
	return files
}

// sameResults fails if a file differs between two folders of results.
func sameResults(t testing.TB, what string, have, want map[string]string) {
	t.Helper()
	for name := range want {
		if have[name] != want[name] {
			t.Errorf("%s: %s differs", what, name)
		}
	}
}

func lines(names []string) string { return strings.Join(names, "\n") + "\n" }

// TestOneResult: run, and map and merge in any grouping, order and repetition, give the same
// files with every capture.
func TestOneResult(t *testing.T) {
	names := job(t)
	whole := t.TempDir()
	call(t, 0, lines(names), "run", "-o", whole)
	want := resultsIn(t, whole)

	records, merged := t.TempDir(), t.TempDir()
	for i, some := range [][]string{names[5:], names[:3], names[2:6]} {
		some = slices.Clone(some)
		slices.Reverse(some)
		out, _ := call(t, 0, "", append([]string{"map", "--quiet", "--workers", "2"}, some...)...)
		if n := strings.Count(out, "\n"); n != len(some) {
			t.Errorf("%d lines of %d captures", n, len(some))
		}
		if err := os.WriteFile(filepath.Join(records, "part-"+string(rune('0'+i))), []byte(out), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(records, "_SUCCESS"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	call(t, 0, "", "merge", records, "-o", merged)
	sameResults(t, "merged", resultsIn(t, merged), want)

	var doc struct {
		Summary  map[string]int
		Captures []struct{ Name, State, Reason string }
	}
	if err := json.Unmarshal([]byte(want["fleet.json"]), &doc); err != nil {
		t.Fatal(err)
	}
	if s := doc.Summary; s["captures"] != 8 || s["read"] != 5 || s["refused"] != 2 || s["missing"] != 1 {
		t.Errorf("summary %v", s)
	}
	for i, c := range doc.Captures {
		state := []string{"read", "read", "read", "read", "read", "refused", "refused", "missing"}[i]
		if c.Name != names[i] || c.State != state || (c.Reason == "") != (state == "read") {
			t.Errorf("capture %+v, want %s %s", c, names[i], state)
		}
	}
	if reason := doc.Captures[5].Reason; !strings.HasPrefix(reason, "it holds no memory data: ") {
		t.Errorf("one that is cut is refused with %q", reason)
	}
	if text := want["report.txt"]; !strings.Contains(text, "rank 2") || !strings.Contains(text, "1 of 5 ranks") {
		t.Errorf("the report does not name the rank that leaks:\n%s", text)
	}
}

// TestOldRecords: records of the previous version are read, also beside newer ones.
func TestOldRecords(t *testing.T) {
	out := t.TempDir()
	old, err := os.ReadFile("testdata/version5.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	newer, _ := call(t, 0, "", "map", "--quiet", "../../testdata/torchsnap/leak_4mib_20steps.pickle")
	call(t, 0, string(old)+newer, "merge", "-o", out)
	if report := resultsIn(t, out)["report.txt"]; !strings.HasPrefix(report, "3 captures: 3 read") {
		t.Error(report)
	}
}

// TestWithoutRecord: merge finds the captures of a list that have no record.
func TestWithoutRecord(t *testing.T) {
	names := job(t)
	list := filepath.Join(t.TempDir(), "captures.txt")
	if err := os.WriteFile(list, []byte(lines(names)), 0o666); err != nil {
		t.Fatal(err)
	}
	out, _ := call(t, 0, lines(names[1:]), "map", "--quiet")
	_, stderr := call(t, statusIncomplete, out, "merge", "--captures", list, "-o", t.TempDir())
	if !strings.Contains(stderr, "1 of 8 captures have no record: "+names[0]) {
		t.Errorf("prints %q", stderr)
	}
	out, _ = call(t, 0, lines(names), "map", "--quiet")
	call(t, 0, out, "merge", "--captures", list, "-o", t.TempDir())
}

// TestCache: a cached capture is not read again, also under another name, and a damaged entry
// is made again.
func TestCache(t *testing.T) {
	names := job(t)
	cache := t.TempDir()
	first, _ := call(t, 0, lines(names), "map", "--quiet", "--workers", "1", "--cache", cache)
	var entries []string
	err := filepath.WalkDir(cache, func(file string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			entries = append(entries, file)
		}
		return err
	})
	if err != nil || len(entries) != 4 { // two kinds of snapshots, and two that were refused
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	planted := 0
	for _, entry := range entries {
		data, err := os.ReadFile(entry)
		if err != nil {
			t.Fatal(err)
		}
		r, err := unpack(data)
		if err != nil {
			t.Fatal(err)
		}
		if r.State == fleet.Read {
			r.Producer = "out of the cache"
			planted++
			if err := os.WriteFile(entry, pack(r), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	moved := filepath.Join(filepath.Dir(names[0]), "rank42.pickle")
	if err := os.Rename(names[0], moved); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	call(t, 0, moved+"\n"+names[2]+"\n", "run", "--quiet", "--cache", cache, "-o", out)
	if json := resultsIn(t, out)["fleet.json"]; planted != 2 || strings.Count(json, "out of the cache") < 2 || !strings.Contains(json, "rank 42") {
		t.Errorf("%d entries planted; the cache was not used", planted)
	}
	if err := os.Rename(moved, names[0]); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.WriteFile(entry, []byte("lost"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := call(t, 0, lines(names), "map", "--quiet", "--workers", "1", "--cache", cache); again != first {
		t.Error("after the cache was lost the records differ")
	}
}

// TestBlockedCache: what is too large for an entry of the cache is neither read nor a reason to stop.
func TestBlockedCache(t *testing.T) {
	names := job(t)[:1]
	want, _ := call(t, 0, lines(names), "map", "--quiet")
	for name, block := range map[string]func(entry string) error{
		"a file of a terabyte": func(entry string) error { return cmp.Or(os.WriteFile(entry, nil, 0o666), os.Truncate(entry, 1<<40)) },
		"a bomb": func(entry string) error {
			return os.WriteFile(entry, packer.EncodeAll(make([]byte, 1<<30), nil), 0o666)
		},
	} {
		cache := t.TempDir()
		call(t, 0, lines(names), "map", "--quiet", "--cache", cache)
		entries, err := filepath.Glob(filepath.Join(cache, "*", "records", "*", "*"))
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		if err := cmp.Or(os.Remove(entries[0]), block(entries[0])); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		if got, _ := call(t, 0, lines(names), "map", "--quiet", "--cache", cache); got != want {
			t.Errorf("%s in the place of an entry changes the record", name)
		}
		c, err := openCache(t.Context(), cache)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmp.Or(os.RemoveAll(entries[0]), block(entries[0])); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := c.get(t.Context(), filepath.Base(entries[0]))
		runtime.ReadMemStats(&after)
		if r != nil || err != nil {
			t.Errorf("%s in the place of an entry is the record %v, %v", name, r, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*maxRecord {
			t.Errorf("%s in the place of an entry takes %d bytes", name, n)
		}
	}
}

// TestLargeRecord: a record that merge would refuse is a refusal.
func TestLargeRecord(t *testing.T) {
	r := &fleet.Record{Content: "1", State: fleet.Read, Producer: strings.Repeat("p", 3<<20)}
	if got := bounded(r, 4<<20); got != r {
		t.Errorf("%v %s", got.State, got.Reason)
	}
	got := bounded(r, 3<<20)
	if got.State != fleet.Refused || got.Content != "1" || !strings.HasPrefix(got.Reason, "its summary has more than 3 MiB") {
		t.Errorf("%v %s", got.State, got.Reason)
	}
}

// TestCompareRuns: compare and trend read the results of runs, and name the rank that leaks in the last only.
func TestCompareRuns(t *testing.T) {
	names := job(t)[:5]
	before, after := t.TempDir(), t.TempDir()
	call(t, 0, lines(names), "run", "--quiet", "-o", after)
	healthy, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(names[2], healthy, 0o666); err != nil {
		t.Fatal(err)
	}
	call(t, 0, lines(names), "run", "--quiet", "-o", before)
	out, _ := call(t, 0, "", "compare", before, after)
	if !strings.Contains(out, "rank 2: the peak grew by") || !strings.Contains(out, "New findings") || strings.Count(out, "\n") > 40 {
		t.Errorf("prints\n%s", out)
	}
	page := filepath.Join(t.TempDir(), "trend.html")
	out, _ = call(t, 0, "", "trend", "--page", page, before, before, before, after)
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte("4 runs of 5 devices")) {
		t.Errorf("%v, page %.300s", err, html)
	}
	if !strings.Contains(strings.Join(strings.Fields(out), " "), ", leaked bytes 0 B to 28.0 MiB first in ") || !strings.Contains(out, "rank2.pickle\n") || strings.Count(out, "\n") > 40 {
		t.Errorf("prints\n%s", out)
	}
	if out, _ = call(t, 0, "", "compare", after, after); !strings.Contains(out, "no peak changed") || strings.Contains(out, "New") {
		t.Errorf("of one run twice it prints\n%s", out)
	}
}

// TestUsage: a wrong command line gives an error and status 2.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "-o", t.TempDir()}, "no captures given"},
		{[]string{"run", "-o", t.TempDir(), filepath.Join(t.TempDir(), "*.pickle")}, "no file matches the pattern"},
		{[]string{"map", "--workers", "0", "x"}, "--workers 0"},
		{[]string{"map", "--max-memory", "lots", "x"}, `--max-memory "lots"`},
		{[]string{"map", "--max-memory", "1MiB", "x"}, "128 MiB"},
		{[]string{"map", "--rank-from", "x", "x"}, "not a regular expression with a group"},
		{[]string{"map", "s3://bucket"}, "not the address of a capture"},
		{[]string{"map", "--nonsense"}, "nonsense"},
		{[]string{"merge"}, "output"},
		{[]string{"merge", "-o", t.TempDir(), "main_test.go"}, "main_test.go, line 1: not a line of memlane-fleet map"},
		{[]string{"compare", "a"}, "give two folders"},
		{[]string{"compare", t.TempDir(), t.TempDir()}, "it has no records.zst"},
		{[]string{"merge", "-o", t.TempDir(), "--ranks", "main_test.go"}, "--ranks main_test.go"},
		{[]string{"trend"}, "give two or more folders"},
		{[]string{"trend", "nowhere"}, "nowhere: no such file"},
		{[]string{"trend", t.TempDir()}, "it has no records.zst"},
		{[]string{"parts", "--size", "0", "a"}, `--size "0"`},
		{[]string{"fly"}, `unknown command "fly"`},
	} {
		if _, stderr := call(t, statusUsage, "", c.args...); !strings.Contains(stderr, c.want) {
			t.Errorf("%s: prints %q, want %q", c.args, stderr, c.want)
		}
	}
}

// TestFailures: an error of the machine gives status 5 and no partial results.
func TestFailures(t *testing.T) {
	names := job(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	call(t, statusFailed, "", "run", "--quiet", "-o", filepath.Join(file, "results"), names[0])
	call(t, statusFailed, "", "map", "--quiet", "--cache", filepath.Join(file, "cache"), names[0])
	call(t, statusFailed, "", "merge", "-o", t.TempDir(), filepath.Join(file, "records"))
	var stderr bytes.Buffer
	if status := run(strings.NewReader(""), full{}, &stderr, []string{"memlane-fleet", "map", names[0], names[1]}); status != statusFailed {
		t.Errorf("standard output is full: status %d, %s", status, stderr.String())
	}
}

// full is a disk without free space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestHelp: every command has a description with examples.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"map", "--help"}, {"merge", "--help"}, {"compare", "--help"}, {"trend", "--help"}, {"parts", "--help"}, {"combine", "--help"}} {
		out, _ := call(t, 0, "", args...)
		if !strings.Contains(out, "Examples:") {
			t.Errorf("%s: no examples in\n%s", args, out)
		}
		for l := range strings.Lines(out) {
			if len(strings.TrimRight(l, "\n")) > 80 {
				t.Errorf("%s: a long line: %s", args, l)
			}
		}
	}
}
