package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memlane/memlane/internal/mcptest"
)

// answering returns a client of a server whose answers are all text.
func answering(t *testing.T, text string) *sdk.ClientSession {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return connected(t, folder, func(context.Context, []string) (string, string, bool) { return text, "", false })
}

// TestPages: each page of a JSON answer is JSON of at most 4 KB, and all pages are the answer. Only texts that alone fill a page
// lose their middle.
func TestPages(t *testing.T) {
	row := map[string]any{"name": strings.Repeat("f", 100), "stack": []any{map[string]any{"file": "a/b.py", "line": 3.0}}, "x/~y": nil}
	rows := []any{}
	for range 300 {
		rows = append(rows, row)
	}
	for _, document := range []any{
		map[string]any{}, []any{}, map[string]any{"next": "", "rows": rows}, []any{1.5, rows, "\u202e\U000e0001", map[string]any{"<b>": rows}},
	} {
		text, err := json.MarshalIndent(document, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if got := mcptest.JSON(t, answering(t, string(text)), "summary", map[string]any{"path": "a"}); !reflect.DeepEqual(got, document) {
			t.Errorf("%.300v, want %.300v", got, document)
		}
	}
	for _, part := range []string{"f", "\u202e", "\"", "训", "\x01"} {
		long, err := json.Marshal(map[string]any{"a": strings.Repeat(part, 100_000), "b": 1})
		if err != nil {
			t.Fatal(err)
		}
		got := mcptest.JSON(t, answering(t, string(long)), "summary", map[string]any{"path": "a"}).(map[string]any)
		if a := got["a"].(string); len(a) > 300 || !strings.HasPrefix(a, part) || !strings.HasSuffix(a, part) || !strings.Contains(a, "…") || got["b"] != 1.0 {
			t.Errorf("%q becomes %.300v", part, got)
		}
	}
	if p := mcptest.Ask(t, answering(t, "[1]"), "summary", map[string]any{"path": "a", "json": true, "cursor": 99}); p.Failed || p.Page == nil || len(p.Page.Parts) != 0 {
		t.Errorf("behind the end: %+v", p)
	}
	if p := mcptest.Ask(t, answering(t, "no JSON"), "summary", map[string]any{"path": "a", "json": true}); p.Page != nil || p.Data != "no JSON" {
		t.Errorf("%+v", p)
	}
}

// TestCalls: commands are calls of tools, and what is no command is none.
func TestCalls(t *testing.T) {
	for next, want := range map[string]string{
		"memlane oom a": `why_oom {"path":"a"}`, "memlane peak --by category --at oom 'my '\\''file.pickle'": `peak {"at":"oom","by":"category","path":"my 'file.pickle"}`,
		"memlane peak --by stack --function '^a b$' a": `where {"function":"^a b$","path":"a"}`, "memlane whatif ''": `what_if {"path":""}`,
		"memlane serve a": "", "memlane": "", "": "", "memlane peak x y a": "", "PYTORCH_CUDA_ALLOC_CONF=a:1, record it again, then memlane diff a AFTER": "",
	} {
		document, err := json.Marshal(map[string]any{"next": next})
		if err != nil {
			t.Fatal(err)
		}
		call, got := mcptest.Ask(t, answering(t, string(document)), "summary", map[string]any{"path": "a", "json": true}).Page.Call, ""
		if call.Tool != "" {
			arguments, _ := json.Marshal(call.Arguments)
			got = fmt.Sprintf("%s %s", call.Tool, arguments)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", next, got, want)
		}
	}
}

// TestProgress: a client that asks for progress is told at once that its question is read.
func TestProgress(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	told := make(chan *sdk.ProgressNotificationParams, 9)
	s, err := New("", []string{folder}, func(ctx context.Context, _ []string) (string, string, bool) {
		select {
		case p := <-told:
			return fmt.Sprint(p.ProgressToken, " ", p.Progress, " ", p.Message), "", false
		case <-ctx.Done():
			return "", "not told", true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	here, there := sdk.NewInMemoryTransports()
	if _, err := s.tools().Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { told <- r.Params }}).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	question := &sdk.CallToolParams{Name: "leaks", Arguments: map[string]any{"path": "a"}}
	question.SetProgressToken("seven")
	result, err := client.CallTool(t.Context(), question)
	if err != nil || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, "\nseven 0 memlane leaks\n") {
		t.Errorf("%v, %+v", err, result)
	}
}
