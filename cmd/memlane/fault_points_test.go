//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fewestPoints is how many operations TestFaultPoints made fail when it was written. A lower
// count means that it no longer visits something.
const fewestPoints = 550

// TestFaultPoints runs every command that writes files, once for each operation on an output,
// which then fails. The command must end with one line and status 5, leave the old output as
// it was and nothing else. It may also succeed in another way, with the whole output.
func TestFaultPoints(t *testing.T) {
	_, written := commandLines(t)
	t.Cleanup(func() { inject = nil })
	points := map[string]int{}
	for name, prepare := range map[string]func(file string) error{
		"a new file":       func(string) error { return nil },
		"an existing file": func(file string) error { return os.WriteFile(file, []byte("old"), 0o600) },
		"a hard link": func(file string) error {
			return cmp.Or(os.WriteFile(file, []byte("old"), 0o600), os.Link(file, "twin"))
		},
	} {
		for _, args := range written {
			if command, _, _ := strings.Cut(args, " "); name != "a new file" && command != "report" && command != "pprof" {
				continue // how a file gets its name does not depend on the command
			}
			file := strings.Fields(args[strings.Index(args, "-o ")+3:])[0]
			files := []string{file}
			if strings.HasPrefix(args, "pprof --at") {
				files = []string{numbered(file, 1), numbered(file, 2), numbered(file, 3)}
			}
			run := func(fails int) (visited []string, before, after map[string]string, stderr string, status int) {
				t.Chdir(t.TempDir())
				for i, f := range files {
					if err := cmp.Or(prepare(f), moveTwin(i)); err != nil {
						t.Fatal(err)
					}
				}
				before = contentsOf(t)
				inject = func(operation string) error {
					if visited = append(visited, operation); len(visited) == fails {
						return &os.PathError{Op: operation, Path: "hidden", Err: syscall.EIO}
					}
					return nil
				}
				_, stderr, status = memlane("", append(strings.Fields(args), "--quiet")...)
				inject = nil
				return visited, before, contentsOf(t), stderr, status
			}
			all, _, whole, stderr, status := run(0)
			if status != 0 {
				t.Fatalf("memlane %s: status %d: %s", args, status, stderr)
			}
			for k := 1; k <= len(all); k++ {
				visited, before, after, stderr, status := run(k)
				at := fmt.Sprintf("memlane %s over %s, %d of %d (%s)", args, name, k, len(all), visited[k-1])
				points[visited[k-1]]++
				switch {
				case status == 0 && maps.Equal(after, whole):
				case status != statusOutput || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "memlane: -o out") || !strings.Contains(stderr, ": input/output error"):
					t.Errorf("%s: status %d, %q", at, status, stderr)
				case len(files) == 1 && !maps.Equal(after, before):
					t.Errorf("%s: leaves %d files of %d, or others", at, len(after), len(before))
				case len(after) > len(whole): // a series that is published in part
					t.Errorf("%s: leaves %d files", at, len(after))
				}
			}
		}
	}
	sum := 0
	for _, n := range points {
		sum += n
	}
	t.Logf("%d points visited: %v", sum, points)
	if sum < fewestPoints {
		t.Errorf("%d points visited, want at least %d", sum, fewestPoints)
	}
}

// moveTwin gives the second name of a file a number, so that a series has several.
func moveTwin(i int) error {
	if err := os.Rename("twin", fmt.Sprint("twin-", i)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// contentsOf returns the contents of all files here, also of hidden ones.
func contentsOf(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*")
	hidden, err2 := filepath.Glob(".*")
	if err := cmp.Or(err, err2); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range append(files, hidden...) {
		if data, err := os.ReadFile(file); err == nil {
			all[file] = string(data)
		}
	}
	return all
}
