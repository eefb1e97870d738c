package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/memlane/memlane/lifetime/finding"
)

// documented are the answers in the order of json.md, each with the command of its example.
var documented = []struct{ answer, command string }{
	{"Info", "info testdata/torchsnap/frag_oom.pickle"},
	{"Leaks", "leaks testdata/torchsnap/leak_4mib_20steps.pickle"},
	{"Report", "report testdata/torchsnap/leak_loss.pickle"},
	{"Peaks", "peak testdata/meaning/a17.pickle.zst"},
	{"OOMs", "oom testdata/torchsnap/frag_oom.pickle"},
	{"Diff", "diff testdata/torchsnap/leak_loss_fixed.pickle testdata/torchsnap/leak_loss.pickle"},
	{"Ops", "ops testdata/chrome/cpu_leak.json.gz"},
	{"Tune", "tune testdata/replay/b16.c2.oom.pickle.zst"},
	{"WhatIf", "whatif --set batch=2 testdata/whatif/mlp.pickle.zst"},
}

// TestJSONPage checks that json.md has the fields of the schema, an example of each answer, and the figures of evidence.
func TestJSONPage(t *testing.T) {
	t.Chdir("../..")
	const file, begin, end = "docs/manual/json.md", "## Fields of several objects\n", "## Reasons\n"
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

// jsonPage returns a section for each object: first the answers of commands, then the objects in them, in order of appearance. Fields that
// several objects have are listed before them.
func jsonPage(t *testing.T) string {
	text, err := os.ReadFile("lifetime/answer/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	const few = 3
	var names []string
	for _, d := range documented {
		names = append(names, d.answer)
	}
	times := map[string]int{}    // in how many objects a field is, by its line
	usual := map[string]string{} // the line of a name that most objects have
	for i := 0; i < len(names); i++ {
		def := schema.Definitions[names[i]]
		if def == nil {
			t.Fatalf("%s is not in the schema", names[i])
		}
		for f := def.Properties.Oldest(); f != nil; f = f.Next() {
			line := fieldLine(f.Key, f.Value)
			if times[line]++; times[line] > max(few, times[usual[f.Key]]) {
				usual[f.Key] = line
			}
			if _, object := kindOf(f.Value); object != "" && !slices.Contains(names, object) {
				names = append(names, object)
			}
		}
	}
	var sections, shared strings.Builder
	for i, name := range names {
		title, example := name, ""
		if i < len(documented) {
			command, rest, _ := strings.Cut(documented[i].command, " ")
			title = "memlane " + command
			var doc map[string]any
			read := json.NewDecoder(strings.NewReader(succeed(t, append(strings.Fields(documented[i].command), "--json", "--quiet")...)))
			read.UseNumber()
			if err := read.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			example = "```\n" + title + " --json " + rest + "\n" + wrapped(exampleOf(&schema, schema.Definitions[name], doc, 0)) + "```\n\n"
		}
		var own strings.Builder
		var also []string
		for f := schema.Definitions[name].Properties.Oldest(); f != nil; f = f.Next() {
			line := fieldLine(f.Key, f.Value)
			if usual[f.Key] != line {
				own.WriteString(line)
				continue
			}
			also = append(also, "`"+f.Key+"`")
			if !strings.Contains(shared.String(), line) {
				shared.WriteString(line)
			}
		}
		fmt.Fprintf(&sections, "## %s\n\n%s", title, schema.Definitions[name].Description)
		if also != nil {
			fmt.Fprintf(&sections, " [Also](#fields-of-several-objects) %s.", strings.Join(also, ", "))
		}
		sections.WriteString("\n\n" + example)
		if own.Len() > 0 {
			sections.WriteString(own.String() + "\n")
		}
	}
	sections.WriteString("## Evidence\n\nEach finding has the figures of its rule. Times are nanoseconds, or events if the capture has no clock. Steps count from 0. One change may\n" +
		"fix all findings with the same `cause`.\n\n")
	for _, f := range finding.Figures {
		fmt.Fprintf(&sections, "- `%s` %s: %s\n", f.Name, f.Unit, f.Doc)
	}
	return "## Fields of several objects\n\n" + shared.String() + "\n" + sections.String() + "\n"
}

// fieldLine returns the line of a field.
func fieldLine(name string, field *jsonschema.Schema) string {
	kind, _ := kindOf(field)
	return fmt.Sprintf("- `%s` %s: %s\n", name, kind, withCode(field.Description))
}

// exampleOf returns the tokens of an object: all fields of an answer, but few of those below it.
func exampleOf(schema *jsonschema.Schema, def *jsonschema.Schema, object map[string]any, depth int) (tokens []string) {
	const some, deepest = 4, 1
	if depth > deepest {
		return []string{"{...}"}
	}
	n := 0
	for f := def.Properties.Oldest(); f != nil; f = f.Next() {
		value, ok := object[f.Key]
		if !ok {
			continue
		}
		if n++; depth > 0 && n > some {
			tokens = append(tokens, "...")
			break
		}
		part, open, end := []string{brief(value)}, "", ""
		list, isList := value.([]any)
		if isList && len(list) > 0 {
			value, open, end = list[0], "[", ", ..."[:5*min(len(list)-1, 1)]+"]"
		}
		if inner, ok := value.(map[string]any); ok {
			_, name := kindOf(f.Value)
			if name == "" { // names that the capture has
				part = []string{"{...}"}
			} else if part = exampleOf(schema, schema.Definitions[name], inner, depth+1); len(part) > 1 {
				tokens = append(tokens, fmt.Sprintf("%q: %s%s", f.Key, open, part[0]))
				tokens = append(tokens, part[1:]...)
				tokens[len(tokens)-1] += end
				continue
			}
			part[0] = open + part[0] + end
		}
		tokens = append(tokens, fmt.Sprintf("%q: %s", f.Key, part[0]))
	}
	if len(tokens) == 0 {
		return []string{"{}"}
	}
	tokens[0], tokens[len(tokens)-1] = "{"+tokens[0], tokens[len(tokens)-1]+"}"
	return tokens
}

// wrapped joins tokens in lines of at most 80 columns.
func wrapped(tokens []string) string {
	line, lines := "", ""
	for i, token := range tokens {
		if i < len(tokens)-1 {
			token += ","
		}
		if line != "" && len(line)+len(token)+1 > 80 {
			lines += line + "\n"
			line = ""
		}
		if line+lines != "" {
			line += " "
		}
		line += token
	}
	return lines + line + "\n"
}

// brief returns a value of JSON without objects in a few words.
func brief(v any) string {
	const some, long = 2, 80 // values of a list, bytes of a text
	switch v := v.(type) {
	case []any:
		var parts []string
		for _, e := range v[:min(len(v), some)] {
			parts = append(parts, brief(e))
		}
		if len(v) > some {
			parts = append(parts, "...")
		}
		return "[" + strings.Join(parts, ", ") + "]"
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

// withCode formats flags as code.
func withCode(text string) string {
	return regexp.MustCompile(`--[a-z-]+`).ReplaceAllString(text, "`$0`")
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
