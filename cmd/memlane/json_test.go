package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	// One that is ready as soon as it is imported: this program is also each process that a test starts.
	"github.com/google/jsonschema-go/jsonschema"
)

// answers are the types of the JSON output of commands, by their names in the schema.
var answers = map[string]string{"oom": "OOMs", "info": "Info", "leaks": "Leaks", "report": "Report", "peak": "Peaks", "ops": "Ops", "diff": "Diff", "tune": "Tune", "whatif": "WhatIf"}

// TestJSON validates the JSON output for every capture against the schema, without extra
// fields. Each field of the schema must have a value in some output.
func TestJSON(t *testing.T) {
	files := append(slices.Sorted(maps.Values(pickles(t))), damaged(t), "../../testdata/native/programs.native", "../../testdata/native/runtime.native")
	var each, ops [][]string
	for _, file := range append(files, traces(t)...) {
		each = append(each, []string{file})
	}
	for _, file := range traces(t) {
		ops = append(ops, []string{file})
	}
	ranks := [][]string{{"../../testdata/chrome/cpu_rank0.json.gz", "../../testdata/chrome/cpu_rank1.json.gz"}}
	series := [][]string{{pickles(t)["t215_leak_1mib_12steps"], pickles(t)["t212_leak"], pickles(t)["leak_4mib_20steps"]}} // 12, 14, 80 MiB
	const program, replayed = "../../testdata/xplane/seed_oom.hlo.pb", "../../testdata/replay/"
	pairs := [][]string{{pickles(t)["pair_before"], pickles(t)["pair_after"]}, {pickles(t)["leak_loss"], pickles(t)["leak_loss_fixed"]}, traces(t)[:2],
		{pickles(t)["leak_loss_fixed"], pickles(t)["leak_loss"]}, {pickles(t)["leak_loss"], pickles(t)["leak_loss"]}, {"../../testdata/native/programs.native", "../../testdata/native/runtime.native"},
		{damaged(t), pickles(t)["frag_oom"]}, {pickles(t)["frag_oom"], damaged(t)}, {program, program}, {traces(t)[0], program}}
	quoted := filepath.Join(t.TempDir(), "it's $(a) capture.pickle")
	if err := os.Symlink(absolute(t, pickles(t)["leak_loss"]), quoted); err != nil {
		t.Fatal(err)
	}
	each = append(each, []string{quoted})
	fitted := filepath.Join(t.TempDir(), "it's $(a) failure.pickle.zst") // which tune proves
	if err := os.Symlink(absolute(t, replayed+"b03.c2.oom.pickle.zst"), fitted); err != nil {
		t.Fatal(err)
	}
	logs := [][]string{{pickles(t)["frag_oom"]}, {fitted}}
	for _, log := range []string{"versions", "xla", "torchrun_4ranks", "bfc_frag"} {
		logs = append(logs, []string{"../../testdata/oomtext/" + log + ".log"})
	}
	schema := strictSchema(t)
	written, followed, known := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range []struct {
		command string
		of      [][]string
	}{
		{"info --json", each}, {"info --json", ranks}, {"leaks --json", each}, {"leaks --json --function step", each}, {"leaks --json", ranks}, {"leaks --json", series},
		{"report --json", each}, {"report --json --function step", ranks}, {"peak --json", each}, {"peak --json", [][]string{{program}}}, {"peak --json --by op", [][]string{{program}}}, {"peak --json --at end", each}, {"peak --json --by category", [][]string{{"../../testdata/meaning/a06.pickle.zst"}}},
		{"peak --json --by stack --at oom", [][]string{{replayed + "b16.c2.oom.pickle.zst"}}}, {"leaks --json", logs}, {"info --json", logs}, {"oom --json", logs}, {"oom --json --capacity 301GiB", [][]string{{program}}}, {"oom --json --capacity 600MiB", [][]string{{"../../testdata/changed/towers.v5e.hlo.pb.zst"}}}, {"ops --json", ops}, {"diff --json", pairs},
		{"tune --json", [][]string{{replayed + "b16.c2.oom.pickle.zst"}, {replayed + "b14.pickle.zst"}, {replayed + "b06.pickle.zst", replayed + "b17.pickle.zst"}}},
		{"whatif --json", [][]string{{"../../testdata/whatif/gpt_small.pickle.zst"}, {replayed + "b06.pickle.zst", replayed + "b17.pickle.zst"}}},
		{"whatif --json --search --capacity 200MiB", [][]string{{"../../testdata/whatif/cut_first.pickle.zst"}}},
		{"peak --json", [][]string{{"../../testdata/whatif/replaced.pickle.zst"}}}, // has a change of one call site
		{"whatif --json --set batch=2 --set no_grad,batch=3 --capacity 208MiB", [][]string{{replayed + "batch16.pickle.zst"}}},
	} {
		name := answers[strings.Fields(d.command)[0]]
		compiled, err := (&jsonschema.Schema{Ref: "#/$defs/" + name, Defs: schema.objects}).Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range d.of {
			text := succeed(t, append(append(strings.Fields(d.command), of...), "--quiet")...)
			if strings.Contains(text, `\u003c`) {
				t.Errorf("memlane %s %s: <module> is escaped as for HTML", d.command, of)
			}
			var doc any
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(doc); err != nil {
				t.Errorf("memlane %s %s: %v", d.command, of, err)
			}
			schema.mark(written, name, doc)
			for _, wrong := range howKnown(doc, known) {
				t.Errorf("memlane %s %s: %s", d.command, of, wrong)
			}
			follow(t, append(strings.Fields(d.command), of...), doc, followed)
		}
	}
	for _, kind := range []string{"category", "share", "phase", "evidence"} {
		for _, how := range []string{"recorded", "derived", "inferred"} {
			if derived := how == "derived"; !known[kind+" "+how] && (!derived || kind == "evidence") {
				t.Errorf("no %s is %s", kind, how)
			}
		}
	}
	for name, properties := range schema.properties {
		for field := range properties {
			if !written[name+"."+field] {
				t.Errorf("%s of %s never has a value", field, name)
			}
		}
	}
}

