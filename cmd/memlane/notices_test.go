package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/urfave/cli/v2"
)

// cutShort returns a truncated capture, and a copy of it.
func cutShort(t *testing.T) (file, twin string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(snapshots, "twodev.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, twin = filepath.Join(dir, "cut.pickle"), filepath.Join(dir, "cut too.pickle")
	for _, name := range []string{file, twin} {
		if err := os.WriteFile(name, data[:len(data)*9/10], 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return file, twin
}

// TestWarnedOnce checks that no line is printed twice, although a capture is named or read
// twice, or has several damaged spaces. Each capture has its own lines.
func TestWarnedOnce(t *testing.T) {
	file, twin := cutShort(t)
	const programs = "../../testdata/xplane/padded.hlo.pb"
	for _, c := range []struct {
		args  string
		lines int
	}{
		{"info FILE", 1}, {"info FILE FILE", 1}, {"info FILE TWIN", 2}, {"info --json FILE FILE TWIN", 2}, {"info --quiet FILE FILE", 0},
		{"leaks FILE FILE", 1}, {"leaks --rules gpumemprof FILE FILE", 1}, {"report FILE FILE", 1}, {"report FILE TWIN", 2},
		{"report --format html -o OUT FILE TWIN", 2}, {"diff FILE FILE", 1}, {"diff FILE TWIN", 2},
		{"peak FILE FILE", 1}, {"peak --at end FILE FILE", 1}, {"peak --at 1ms FILE FILE", 1}, {"pprof -o OUT FILE FILE", 1},
		{"svg -o OUT FILE FILE", 2}, // the second line names the drawn memory ID
		{"svg --view peak -o OUT FILE", 2}, {"export --to json FILE", 1},
		{"peak PROGRAMS PROGRAMS", 1}, // names the shown program
	} {
		args := strings.Fields(c.args)
		for i, arg := range args {
			switch arg {
			case "FILE":
				args[i] = file
			case "TWIN":
				args[i] = twin
			case "PROGRAMS":
				args[i] = programs
			case "OUT":
				args[i] = filepath.Join(t.TempDir(), "out")
			}
		}
		_, stderr, status := memlane("", args...)
		if n := strings.Count(stderr, "\n"); n != c.lines || status != 0 {
			t.Errorf("memlane %s: status %d, %d lines, want %d:\n%s", c.args, status, n, c.lines, stderr)
		}
		printed := map[string]bool{}
		for line := range strings.Lines(stderr) {
			if printed[line] {
				t.Errorf("memlane %s: printed twice: %s", c.args, line)
			}
			printed[line] = true
		}
	}
	if _, stderr, status := memlane("", "leaks", "--strict", file, file); status != statusInput || strings.Count(stderr, "\n") != 1 {
		t.Errorf("with --strict: status %d, %q", status, stderr)
	}
}

// TestWarnedOnceServing checks that reading a capture again prints no warning again.
func TestWarnedOnceServing(t *testing.T) {
	file, _ := cutShort(t)
	var stderr bytes.Buffer
	app := newApp(nil, &bytes.Buffer{}, &stderr)
	app.Command("serve").Action = func(c *cli.Context) error {
		for range 3 {
			if _, err := thatFind(finding.Settings{}).all(c, &selection.Selection{}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := app.Run([]string{"memlane", "serve", file}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(stderr.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, &stderr)
	}
}
