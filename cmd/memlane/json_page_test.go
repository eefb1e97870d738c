package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/memlane/memlane/lifetime/finding"
)

// documented are the answers in the order of json.md, and commands that give examples of all objects in them. The page shows the first.
var documented = []struct {
	answer   string
	commands []string
}{
	{"Info", []string{"info torchsnap/frag_oom.pickle", "info torchsnap/leak_loss.pickle", "info chrome/cpu_rank0.json.gz chrome/cpu_rank1.json.gz", "info xplane/tf_leak.xplane.pb", "info torchsnap/mode_pool.pickle", "info torchsnap/streams.pickle"}},
	{"Leaks", []string{"leaks torchsnap/leak_4mib_20steps.pickle", "leaks torchsnap/held.pickle", "leaks --function make_activation torchsnap/leak_4mib_20steps.pickle",
		"leaks torchsnap/t215_leak_1mib_12steps.pickle torchsnap/t212_leak.pickle torchsnap/leak_4mib_20steps.pickle"}},
	{"Report", []string{"report torchsnap/leak_loss.pickle"}},
	{"Peaks", []string{"peak meaning/a17.pickle.zst", "peak xplane/padded.hlo.pb"}},
	{"OOMs", []string{"oom oomtext/versions.log", "oom torchsnap/frag_oom.pickle", "oom oomtext/xla.log", "oom torchsnap/beside.pickle"}},
	{"Diff", []string{"diff torchsnap/leak_loss_fixed.pickle torchsnap/leak_loss.pickle", "diff meaning/a06.pickle.zst meaning/a17.pickle.zst"}},
	{"Ops", []string{"ops chrome/cpu_leak.json.gz"}},
	{"Tune", []string{"tune replay/b16.c2.oom.pickle.zst", "tune replay/b06.pickle.zst replay/b17.pickle.zst", "tune --scale activations=2 --capacity 228MiB replay/batch16.pickle.zst",
		"tune --scale 16,32 --capacity 228MiB replay/batch16.pickle.zst replay/batch32.pickle.zst"}},
	{"WhatIf", []string{"whatif --search --capacity 400MiB whatif/gpt_small.pickle.zst"}},
}

// TestJSONPage checks that json.md has the fields of the schema, an example of each object, and the figures of evidence.
func TestJSONPage(t *testing.T) {
	t.Chdir("../..")
	const file, begin, end = "docs/manual/json.md", "## memlane info\n", "## Reasons\n"
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(have), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s does not have %q and %q", file, begin, end)
	}
	want := before + jsonPage(t) + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if string(have) != want {
		t.Errorf("json.md is not what the answers are now: run go test ./cmd/memlane -run TestJSONPage -update, and read it: %s", firstDifference(string(have), want))
	}
}

