package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

var update = flag.Bool("update", false, "write testdata again")

// job makes the records of a job of n ranks with text in their names. Rank 3 needs twice the
// memory, all but ranks 7, 17, 27 and so on leak, two captures are damaged, one is refused, one
// is missing, and one rank has no capture.
func job(n int, text string) []*fleet.Record {
	rng := rand.New(rand.NewPCG(1, 2))
	place := func(function string, line int) fleet.Site {
		return fleet.Site{Op: "aten::empty", Shape: "[4, 4]", DType: "float", Frames: []frame.Frame{
			{Function: "malloc" + text, File: "c10.cpp", Line: 1, Kind: frame.Native}, {Function: function, File: "/src/train" + text + ".py", Line: line, Kind: frame.User},
		}}
	}
	amount := func(bytes int64) lifetime.Amount { return lifetime.Amount{Count: 1, Bytes: bytes, Requested: bytes} }
	var all []*fleet.Record
	for rank := range n {
		r := &fleet.Record{Name: fmt.Sprintf("job%s/rank%04d.pickle", text, rank), Content: fmt.Sprintf("%064x", rank), Format: "torch-snapshot", Producer: "PyTorch"}
		all = append(all, r)
		switch rank {
		case 5:
			all = all[:len(all)-1]
			continue
		case 9:
			r.State, r.Reason = fleet.Refused, "it is a checkpoint of PyTorch, no memory snapshot; record one with torch.cuda.memory._dump_snapshot "+text
			continue
		case 10:
			r.State, r.Reason, r.Content = fleet.Missing, "no such file", ""
			continue
		case 4, 11:
			r.Losses = []fleet.Loss{{Reason: "truncated", Count: 1}, {Reason: "ring-overflow", Count: 12, Bytes: 1 << 20}}
		}
		peak := int64(40<<20) + rng.Int64N(1<<18)
		if rank == 3 {
			peak *= 2
		}
		m := fleet.Memory{Rank: fmt.Sprintf("rank %d", rank), Device: "cuda:0", Begin: 0, End: 6400, Allocations: 60, Frees: 40, Base: 1 << 20, Peak: peak, PeakRequested: peak - 1000,
			AtEnd: peak - 5<<20, Growth: 30 << 20, Reserved: 1 << 27, ReservedPeak: 1 << 27, Free: 1 << 26, LargestFree: 1 << 25}
		for i := range int64(4) {
			m.Usage = append(m.Usage, peak*(i+1)/4)
		}
		m.Categories = []finding.CategoryBytes{{Name: "activation", Bytes: peak - 20<<20}, {Name: "parameter", Bytes: 20 << 20}}
		m.Parts = []fleet.Part{{Category: "activation", Layer: "layers[0]", Bytes: peak - 20<<20}, {Category: "parameter", Bytes: 20 << 20}}
		if rank == 3 || rank == 12 {
			m.Change = fleet.Change{Edits: "checkpoint=blocks", Advice: "Checkpoint the layers" + text + ".", Peak: peak, Low: peak / 4, High: peak / 2, Saved: peak / 2}
		}
		moved := 0
		if rank == 13 {
			moved = 2
		}
		m.Sites = []fleet.SiteTotals{
			{Site: place("forward", 12+moved), Allocated: amount(peak), AtPeak: amount(peak / 2), AtEnd: amount(peak / 4)},
			{Site: place("load", 40+moved), Allocated: amount(9 << 20), AtPeak: amount(8 << 20)},
		}
		if rank%10 != 7 {
			m.Leaked = 16 << 20
			m.Sites = append(m.Sites, fleet.SiteTotals{Site: place("log", 99+moved), Allocated: amount(16 << 20), AtPeak: amount(1 << 20), AtEnd: amount(16 << 20), Leaked: amount(16 << 20)})
			r.Findings = append(r.Findings, fleet.Finding{Rule: "leak", Severity: "warning", Place: "log (train.py:99)" + text, Amount: amount(16 << 20), BytesPerStep: 1 << 20,
				HeldBy:      [...]string{"history[*]", "history[*]", "log"}[rank%3] + text,
				Description: "log (train.py:99) keeps 16.0 MiB " + text})
		}
		r.Findings = append(r.Findings, fleet.Finding{Rule: "cache", Severity: "info", Place: "load (train.py:40)", Amount: amount(8 << 20), Description: "a full cache"})
		if rank == 12 {
			m.Failed, m.Requester = "fragmented: enough is reserved and free, but in smaller pieces", "forward (train.py:12)"+text
		}
		r.Memories = append(r.Memories, m, fleet.Memory{Rank: m.Rank, Device: "cpu", End: 6400, Peak: 1 << 20, Sites: []fleet.SiteTotals{{Site: place("load", 40+moved), AtPeak: amount(1 << 20)}}})
	}
	return all
}

func fleetOf(records []*fleet.Record) *Data {
	f := &fleet.Fleet{}
	for _, r := range records {
		f.Add(r)
	}
	return Of(f, finding.RankNames{}, nil, nil)
}

// reports returns all reports about a fleet by file name.
func reports(t *testing.T, d *Data) map[string]string {
	t.Helper()
	var text, markdown, json, metrics strings.Builder
	if err := writeMetrics(&metrics, d); err != nil {
		t.Fatal(err)
	}
	if err := writeText(&text, d); err != nil {
		t.Fatal(err)
	}
	if err := writeMarkdown(&markdown, d); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(&json, d); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"fleet.txt": text.String(), "fleet.md": markdown.String(), "fleet.json": json.String(), "metrics.txt": metrics.String()}
}

// TestReports compares the reports on a job of 16 ranks with those in testdata.
func TestReports(t *testing.T) {
	for name, got := range reports(t, fleetOf(job(16, ""))) {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v, got\n%s", file, err, got)
		}
	}
}

