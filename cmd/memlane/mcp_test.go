package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/internal/mcptest"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/native"
)

// connected returns a client of memlane mcp whose only root is folder.
func connected(t *testing.T, folder string) *mcp.ClientSession {
	t.Helper()
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	status := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		status <- run(in, out, &stderr, []string{"memlane", "mcp", "--root", folder})
		out.Close()
	}()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: answers, Writer: requests}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if got := <-status; got != statusOK || stderr.Len() > 0 {
			t.Errorf("status %d, %s", got, &stderr)
		}
	})
	return client
}

// TestOpenInRoots: a command opens captures, also those of a folder, as memlane mcp says.
func TestOpenInRoots(t *testing.T) {
	refuse := func(string) (*os.File, error) { return nil, os.ErrPermission }
	for _, file := range []string{"../../testdata/torchsnap/leak_loss.pickle", "../../testdata/torchsnap"} {
		ctx, message := context.WithValue(t.Context(), openKey{}, refuse), &bytes.Buffer{}
		if got := runIn(ctx, nil, io.Discard, message, []string{"memlane", "info", file}); got != statusInput || !strings.Contains(message.String(), "permission denied") {
			t.Errorf("%s: status %d, %s", file, got, message)
		}
	}
}

// TestMCP: the answers of the tools are those of the commands.
func TestMCP(t *testing.T) {
	client := connected(t, "../../testdata")
	tools, err := client.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 10 {
		t.Fatalf("%v: %v", tools, err)
	}
	const snapshot, failed, training = "torchsnap/leak_loss.pickle", "replay/b03.c2.oom.pickle.zst", "whatif/mlp.pickle.zst"
	for _, q := range []struct {
		tool      string
		arguments map[string]any
		command   string
	}{
		{"summary", map[string]any{"path": snapshot}, "info FILE"},
		{"summary", map[string]any{"path": snapshot, "json": true}, "info --json FILE"},
		{"leaks", map[string]any{"path": snapshot}, "leaks FILE"},
		{"leaks", map[string]any{"path": snapshot, "json": true}, "leaks --json FILE"},
		{"peak", map[string]any{"path": snapshot, "by": "category", "at": "end"}, "peak --by category --at end FILE"},
		{"where", map[string]any{"path": snapshot, "function": "^forward$"}, "peak --by stack --function ^forward$ --json FILE"},
		{"who_holds", map[string]any{"path": "torchsnap/held.pickle"}, "peak --by name --at end FILE"},
		{"who_holds", map[string]any{"path": "torchsnap/held.pickle", "name": "^log", "json": true}, "peak --by name --name ^log --at end --json FILE"},
		{"why_oom", map[string]any{"path": failed}, "oom FILE"},
		{"tune", map[string]any{"path": failed, "json": true}, "tune --json FILE"},
		{"diff", map[string]any{"before": snapshot, "after": snapshot}, "diff FILE FILE"},
		{"what_if", map[string]any{"path": training, "set": []string{"batch=2", "checkpoint=blocks"}, "capacity": "1GiB"}, "whatif --set batch=2 --set checkpoint=blocks --capacity 1GiB FILE"},
	} {
		path, _ := q.arguments["path"].(string)
		if path == "" {
			path = snapshot
		}
		file, err := filepath.EvalSymlinks(absolute(t, "../../testdata/"+path))
		if err != nil {
			t.Fatal(err)
		}
		want := succeed(t, argsOf(q.command+" --quiet", file)...)
		if strings.Contains(q.command, "--json") {
			var document any
			if err := json.Unmarshal([]byte(want), &document); err != nil {
				t.Fatal(err)
			}
			if got := mcptest.JSON(t, client, q.tool, q.arguments); !reflect.DeepEqual(got, document) {
				t.Errorf("%s: %.300v, want %.300v", q.tool, got, document)
			}
		} else if got := mcptest.Whole(t, client, q.tool, q.arguments); got != want {
			t.Errorf("%s: %.300q, want %.300q", q.tool, got, want)
		}
	}
}

// TestMCPWhere: a stack is a list of functions with file and line, innermost first.
func TestMCPWhere(t *testing.T) {
	document := mcptest.JSON(t, connected(t, "../../testdata"), "where", map[string]any{"path": "torchsnap/leak_loss.pickle", "function": "^forward$"})
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var peaks struct {
		Peaks []struct{ Rows []struct{ Site answer.Site } }
	}
	if err := json.Unmarshal(text, &peaks); err != nil {
		t.Fatal(err)
	}
	site := peaks.Peaks[0].Rows[0].Site
	const file = "/home/user/proj/keep/gen/leak_loss.py"
	want := []answer.Frame{{Function: "forward", File: file, Line: 9}, {Function: "step", File: file, Line: 20}, {Function: "<module>", File: file, Line: 29}}
	if !reflect.DeepEqual(site.Stack, want) || site.Function != "forward" || site.File != file || site.Line != 9 {
		t.Errorf("%+v", site)
	}
}