// jsonPage returns a section for each object: first the answers of commands, then the objects in them, in order of appearance.
func jsonPage(t *testing.T) string {
	text, err := os.ReadFile("lifetime/answer/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	p := &schemaPage{done: map[string]bool{}, best: map[string]map[string]any{}}
	if err := json.Unmarshal(text, &p.schema); err != nil {
		t.Fatal(err)
	}
	shown := map[string]map[string]any{}
	var names []string
	for _, d := range documented {
		names = append(names, d.answer)
		p.done[d.answer] = true
		for _, command := range d.commands {
			var doc map[string]any
			read := json.NewDecoder(strings.NewReader(succeed(t, append(strings.Fields(exampleOf(command)), "--json", "--quiet")...)))
			read.UseNumber()
			if err := read.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			if shown[d.answer] == nil {
				shown[d.answer] = doc
			}
			p.collect(d.answer, doc)
		}
	}
	var b strings.Builder
	for i := 0; i < len(names); i++ {
		def, title, example := p.schema.Definitions[names[i]], names[i], p.best[names[i]]
		if def == nil || example == nil {
			t.Fatalf("%s: not in the schema, or no command has an example", names[i])
		}
		command := ""
		if i < len(documented) {
			name, rest, _ := strings.Cut(exampleOf(documented[i].commands[0]), " ")
			title, example, command = "memlane "+name, shown[names[i]], "memlane "+name+" --json "+rest+"\n"
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n```\n%s%s```\n\n| field | type | |\n|---|---|---|\n", title, def.Description, command, p.example(def, example))
		for f := def.Properties.Oldest(); f != nil; f = f.Next() {
			kind, object := kindOf(f.Value)
			if object != "" && !p.done[object] {
				p.done[object] = true
				names = append(names, object)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Key, kind, cellOf(f.Value.Description))
		}
		b.WriteString("\n")
	}
	b.WriteString("## Evidence\n\nEach finding has the figures of its rule. Times are nanoseconds, or events if the capture has no clock. Steps count from 0. One change may\n" +
		"fix all findings with the same `cause`.\n\n| figure | unit | |\n|---|---|---|\n")
	for _, f := range finding.Figures {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, f.Unit, f.Doc)
	}
	return b.String() + "\n"
}

// exampleOf returns a command of documented with the paths of its captures.
func exampleOf(command string) string {
	words := strings.Fields(command)
	for i := range words {
		if strings.Contains(words[i], "/") {
			words[i] = "testdata/" + words[i]
		}
	}
	return strings.Join(words, " ")
}

// schemaPage has the schema, and for each object in it the example with most content.
type schemaPage struct {
	schema jsonschema.Schema
	done   map[string]bool // objects that have a section
	best   map[string]map[string]any
}

// collect keeps an object, and those in it, if they have more content than the examples before.
func (p *schemaPage) collect(name string, object map[string]any) {
	filled := func(o map[string]any) (n int) {
		for _, v := range o {
			if text := fmt.Sprint(v); v != nil && text != "" && text != "0" && text != "[]" && text != "false" {
				n++
			}
		}
		return n
	}
	if filled(object) > filled(p.best[name]) {
		p.best[name] = object
	}
	for f := p.schema.Definitions[name].Properties.Oldest(); f != nil; f = f.Next() {
		_, inner := kindOf(f.Value)
		if inner == "" {
			continue
		}
		all, ok := object[f.Key].([]any)
		if !ok {
			all = []any{object[f.Key]}
		}
		for _, v := range all {
			if v, ok := v.(map[string]any); ok {
				p.collect(inner, v)
			}
		}
	}
}

// example returns an object in lines of at most 80 columns. Objects in it are {...}: they have sections.
func (p *schemaPage) example(def *jsonschema.Schema, object map[string]any) string {
	line, lines := "{", ""
	for f := def.Properties.Oldest(); f != nil; f = f.Next() {
		value, ok := object[f.Key]
		if !ok {
			continue
		}
		part := fmt.Sprintf("%q: %s", f.Key, brief(value))
		if free, ok := value.(map[string]any); ok && f.Value.Type == "object" { // without a section
			var some []string
			for _, name := range slices.Sorted(maps.Keys(free))[:min(len(free), 2)] {
				some = append(some, fmt.Sprintf("%q: %s", name, brief(free[name])))
			}
			if len(free) > len(some) {
				some = append(some, "...")
			}
			part = fmt.Sprintf("%q: {%s}", f.Key, strings.Join(some, ", "))
		}
		if line != "{" {
			if line += ","; len(line)+len(part)+2 > 80 {
				lines += line + "\n"
				line = ""
			}
			line += " "
		}
		line += part
	}
	return lines + line + "}\n"
}

// brief returns a value of JSON in a few words.
func brief(v any) string {
	const some, long = 3, 100 // values of a list, bytes of a text
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			if _, ok := v[0].(map[string]any); ok {
				return "[{...}]"
			}
		}
		var parts []string
		for _, e := range v[:min(len(v), some)] {
			parts = append(parts, brief(e))
		}
		if len(v) > some {
			parts = append(parts, "...")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		return "{...}"
	case string:
		if len(v) > long {
			return brief(v[:max(strings.LastIndexByte(v[:long-4], ' '), 0)] + " ...")
		}
	}
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// cellOf formats flags in a table as code.
func cellOf(text string) string {
	return regexp.MustCompile(`--[a-z-]+`).ReplaceAllString(strings.ReplaceAll(text, "|", `\|`), "`$0`")
}

// kindOf returns the type of a field, and the object in it, if any.
func kindOf(s *jsonschema.Schema) (kind, object string) {
	switch {
	case s.Ref != "":
		object = strings.TrimPrefix(s.Ref, "#/$defs/")
		return fmt.Sprintf("[%s](#%s)", object, strings.ToLower(object)), object
	case len(s.OneOf) > 0:
		kind, object = kindOf(s.OneOf[0])
		return kind + " or null", object
	case s.Type == "array":
		kind, object = kindOf(s.Items)
		return "list of " + kind, object
	case s.Type == "string":
		return "text", ""
	}
	return s.Type, ""
}
