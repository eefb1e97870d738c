package answer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/memlane/memlane/lifetime/answer"
)

var update = flag.Bool("update", false, "regenerate schema.json and the types of the Python package")

// commands are the commands with --json and their answers, in the order of the manual.
var commands = []struct {
	name   string
	answer any
}{
	{"info", answer.Info{}}, {"leaks", answer.Leaks{}}, {"report", answer.Report{}}, {"peak", answer.Peaks{}}, {"oom", answer.OOMs{}}, {"diff", answer.Diff{}}, {"ops", answer.Ops{}}, {"tune", answer.Tune{}},
	{"whatif", answer.WhatIf{}},
}

// schema returns the JSON Schema of all answers. Descriptions are the comments of types and fields.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r := &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, Mapper: mapped}
	if err := r.AddGoComments("github.com/memlane/memlane/lifetime/answer", "."); err != nil {
		t.Fatal(err)
	}
	all := &jsonschema.Schema{Version: jsonschema.Version, Title: "JSON output of memlane's commands (--json)", Definitions: jsonschema.Definitions{}}
	for _, c := range commands {
		for name, def := range r.Reflect(c.answer).Definitions {
			all.Definitions[name] = def
		}
		nullable(all.Definitions, reflect.TypeOf(c.answer))
		all.AnyOf = append(all.AnyOf, &jsonschema.Schema{Ref: "#/$defs/" + reflect.TypeOf(c.answer).Name()})
	}
	return all
}

// mapped returns the JSON type of Go types that do not determine it.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[map[string]any](): // evidence: figures and texts by name
		return &jsonschema.Schema{Type: "object"}
	}
	return nil
}

// nullable allows null for all pointer fields of a type and of the types of its fields.
func nullable(all jsonschema.Definitions, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	nullableFields(all, t, all[t.Name()])
}

// nullableFields does so for the fields of t in the definition def. Embedded structs have their fields there too.
func nullableFields(all jsonschema.Definitions, t reflect.Type, def *jsonschema.Schema) {
	for f := range t.Fields() {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			nullableFields(all, f.Type, def)
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		nullable(all, f.Type)
		property, ok := def.Properties.Get(name)
		if ok && f.Type.Kind() == reflect.Pointer && property.OneOf == nil {
			value := *property
			value.Description = ""
			*property = jsonschema.Schema{Description: property.Description, OneOf: []*jsonschema.Schema{&value, {Type: "null"}}}
		}
	}
}

// TestSchema: schema.json is up to date, and every type and field has a comment.
func TestSchema(t *testing.T) {
	all := schema(t)
	for name, def := range all.Definitions {
		if def.Description == "" {
			t.Errorf("%s has no comment", name)
		}
		for p := def.Properties.Oldest(); p != nil; p = p.Next() {
			if p.Value.Description == "" {
				t.Errorf("%s: %s has no comment", name, p.Key)
			}
		}
	}
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", append(text, '\n'))
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v): go test ./lifetime/answer -update", file, err)
	}
}
