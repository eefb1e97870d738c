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
	var lines []string
	for _, command := range []string{"info --json", "leaks --json", "report --json", "peak --json", "ops --json", "export --to json"} {
		name := strings.Fields(command)[0]
		s := shapes{types: map[string]map[string]bool{}, count: map[string]int{}}
		of := append(slices.Clone(files), traces(t)...)
		if name == "ops" {
			of = traces(t)
		}
		for _, file := range of {
			text := succeed(t, append(strings.Fields(command), file, "--quiet")...)
			if strings.Contains(text, `\u003c`) {
				t.Errorf("memlane %s %s: <module> is escaped as for HTML", command, file)
			}
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			var doc map[string]any
			if err := d.Decode(&doc); err != nil || doc["schema"] != "memlane/1" || d.More() {
				t.Fatalf("memlane %s %s: %v, schema %v", command, file, err, doc["schema"])
			}
			s.walk(name, doc)
		}
		lines = append(lines, s.lines()...)
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
