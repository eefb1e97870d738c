//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime/answer"
)

// fewestPoints is how many operations TestFaultPoints made fail when it was written. A lower
// count means that it no longer visits something.
var fewestPoints = deep.Or(150, 340)

// TestCommandLines checks that the tests of faults run every command, and with -o those that write files.
func TestCommandLines(t *testing.T) {
	printed, written := commandLines(t)
	for _, command := range newApp(nil, io.Discard, io.Discard).Commands {
		runs := func(lines []string) bool {
			return slices.ContainsFunc(lines, func(args string) bool { return strings.HasPrefix(args, command.Name+" ") })
		}
		reads := slices.ContainsFunc(command.Flags, func(f cli.Flag) bool { return f.Names()[0] == "input-format" })
		writes := slices.ContainsFunc(command.Flags, func(f cli.Flag) bool { return f.Names()[0] == "output" })
		if reads && !runs(printed) && command.Name != "serve" || writes && !runs(written) {
			t.Errorf("commandLines has no line of %s, or none with -o", command.Name)
		}
	}
}

// TestFaultPoints runs every command that writes files, once for each operation on an output,
// which then fails. The command must end with one line and status 5, leave the old output as
// it was and nothing else. It may also succeed in another way, with the whole output. Of the operations of a command: the first,
// the last and a third of the others, if not all.
func TestFaultPoints(t *testing.T) {
	_, written := commandLines(t)
	usual := atomicfile.Inject
	t.Cleanup(func() { atomicfile.Inject = usual })
	points := map[string]int{}
	for name, prepare := range map[string]func(file string) error{
		"a new file":       func(string) error { return nil },
		"an existing file": func(file string) error { return os.WriteFile(file, []byte("old"), 0o600) },
	} {
		for n, args := range written {
			if command, _, _ := strings.Cut(args, " "); name != "a new file" && command != "report" && command != "pprof" {
				continue // how a file gets its name does not depend on the command
			}
			file := words(t, args[strings.Index(args, "-o ")+3:])[0]
			run := func(fails int) (visited []string, before, after map[string]string, stderr string, status int) {
				t.Chdir(t.TempDir())
				if err := prepare(file); err != nil {
					t.Fatal(err)
				}
				before = contentsOf(t)
				atomicfile.Inject = func(operation string) error {
					if visited = append(visited, operation); len(visited) == fails {
						return &os.PathError{Op: operation, Path: "hidden", Err: syscall.EIO}
					}
					return nil
				}
				_, stderr, status = memlane("", append(words(t, args), "--quiet")...)
				atomicfile.Inject = usual
				return visited, before, contentsOf(t), stderr, status
			}
			all, _, whole, stderr, status := run(0)
			if status != 0 {
				t.Fatalf("memlane %s: status %d: %s", args, status, stderr)
			}
			if !slices.Contains(all, "create") || !slices.Contains(all, "write") || !slices.Contains(all, "close") || !slices.Contains(all, "rename") {
				t.Errorf("memlane %s over %s: visits only %v", args, name, all)
			}
			for k := 1; k <= len(all); k++ {
				if k > 1 && k < len(all) && (k+n)%deep.Or(3, 1) != 0 {
					continue
				}
				if inner := all[max(k-2, 0):min(k+1, len(all))]; k%4 != 0 && slices.Equal(inner, []string{"write", "write", "write"}) {
					continue // of writes in a row: the first, the last and every fourth
				}
				visited, before, after, stderr, status := run(k)
				at := fmt.Sprintf("memlane %s over %s, %d of %d (%s)", args, name, k, len(all), visited[k-1])
				points[words(t, args)[0]+" "+visited[k-1]]++
				switch {
				case status == 0 && maps.Equal(after, whole):
				case status != statusOutput || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "memlane: -o out") || !strings.Contains(stderr, ": input/output error"):
					t.Errorf("%s: status %d, %q", at, status, stderr)
				case !maps.Equal(after, before):
					t.Errorf("%s: leaves %d files of %d, or others", at, len(after), len(before))
				}
			}
		}
	}
	sum := 0
	for _, n := range points {
		sum += n
	}
	t.Logf("%d points visited, by command and operation: %v", sum, points)
	if sum < fewestPoints {
		t.Errorf("%d points visited, want at least %d", sum, fewestPoints)
	}
}

