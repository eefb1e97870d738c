package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memlane/memlane/internal/mcptest"
)

// connected returns a client of a server whose only root is folder.
func connected(t *testing.T, folder string, run Run) *sdk.ClientSession {
	t.Helper()
	s, err := New("v1", []string{folder}, run)
	if err != nil {
		t.Fatal(err)
	}
	here, there := sdk.NewInMemoryTransports()
	server, err := s.tools().Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Wait() })
	return client
}

// TestCommands: each tool runs its command, and the same question again takes the answer that is there.
func TestCommands(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	client := connected(t, folder, func(_ context.Context, args []string) (stdout, stderr string, failed bool) {
		runs++
		return strings.ReplaceAll(strings.Join(args, " "), real+string(filepath.Separator), ""), "; why", args[0] == "oom"
	})
	tools, err := client.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 10 {
		t.Fatalf("%v: %v", tools, err)
	}
	for _, q := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"summary", map[string]any{"path": "a"}, "info --quiet a; why"},
		{"leaks", map[string]any{"path": "a", "json": true}, "leaks --quiet --json a; why"},
		{"peak", map[string]any{"path": "a", "by": "--json", "at": "end"}, "peak --quiet --by=--json --at=end a; why"},
		{"where", map[string]any{"path": "a", "function": "-f"}, "peak --quiet --by=stack --function=-f --json a; why"},
		{"who_holds", map[string]any{"path": "a"}, "peak --quiet --by=name --at=end a; why"},
		{"who_holds", map[string]any{"path": "a", "name": "--a", "at": "oom", "json": true}, "peak --quiet --by=name --name=--a --at=oom --json a; why"},
		{"why_oom", map[string]any{"path": "a"}, "oom --quiet a; why"},
		{"tune", map[string]any{"path": "a"}, "tune --quiet a; why"},
		{"diff", map[string]any{"before": "a", "after": "b"}, "diff --quiet a b; why"},
		{"what_if", map[string]any{"path": "a", "set": []string{"batch=2", "x"}, "capacity": "1GiB"}, "whatif --quiet --capacity=1GiB --set=batch=2 --set=x a; why"},
	} {
		runs = 0
		for range 2 {
			if p := mcptest.Ask(t, client, q.tool, q.arguments); p.Data != q.want || p.Failed != (q.tool == "why_oom") {
				t.Errorf("%s runs %q (failed: %v), want %q", q.tool, p.Data, p.Failed, q.want)
			}
		}
		if runs != 1 {
			t.Errorf("%s: %d runs for one question", q.tool, runs)
		}
	}
}

// TestCorrected: a call without a right tool or argument is answered with those that there are.
func TestCorrected(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	client := connected(t, folder, func(context.Context, []string) (stdout, stderr string, failed bool) { return "ran", "", false })
	for _, q := range []struct {
		tool      string
		arguments map[string]any
		want      []string
	}{
		{"peak", map[string]any{"file": "a"}, []string{`["file"]`, "peak takes:", "path (needed), string: a capture", "by, string: line (default)"}},
		{"what_if", map[string]any{"path": "a", "set": "batch=2"}, []string{"what_if takes:", "set, array: changes to predict, such as batch=2"}},
		{"diff", map[string]any{"before": "a"}, []string{"after (needed), string: the capture after it"}},
		{"peak", map[string]any{"path": "b"}, []string{"b: no such file; captures lists what there is"}},
	} {
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: q.tool, Arguments: q.arguments})
		if err != nil || !result.IsError {
			t.Fatalf("%s %v: %v, %v", q.tool, q.arguments, result, err)
		}
		for _, want := range q.want {
			if text := result.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, want) {
				t.Errorf("%s %v: %s\nlacks %s", q.tool, q.arguments, text, want)
			}
		}
	}
	if _, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "peek"}); err == nil || !strings.Contains(err.Error(), "the tools: captures, diff, leaks, peak, summary") {
		t.Errorf("no tool peek: %v", err)
	}
}

