package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	deeply "github.com/memlane/memlane/internal/deep" // deep is a kind of input
)

// TestMain lets the command run itself, as it does to make inputs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"make", "limit"}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// measured runs the command without Python.
func measured(t *testing.T, args ...string) string {
	t.Helper()
	app := newApp()
	var out, log bytes.Buffer
	app.Writer, app.ErrWriter = &out, &log
	if err := app.Run(append([]string{"memlane-bench", "--python", filepath.Join(t.TempDir(), "python")}, args...)); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	return out.String()
}

// TestTables: every command of memlane runs, the tables are well-formed, and missing peers are marked. Without MEMLANE_DEEP=1 another program
// runs in place of memlane, which takes long to build.
func TestTables(t *testing.T) {
	args := []string{"--scale", "0.0005", "--runs", "1", "--only", "^[^g]|growth (snapshot|hlo)"}
	if !deeply.Is() {
		args = append(args, "--memlane", "true")
	}
	page := measured(t, args...)
	cells := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		if n := strings.Count(line, "|"); cells == 0 {
			cells = n
		} else if n != cells {
			t.Errorf("%d cells, the head has %d: %s", n-1, cells-1, line)
		}
	}
	b := &bench{scale: 1, runs: 1}
	for _, w := range b.works() {
		if !strings.Contains(page, "\n| **"+w.name+"**: ") {
			t.Errorf("no row for %s", w.name)
		}
	}
	for _, s := range b.allSeries() {
		chosen := s.name == "growth snapshot" || s.name == "growth hlo" // the others take long and run the same commands
		if chosen != strings.Contains(page, "| "+s.title+", ") {
			t.Errorf("a row for %s: %v", s.name, !chosen)
		}
	}
	for _, want := range []string{"go run ./cmd/memlane-bench", "processors", "xprof memory_profile: not found", "json.load: not found", "| svg | ", "empty process"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	want := 0
	if !deeply.Is() {
		want = 1 // go tool pprof reads what memlane pprof writes
	}
	if n := strings.Count(page, "failed"); n != want {
		t.Errorf("%d commands failed, want %d", n, want)
	}
	if t.Failed() {
		t.Log(page)
	}
}

// TestOnly: --only selects works, --dir keeps and reuses inputs, and -o writes to a file.
func TestOnly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "page.md")
	args := []string{"--scale", "0.0005", "--runs", "1", "--only", "^xspace$", "--dir", dir, "-o", file, "--memlane", "true"}
	if out := measured(t, args...); out != "" {
		t.Errorf("it wrote %q to standard output", out)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\| \*\*`).FindAll(page, -1)); n != 1 || bytes.Contains(page, []byte("## How costs grow")) {
		t.Errorf("more than one work:\n%s", page)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "xspace-*"))
	if len(kept) != 1 {
		t.Fatalf("inputs kept: %q", kept)
	}
	before, err := os.Stat(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	measured(t, args...)
	if after, err := os.Stat(kept[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("the input was made again (%v)", err)
	}
}

// TestReplaced: a page keeps its other sections, and their order.
func TestReplaced(t *testing.T) {
	const page = "# Speed\n\nText.\n\n## A\n\nold\n\n## B\n\nkept\n"
	if got, want := replaced(page, "## A\n\nnew\n\n## C\n\nmore\n"), "# Speed\n\nText.\n\n## A\n\nnew\n\n## B\n\nkept\n\n## C\n\nmore\n"; got != want {
		t.Errorf("%q", got)
	}
	if got, want := replaced("", "## A\n\nnew\n## C\n"), "## A\n\nnew\n\n## C\n"; got != want {
		t.Errorf("%q", got)
	}
}

// TestRefused: wrong command lines give an error.
func TestRefused(t *testing.T) {
	for _, args := range [][]string{{"--scale", "0"}, {"--runs", "0"}, {"--only", "("}, {"capture.json"}, {"--memlane", "no/such/program"}, {"make", "f", "xspace", "1"}} {
		app := newApp()
		app.Writer, app.ErrWriter = &bytes.Buffer{}, &bytes.Buffer{}
		if err := app.Run(append([]string{"memlane-bench", "--python", ""}, args...)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestMeasure: costs are measured, failures have a reason, and cancellation ends the commands.
func TestMeasure(t *testing.T) {
	b := &bench{runs: 2, log: &bytes.Buffer{}, tmp: t.TempDir(), out: filepath.Join(t.TempDir(), "out")}
	shell := func(script string) command { return command{args: []string{"sh", "-c", script}} }
	costs, err := b.measure(context.Background(), []command{
		shell("echo x > {out}"), shell("echo no >&2; echo memory >&2; exit 3"), {missing: "something"}, shell("exit 0"),
	}, 2, 2, patience)
	if err != nil {
		t.Fatal(err)
	}
	if c := costs[0]; c.err != nil || c.runs != 2 || c.out != 2 || c.rss == 0 || c.wall == 0 {
		t.Errorf("%+v", c)
	}
	if c := costs[1]; c.err == nil || c.err.Error() != "exit status 3: memory" {
		t.Errorf("%+v", c)
	}
	if c := costs[2]; c.err != errNotFound || reason(c.err) != "not found" {
		t.Errorf("%+v", c)
	}
	if costs, _ = b.measure(context.Background(), []command{shell("sleep 0.01")}, 5, 5, 1); costs[0].runs != 1 {
		t.Errorf("run %d times beyond patience", costs[0].runs)
	}
	if costs, _ = b.measure(context.Background(), []command{shell("sleep 0.01")}, 2, 6, patience); costs[0].runs != 6 {
		t.Errorf("a short command ran %d times, want 6", costs[0].runs)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.measure(ctx, []command{shell("sleep 60")}, 1, 1, patience); err != context.Canceled {
		t.Errorf("the end of the run: %v", err)
	}
}