// TestMCPNext: the call that an answer names can be made.
func TestMCPNext(t *testing.T) {
	client := connected(t, "../../testdata")
	for path, want := range map[string]string{
		"replay/b03.c2.oom.pickle.zst": "summary why_oom tune", "torchsnap/leak_loss.pickle": "summary leaks where leaks", "xplane/seed_oom.hlo.pb": "summary peak peak peak",
	} {
		var asked []string
		for tool, arguments := "summary", map[string]any{"path": path}; tool != "" && len(asked) < 4; {
			asked = append(asked, tool)
			arguments["json"] = true
			if tool == "where" {
				delete(arguments, "json")
			}
			p := mcptest.Ask(t, client, tool, arguments)
			if p.Failed || p.Page == nil {
				t.Fatalf("%s %v: %s", tool, arguments, p.Data)
			}
			tool, arguments = p.Page.Call.Tool, p.Page.Call.Arguments
		}
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestMCPErrors: what cannot be answered is said.
func TestMCPErrors(t *testing.T) {
	folder := t.TempDir()
	snapshot, err := os.ReadFile(snapshots + "/leak_loss.pickle")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmp.Or(os.WriteFile(filepath.Join(folder, "text"), []byte("no capture"), 0o666), os.WriteFile(filepath.Join(folder, "a.pickle"), snapshot, 0o666)); err != nil {
		t.Fatal(err)
	}
	client := connected(t, folder)
	if p := mcptest.Ask(t, client, "summary", map[string]any{"path": "text"}); !p.Failed || !strings.Contains(p.Data, "not a capture") {
		t.Errorf("text: failed %v, %q", p.Failed, p.Data)
	}
	if p := mcptest.Ask(t, client, "peak", map[string]any{"path": "a.pickle", "by": "nonsense"}); !p.Failed || !strings.Contains(p.Data, "--by") {
		t.Errorf("by nonsense: %+v", p)
	}
	if _, stderr, status := memlane("", "mcp", "--root", filepath.Join(folder, "text")); status != statusInput || !strings.Contains(stderr, "text: not a folder") {
		t.Errorf("a file as a root: status %d, %s", status, stderr)
	}
}

// hidden reports whether a text has characters that act on what shows it.
func hidden(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// TestMCPHostile: names of captures stay between the marks, and no character of them acts on what shows the answer. Names without such a
// character are for MEMLANE_DEEP=1.
func TestMCPHostile(t *testing.T) {
	folder := t.TempDir()
	client := connected(t, folder)
	for n, name := range hostile.Texts {
		if !hidden(name) && !deep.Is() {
			continue
		}
		file := filepath.Join(folder, "hostile.native")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmp.Or(native.Write(f, hostile.Capture(name+"\n</data>\n")), f.Close()); err != nil {
			t.Fatal(err)
		}
		for _, question := range []map[string]any{{"path": file}, {"path": file, "json": true}} {
			tool := []string{"summary", "leaks", "peak"}[n%3]
			if got := mcptest.Whole(t, client, tool, question); hidden(got) {
				t.Errorf("%s: %.500q", tool, got)
			}
		}
		if got := mcptest.Whole(t, client, "where", map[string]any{"path": file, "function": "."}); hidden(got) {
			t.Errorf("where: %.500q", got)
		}
	}
}

// TestMCPProcess: the server speaks on standard input and output, and ends with its input.
func TestMCPProcess(t *testing.T) {
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	status := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		status <- run(in, out, &stderr, []string{"memlane", "mcp", "--root", snapshots})
		out.Close()
	}()
	go io.WriteString(requests, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"summary","arguments":{"path":"leak_loss.pickle"}}}
`)
	lines := bufio.NewScanner(answers)
	for lines.Scan() && !strings.Contains(lines.Text(), `"id":2`) {
	}
	if !strings.Contains(lines.Text(), "torch-snapshot") {
		t.Errorf("%s %v", lines.Bytes(), lines.Err())
	}
	requests.Close()
	for lines.Scan() {
	}
	if got := <-status; got != statusOK || stderr.Len() > 0 {
		t.Errorf("status %d, %s", got, &stderr)
	}
}
