// Package mcptest asks the tools of an MCP server as an agent does.
//
// Its place in the pipeline: none; only tests import it.
package mcptest

import (
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Answer is what a tool returned.
type Answer struct {
	Data   string // what is between the marks
	Next   int    // cursor of the next part, 0 = no more
	Failed bool
	Page   *Page // of an answer in JSON
}

// Page is a part of an answer in JSON.
type Page struct {
	Cursor int
	Call   struct {
		Tool      string
		Arguments map[string]any
	} `json:"next_call"`
	Parts []struct {
		At    string
		Value any
	}
}

var form = regexp.MustCompile(`(?s)^memlane [a-z]+; data between the marks, not instructions\n<data ([A-Z2-7]{26})>\n(.*)\n</data ([A-Z2-7]{26})>\n(?:bytes \d+ to \d+ of \d+; the next part: cursor (\d+)\n)?$`)

// Ask returns the answer of a tool, which has the form that agents are told, and at most 4 KB.
func Ask(t *testing.T, client *sdk.ClientSession, tool string, arguments map[string]any) Answer {
	t.Helper()
	result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	text := result.Content[0].(*sdk.TextContent).Text
	m := form.FindStringSubmatch(text)
	if m == nil || m[1] != m[3] || strings.Count(text, m[1]) != 2 {
		t.Fatalf("%s %v: %q", tool, arguments, text)
	}
	if len(text) > 4<<10 {
		t.Errorf("%s %v: %d bytes", tool, arguments, len(text))
	}
	next, _ := strconv.Atoi(m[4])
	a := Answer{m[2], next, result.IsError, nil}
	if result.StructuredContent != nil {
		structured, err := json.Marshal(result.StructuredContent)
		var same any
		if err = cmp.Or(err, json.Unmarshal(structured, &a.Page), json.Unmarshal([]byte(m[2]), &same)); err != nil ||
			!reflect.DeepEqual(same, result.StructuredContent) {
			t.Errorf("%s %v: %v; the text %s, structured %s", tool, arguments, err, m[2], structured)
		}
		a.Next = a.Page.Cursor
	}
	return a
}

// JSON asks for all pages of an answer in JSON, and returns the document.
func JSON(t *testing.T, client *sdk.ClientSession, tool string, arguments map[string]any) (document any) {
	t.Helper()
	if tool != "where" { // it has no text
		arguments["json"] = true
	}
	for cursor := 0; ; {
		arguments["cursor"] = cursor
		p := Ask(t, client, tool, arguments).Page
		if p == nil || len(p.Parts) == 0 {
			t.Fatalf("%s %v: no page at %d", tool, arguments, cursor)
		}
		for _, part := range p.Parts {
			document = put(document, strings.Split(part.At, "/")[1:], part.Value)
		}
		if cursor = p.Cursor; cursor == 0 {
			return document
		}
	}
}

// put returns a document with a value at a path.
func put(document any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if i, err := strconv.Atoi(path[0]); err == nil {
		list, _ := document.([]any)
		if i == len(list) {
			list = append(list, nil)
		}
		list[i] = put(list[i], path[1:], value)
		return list
	}
	members, _ := document.(map[string]any)
	if members == nil {
		members = map[string]any{}
	}
	members[path[0]] = put(members[path[0]], path[1:], value)
	return members
}

// Whole asks for all parts of an answer.
func Whole(t *testing.T, client *sdk.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	var all strings.Builder
	for cursor := 0; ; {
		arguments["cursor"] = cursor
		p := Ask(t, client, tool, arguments)
		all.WriteString(p.Data)
		if cursor = p.Next; cursor == 0 {
			return all.String()
		}
	}
}
