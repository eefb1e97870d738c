package render_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memlane/memlane/lifetime"
)

// schemaURL is the name of the schema. A relative one would be below this folder, whose name may have blanks.
const schemaURL = "test:///schema.json"

// modelSchema returns the schema of the JSON export.
func modelSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open("model/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(schemaURL)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func valid(t *testing.T, schema *jsonschema.Schema, document []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}

// TestSchema checks the JSON export of every capture against the schema.
func TestSchema(t *testing.T) {
	schema := modelSchema(t)
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) {
		if err := valid(t, schema, written(t, c, "json", "")); err != nil {
			t.Error(err)
		}
	})
}

// TestSchemaRejects checks that the schema rejects additional and missing fields, wrong
// types and unknown words.
func TestSchemaRejects(t *testing.T) {
	schema := modelSchema(t)
	text := string(written(t, small(t), "json", ""))
	for _, c := range [][2]string{
		{`"losses":`, `"lost":`},
		{`"schema":"memlane/1"`, `"schema":"memlane/2"`},
		{`"column":0`, `"column":null`},
		{`"size":1024,`, ``},
		{`"size":1024,`, `"size":1024.5,`},
		{`"size":1024,`, `"size":1024,"width":3,`},
		{`"edges":["end-open","pending"]`, `"edges":["end-opened"]`},
	} {
		other := strings.Replace(text, c[0], c[1], 1)
		if other == text {
			t.Fatalf("no %s in\n%s", c[0], text)
		}
		if valid(t, schema, []byte(other)) == nil {
			t.Errorf("%s for %s passes", c[1], c[0])
		}
	}
}