// ofFormats are a capture of each format.
var ofFormats = map[string]string{"torch-snapshot": "torchsnap/twodev.pickle", "xplane": "xplane/tf_leak.xplane.pb", "hlo": "xplane/padded.hlo.pb",
	"hlo-text": "xplane/padded.buffer-assignment.txt", "jaxprof": "jaxprof/leak_after.memory.prof", "gpumemprof": "gpumemprof/both.json", "chrome-trace": "chrome/cpu_leak.json.gz",
	"oom-text": "oomtext/versions.log", "native": "torchsnap/twodev.native"}

// fewestReads is how many reads TestReadFaults made fail when it was written.
var fewestReads = deep.Or(130, 530)

// TestReadFaults runs every command, once for each read of its capture: that read fails, or all from that one on. The command must end
// with one line and status 3, keep the old output, and leave nothing else. It may also succeed, with the whole output. Each command
// has other reads: a fourth of them, or all.
func TestReadFaults(t *testing.T) {
	printed, written := commandLines(t)
	for _, format := range formats.All() {
		printed = append(printed, "info "+answer.Quoted(absolute(t, "../../testdata/"+ofFormats[format.Name])))
	}
	t.Setenv("TMPDIR", t.TempDir())
	points := map[string]int{}
	for n, args := range append(printed, written...) {
		fields := append(words(t, args), "--quiet")
		i := slices.IndexFunc(fields, filepath.IsAbs)
		if i < 0 {
			continue // help
		}
		data, err := os.ReadFile(fields[i])
		if err != nil {
			t.Fatal(err)
		}
		fields[i] = "-"
		run := func(fails int, forever bool) (in *failingReader, stdout, stderr string, status int, left map[string]string) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("out", []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			in = &failingReader{from: bytes.NewReader(data), fails: fails, forever: forever}
			var out, message bytes.Buffer
			status = runIn(context.Background(), in, &out, &message, append([]string{"memlane"}, fields...))
			left = contents(t, ".")
			maps.Copy(left, contents(t, os.TempDir()))
			return in, out.String(), message.String(), status, left
		}
		all, whole, stderr, status, files := run(0, false)
		if status != 0 {
			t.Fatalf("memlane %s: status %d: %s", args, status, stderr)
		}
		for k := 1; k <= all.reads; k++ {
			if (k+n)%deep.Or(4, 1) != 0 {
				continue
			}
			for _, forever := range []bool{false, true} {
				_, stdout, stderr, status, left := run(k, forever)
				failed := stdout == "" && status == statusInput && strings.HasPrefix(stderr, "memlane: -: ") && strings.HasSuffix(stderr, "input/output error\n") &&
					strings.Count(stderr, "\n") == 1 && len(left) == 1 && left["out"] == "old"
				if !failed && (status != 0 || stdout != whole || !maps.Equal(left, files)) {
					t.Errorf("memlane %s, read %d of %d (and later ones: %v): status %d, %q; %d bytes on standard output, leaves %d files",
						args, k, all.reads, forever, status, stderr, len(stdout), len(left))
				}
				points[fields[0]]++
			}
		}
	}
	sum := 0
	for _, n := range points {
		sum += n
	}
	t.Logf("%d reads failed, by command: %v", sum, points)
	if sum < fewestReads {
		t.Errorf("%d reads failed, want at least %d", sum, fewestReads)
	}
}

// failingReader is a reader whose read number fails fails, and if forever, all later ones.
type failingReader struct {
	from         io.Reader
	reads, fails int
	forever      bool
}

func (r *failingReader) Read(b []byte) (int, error) {
	if r.reads++; r.reads == r.fails || r.forever && r.reads > r.fails {
		return 0, &os.PathError{Op: "read", Path: "hidden", Err: syscall.EIO}
	}
	return r.from.Read(b)
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
