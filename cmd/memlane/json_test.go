package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJSONFields compares the fields of every JSON document, with their types,
// with testdata/fields.txt. A document lacks a field nowhere, unless the list
// says "or nothing"; "integer" is one without a point or an exponent.
func TestJSONFields(t *testing.T) {
	const golden = "testdata/fields.txt"
	files := append(slices.Sorted(maps.Values(captures(t))), damaged(t), "testdata/programs.native", "testdata/runtime.native")
	var each, ops [][]string
	for _, file := range append(files, traces(t)...) {
		each = append(each, []string{file})
	}
	for _, file := range traces(t) {
		ops = append(ops, []string{file})
	}
	ranks := []string{"../../testdata/chrome/cpu_rank0.json.gz", "../../testdata/chrome/cpu_rank1.json.gz"}
	const program = "../../testdata/xplane/seed_oom.hlo.pb"
	pairs := [][]string{{captures(t)["pair_before"], captures(t)["pair_after"]}, {captures(t)["leak_loss"], captures(t)["leak_loss_fixed"]}, traces(t)[:2],
		{captures(t)["leak_loss_fixed"], captures(t)["leak_loss"]}, {captures(t)["leak_loss"], captures(t)["leak_loss"]}, {"testdata/programs.native", "testdata/runtime.native"},
		{damaged(t), captures(t)["frag_oom"]}, {captures(t)["frag_oom"], damaged(t)}, {program, program}, {traces(t)[0], program}}
	documents := map[string]shapes{}
	for _, d := range []struct {
		command string
		of      [][]string
	}{
		{"info --json", append(each, ranks)}, {"leaks --json", append(each, ranks)}, {"leaks --json --function step", each}, {"report --json", append(each, ranks)},
		{"peak --json", each}, {"ops --json", ops}, {"diff --json", pairs}, {"export --to json", each},
	} {
		name := strings.Fields(d.command)[0]
		if _, ok := documents[name]; !ok {
			documents[name] = shapes{types: map[string]map[string]bool{}, count: map[string]int{}}
		}
		for _, of := range d.of {
			text := succeed(t, append(append(strings.Fields(d.command), of...), "--quiet")...)
			if strings.Contains(text, `\u003c`) {
				t.Errorf("memlane %s %s: <module> is escaped as for HTML", d.command, of)
			}
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.UseNumber()
			var doc map[string]any
			if err := decoder.Decode(&doc); err != nil || doc["schema"] != "memlane/1" || decoder.More() {
				t.Fatalf("memlane %s %s: %v, schema %v", d.command, of, err, doc["schema"])
			}
			documents[name].walk(name, doc)
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		lines = append(lines, documents[name].lines()...)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	for _, line := range lines {
		if !slices.Contains(wanted, line) {
			t.Errorf("not in %s: %s", golden, line)
		}
	}
	for _, line := range wanted {
		if !slices.Contains(lines, line) {
			t.Errorf("only in %s: %s", golden, line)
		}
	}
}

// traces returns the names of traces with operations and memory.
func traces(t *testing.T) []string {
	files, err := filepath.Glob("../../testdata/chrome/*_leak.json.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	return files
}

// damaged returns the name of a capture that ends in the middle.
func damaged(t *testing.T) string {
	data, err := os.ReadFile(captures(t)["frag_oom"])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(file, data[:5000], 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// shapes is what values of documents look like, by path.
type shapes struct {
	types map[string]map[string]bool
	count map[string]int
}

func (s shapes) walk(path string, v any) {
	name := "null"
	switch v := v.(type) {
	case string:
		name = "text"
	case json.Number:
		name = "integer"
		if strings.ContainsAny(v.String(), ".eE") {
			name = "number"
		}
	case bool:
		name = "boolean"
	case []any:
		name = "list"
		for _, e := range v {
			s.walk(path+"[]", e)
		}
	case map[string]any:
		name = "object"
		for key, e := range v {
			if !strings.HasSuffix(path, ".evidence") { // whose keys are the rule's
				s.walk(path+"."+key, e)
			}
		}
	}
	s.count[path]++
	if s.types[path] == nil {
		s.types[path] = map[string]bool{}
	}
	s.types[path][name] = true
}

func (s shapes) lines() []string {
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(s.types)) {
		names := slices.Sorted(maps.Keys(s.types[path]))
		if i := strings.LastIndexByte(path, '.'); i > 0 && !strings.HasSuffix(path, "]") && s.count[path] < s.count[path[:i]] {
			names = append(names, "nothing")
		}
		lines = append(lines, fmt.Sprintf("%s %s", path, strings.Join(names, " or ")))
	}
	return lines
}