// fieldsOf returns the types of the fields that a block of fleet.md describes, by path. A type with a capital letter is an object whose fields are
// described once, at the end.
func fieldsOf(t *testing.T, block string) map[string]string {
	t.Helper()
	described, above := map[string]string{}, []string{""}
	for line := range strings.Lines(block) {
		names, about, ok := strings.Cut(strings.TrimSpace(line), ": ")
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		if !ok || depth >= len(above) {
			t.Fatalf("fleet.md: %q", line)
		}
		of, _, _ := strings.Cut(about, ";")
		path := ""
		for _, name := range strings.Split(names, ", ") {
			path = above[depth] + name
			described[path] = of
		}
		if of == "list" {
			path += "[]"
		}
		above = append(above[:depth+1], path+".")
	}
	fields := map[string]string{}
	for path, of := range described {
		object, _, _ := strings.Cut(of, " ")
		switch {
		case unicode.IsUpper(rune(path[0])):
		case unicode.IsUpper(rune(of[0])):
			fields[path] = strings.Replace(of, object, "object", 1)
			for inner, of := range described {
				if name, ok := strings.CutPrefix(inner, object); ok && name != "" {
					fields[path+name] = of
				}
			}
		case strings.HasSuffix(of, "s"): // texts, integers
			fields[path], fields[path+"[]"] = "list", strings.TrimSuffix(of, "s")
		default:
			fields[path] = of
		}
	}
	return fields
}

// TestFields compares the block in fleet.md with the JSON: both have the same fields and types.
func TestFields(t *testing.T) {
	page, err := os.ReadFile("../../../docs/manual/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## fleet.json\n")
	documented := fieldsOf(t, strings.Split(section, "```\n")[1])
	decoder := json.NewDecoder(strings.NewReader(reports(t, fleetOf(job(16, "")))["fleet.json"]))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		of := "null"
		switch v := v.(type) {
		case string:
			of = "text"
		case bool:
			of = "boolean"
		case json.Number:
			of = "integer"
			if _, err := v.Int64(); err != nil {
				of = "number"
			}
		case []any:
			of = "list"
			for _, e := range v {
				walk(path+"[]", e)
			}
		case map[string]any:
			of = "object"
			for name, e := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), e)
			}
			if strings.HasSuffix(path, "[]") || path == "" {
				return // its fields are in the table
			}
		}
		seen[path] = true
		types := strings.Split(documented[path], " or ")
		if of == "integer" && slices.Contains(types, "number") {
			of = "number" // 1 and 0 as well as .5
		}
		if !slices.Contains(types, of) {
			t.Errorf("%s is %s, fleet.md says %q", path, of, documented[path])
		}
	}
	walk("", document)
	for path := range documented {
		if !seen[path] {
			t.Errorf("fleet.md has %s, which is not written", path)
		}
	}
}

// TestLargeFleet: the text about ten thousand captures, each with an error, fits a terminal.
func TestLargeFleet(t *testing.T) {
	records := job(10_000, "")
	for i, r := range records {
		switch i % 5 {
		case 1:
			r.State, r.Reason, r.Memories, r.Findings = fleet.Refused, strings.Repeat("why ", 100)+strings.Repeat("y", 300), nil, nil
		case 2:
			r.State, r.Reason, r.Memories, r.Findings = fleet.Missing, "gone", nil, nil
		case 3:
			r.Losses = []fleet.Loss{{Reason: "truncated", Count: 1}}
		case 4:
			if r.State == fleet.Read {
				r.Memories[0].Peak *= int64(i)
				r.Findings = append(r.Findings, fleet.Finding{Rule: "leak", Severity: "critical", Place: fmt.Sprintf("f%d %s(train.py:1)", i, strings.Repeat("of many words ", 100))})
			}
		}
	}
	var b strings.Builder
	if err := writeText(&b, fleetOf(records)); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if n := strings.Count(text, "\n"); n > 40 || n < 30 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 81 {
			t.Errorf("%d columns: %s", n-1, line)
		}
	}
}

// TestOrder: the order of captures does not matter.
func TestOrder(t *testing.T) {
	records := job(40, "")
	want := reports(t, fleetOf(records))
	rng := rand.New(rand.NewPCG(5, 5))
	for range 5 {
		rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		for name, got := range reports(t, fleetOf(records)) {
			if got != want[name] {
				t.Errorf("%s depends on the order of captures", name)
			}
		}
	}
}

// TestHostileNames: with any names, the reports have the same structure as with plain names, and
// the names stay text.
func TestHostileNames(t *testing.T) {
	plain, _ := hostile.Outline(t, reports(t, fleetOf(job(16, "plain")))["fleet.md"])
	for _, name := range hostile.Texts {
		all := reports(t, fleetOf(job(16, name)))
		for file, text := range all {
			if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || strings.Contains(text, "##[") {
				t.Errorf("%s with %q: it contains an unprintable character or a command", file, name)
			}
		}
		for line := range strings.Lines(all["fleet.txt"]) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || shorten.Columns(line) > 81 {
				t.Errorf("%q: the text has the line %q", name, line)
			}
		}
		got, words := hostile.Outline(t, all["fleet.md"])
		if got != plain {
			t.Errorf("%q: the report is made of\n%s\nwant\n%s\n%s", name, got, plain, all["fleet.md"])
		}
		if found := regexp.MustCompile(`[@#][A-Za-z0-9]`).FindString(html.UnescapeString(words)); found != "" {
			t.Errorf("%q: a code host takes %q for a mention or a reference", name, found)
		}
		if !json.Valid([]byte(all["fleet.json"])) {
			t.Errorf("%q: no JSON", name)
		}
	}
}