// howKnown returns which statements of an answer lack how they are known: those with one of these fields. A sum of what is
// not known has none. seen gets the others.
func howKnown(of any, seen map[string]bool) (wrong []string) {
	switch of := of.(type) {
	case []any:
		for _, item := range of {
			wrong = append(wrong, howKnown(item, seen)...)
		}
	case map[string]any:
		for _, field := range []string{"category", "share", "phase", "delta_bytes", "level_bytes", "confidence", "container", "edits", "inferred", "exact"} {
			_, states := of[field]
			name, _ := cmp.Or(of["category"], of["name"], of["phase"], any("a statement")).(string)
			how, _ := of["how"].(string)
			switch {
			case !states, of["stack"] != nil, of["categories"] != nil && of["phases"] != nil: // a site, a breakdown
			case (how != "") != (name != "" && name != "unknown" && (of["refused"] == nil || of["refused"] == "")):
				wrong = append(wrong, fmt.Sprintf("%s: how is %q: %v", field, how, of))
			default:
				seen[field+" "+how] = true
			}
		}
		figures, _ := of["evidence"].(map[string]any)
		hows, _ := of["evidence_how"].(map[string]any)
		for figure := range figures {
			if seen[fmt.Sprint("evidence ", hows[figure])] = true; hows[figure] == nil {
				wrong = append(wrong, figure+" lacks how")
			}
		}
		for _, item := range of {
			wrong = append(wrong, howKnown(item, seen)...)
		}
	}
	return wrong
}

// answerSchema is the schema of the JSON output.
type answerSchema struct {
	objects    map[string]*jsonschema.Schema
	properties map[string]map[string]any // of each object
}

// strictSchema returns the schema without permission for extra fields.
func strictSchema(t *testing.T) answerSchema {
	t.Helper()
	data, err := os.ReadFile("../../lifetime/answer/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := answerSchema{properties: map[string]map[string]any{}}
	var schema struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	var whole jsonschema.Schema
	if err := cmp.Or(json.Unmarshal(data, &schema), json.Unmarshal(data, &whole)); err != nil {
		t.Fatal(err)
	}
	s.objects = whole.Defs
	for name, def := range s.objects {
		def.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		s.properties[name] = schema.Defs[name].Properties
	}
	return s
}

// reference matches that of a field to the definition of an object.
var reference = regexp.MustCompile(`#/\$defs/(\w+)`)

// mark records the fields of an object and its children that have a value.
func (s answerSchema) mark(written map[string]bool, name string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.mark(written, name, e)
		}
	case map[string]any:
		for field, value := range v {
			if value == nil || s.properties[name][field] == nil {
				continue
			}
			written[name+"."+field] = true
			if object := reference.FindStringSubmatch(fmt.Sprint(s.properties[name][field])); object != nil {
				s.mark(written, object[1], value)
			}
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

// damaged returns the name of a truncated capture.
func damaged(t *testing.T) string {
	data, err := os.ReadFile(pickles(t)["frag_oom"])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(file, data[:5000], 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// follow runs the command of the field "next" of an answer, as a shell would, once. It must tell something, and something else.
func follow(t *testing.T, asked []string, doc any, followed map[string]bool) {
	t.Helper()
	next, ok := doc.(map[string]any)["next"].(string)
	if !ok {
		t.Errorf("memlane %s: no next", asked)
		return
	}
	line, ok := strings.CutPrefix(next, "memlane ")
	if !ok || strings.Contains(next, ", then ") {
		return // how to record more
	}
	args := shellWords(t, line)
	if slices.Equal(slices.DeleteFunc(slices.Clone(asked), func(arg string) bool { return arg == "--json" || arg == "--quiet" }), args) {
		t.Errorf("memlane %s: next asks the same", asked)
	}
	if followed[next] {
		return
	}
	followed[next] = true
	stdout, stderr, status := memlane("", append(args, "--json", "--quiet")...)
	if status != 0 || len(stdout) == 0 {
		t.Errorf("memlane %s: next is %s: status %d: %s", asked, next, status, stderr)
	}
	var told struct{ Peaks []struct{ Rows []any } }
	if err := json.Unmarshal([]byte(stdout), &told); err != nil {
		t.Errorf("%s: %v", next, err)
	}
	if strings.Contains(next, "--function") && !slices.ContainsFunc(told.Peaks, func(p struct{ Rows []any }) bool { return len(p.Rows) > 0 }) {
		t.Errorf("memlane %s: next is %s, which shows nothing", asked, next)
	}
}

// plain matches a command line without characters that a shell may take for more.
var plain = regexp.MustCompile(`^[\w ./:,-]*$`)

// shellWords returns the words of a command line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	if plain.MatchString(line) {
		return strings.Fields(line)
	}
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
