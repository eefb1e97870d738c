package answer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

// TestPython: the types of the Python package are up to date.
func TestPython(t *testing.T) {
	all := schema(t).Definitions
	var b strings.Builder
	b.WriteString("\"\"\"The types of the program's answers. Written by go test ./lifetime/answer -update; docs/manual/json.md describes the fields.\"\"\"\n\n" +
		"from __future__ import annotations\n\nfrom typing import Any, TypedDict\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		def, total := all[name], ""
		if len(def.Required) < def.Properties.Len() {
			total = ", total=False"
		}
		text := strings.NewReplacer(`"`, "'", `\`, `\\`, "\n", " ").Replace(def.Description)
		fmt.Fprintf(&b, "\n\nclass %s(TypedDict%s):\n    \"\"\"%s\"\"\"\n\n", name, total, text)
		for p := def.Properties.Oldest(); p != nil; p = p.Next() {
			fmt.Fprintf(&b, "    %s: %s\n", p.Key, pythonType(p.Value))
		}
	}
	golden(t, "../../python/src/memlane/answers.py", []byte(b.String()))
}

// pythonType returns the annotation of a field.
func pythonType(s *jsonschema.Schema) string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/$defs/")
	case len(s.OneOf) > 0:
		return pythonType(s.OneOf[0]) + " | None"
	case s.Type == "array":
		return "list[" + pythonType(s.Items) + "]"
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "dict[str, " + pythonType(s.AdditionalProperties) + "]"
	case s.Type == "object":
		return "dict[str, Any]"
	}
	return map[string]string{"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[s.Type]
}