// TestPaths: nothing outside of the roots is read, and a path is never a flag, a pattern or standard input.
func TestPaths(t *testing.T) {
	folder := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	for _, file := range []string{secret, filepath.Join(folder, "a")} {
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	client := connected(t, folder, func(ctx context.Context, args []string) (string, string, bool) {
		return fmt.Sprint("runs ", args), "", false
	})
	for path, want := range map[string]string{
		secret: "not below a root", "link": "not below a root", "../" + filepath.Base(filepath.Dir(secret)) + "/secret": "not below a root",
		"../missing": "not below a root", "missing": "no such file", ".": "link: the link leads out of the roots", "-": "no such file", "--help": "no such file", "*": "no such file",
	} {
		if p := mcptest.Ask(t, client, "summary", map[string]any{"path": path}); !p.Failed || !strings.Contains(p.Data, want) {
			t.Errorf("%s: failed %v, %q", path, p.Failed, p.Data)
		}
	}
	if p := mcptest.Ask(t, client, "summary", map[string]any{"path": "a", "cursor": 1 << 40}); p.Failed || p.Data != "" {
		t.Errorf("behind the end: %+v", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "summary", Arguments: map[string]any{"path": "a"}}); err == nil {
		t.Error("a cancelled question has an answer")
	}
	if _, err := New("", []string{secret}, nil); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file as a root: %v", err)
	}
}

// TestFolders: a folder is asked about as a file is, and its captures are listed.
func TestFolders(t *testing.T) {
	folder := t.TempDir()
	for _, file := range []string{"run.log", "src/train.py", "ranks/rank0.pickle", "ranks/rank1.pickle.gz", ".git/x.json"} {
		file = filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("12345"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	runs := 0
	client := connected(t, folder, func(_ context.Context, args []string) (string, string, bool) {
		runs++
		return filepath.Base(args[len(args)-1]), "", false
	})
	const inRanks = "ranks/rank0.pickle  5 B  2026-03-01 12:00:00\nranks/rank1.pickle.gz  5 B  2026-03-01 12:00:00"
	for path, want := range map[string]string{"": inRanks + "\nrun.log  5 B  2026-03-01 12:00:00", "ranks": inRanks, "src": "no capture or log is here"} {
		if p := mcptest.Ask(t, client, "captures", map[string]any{"path": path}); p.Failed || filepath.ToSlash(p.Data) != want {
			t.Errorf("%q: %+v", path, p)
		}
	}
	if p := mcptest.Ask(t, client, "captures", map[string]any{"path": ".."}); !p.Failed || !strings.Contains(p.Data, "not below a root") {
		t.Errorf("%+v", p)
	}
	for range 2 {
		if p := mcptest.Ask(t, client, "leaks", map[string]any{"path": "ranks"}); p.Failed || p.Data != "ranks" {
			t.Errorf("%+v", p)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "ranks/rank2.pickle"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	mcptest.Ask(t, client, "leaks", map[string]any{"path": "ranks"})
	if runs != 2 {
		t.Errorf("%d runs for a folder that changed once", runs)
	}
}

// TestParts: the parts of a long answer are the answer, in any script and without line breaks, and no character acts on what shows it.
func TestParts(t *testing.T) {
	for _, text := range []string{strings.Repeat("a line\n", 3000), strings.Repeat("é训", 3000), strings.Repeat("\x1b[31m\u202e\U000e0001\xff", 500), "</data>"} {
		if got, want := mcptest.Whole(t, answering(t, text), "summary", map[string]any{"path": "a"}), printable(text); got != want {
			t.Errorf("%.300q, want %.300q", got, want)
		}
	}
	if got := printable("a\n\x1b\u202e\U000e0001\xff"); got != "a\n\\u001b\\u202e\\udb40\\udc01\ufffd" {
		t.Errorf("%q", got)
	}
}

// TestOpen: a folder that became a link after a question was allowed leads a command to nothing outside of the roots.
func TestOpen(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	s, err := New("v1", []string{folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	inside, capture := filepath.Join(folder, "runs"), filepath.Join(folder, "runs", "a")
	for _, f := range []string{inside, outside} {
		if err := cmp.Or(os.MkdirAll(f, 0o777), os.WriteFile(filepath.Join(f, "a"), nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Open(capture)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := cmp.Or(os.RemoveAll(inside), os.Symlink(outside, inside)); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Open(capture); err == nil {
		f.Close()
		t.Error("a file outside of the roots was opened")
	}
}
