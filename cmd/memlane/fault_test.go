//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render"
)

// commandLines returns command lines for all forms of output: printed on standard output,
// and written to a file with -o. They are quoted for a shell.
func commandLines(t *testing.T) (printed, written []string) {
	absolute := func(file string) string { return answer.Quoted(absolute(t, file)) }
	snapshot := absolute(snapshots + "/small_leak_cycles.pickle")
	failed := absolute(snapshots + "/frag_oom.pickle")
	trace := absolute("../../testdata/chrome/cpu_leak.json.gz")
	profile := absolute("../../testdata/xplane/tf_leak.xplane.pb")
	program := absolute("../../testdata/xplane/padded.hlo.pb")
	for _, command := range []string{"info", "leaks", "peak", "report", "diff " + snapshot, "ops", "oom", "tune", "whatif"} {
		capture := snapshot
		switch command {
		case "ops":
			capture = trace
		case "oom":
			capture = failed
		}
		printed = append(printed, command+" "+capture, command+" --json "+capture)
	}
	for _, command := range []string{"svg", "pprof", "svg " + snapshot, "svg --view usage", "leaks --list-rules", "leaks --rules gpumemprof", "info " + snapshot, "brief"} {
		printed = append(printed, command+" "+snapshot)
	}
	for _, format := range reportFormats {
		flag := "--format " + format.name
		if format.name == jsonReport {
			flag = "--json"
		}
		printed = append(printed, "report "+flag+" "+snapshot, "diff "+flag+" "+snapshot+" "+snapshot)
	}
	for _, e := range render.Exports {
		capture := snapshot
		switch e.Needs {
		case render.Reports:
			capture = profile
		case render.Program:
			capture = program
		}
		printed = append(printed, "export --to "+e.Name+" "+capture)
		written = append(written, "export -o out --to "+e.Name+" "+capture)
	}
	for _, name := range []string{"out.svg", "out.png", "out.pdf"} {
		written = append(written, "svg -o "+name+" "+snapshot)
		if name != "out.svg" && !deep.Is() {
			continue // the same writer for all views
		}
		written = append(written, "svg --view usage -o "+name+" "+snapshot, "svg --view peak -o "+name+" "+program,
			"svg -o "+name+" "+snapshot+" "+snapshot, "diff -o "+name+" "+snapshot+" "+snapshot)
	}
	for _, name := range []string{"out", "out.md", "out.json", "out.svg", "out.png"}[:deep.Or(4, 5)] {
		written = append(written, "tune -o "+name+" "+snapshot)
	}
	for _, name := range []string{"out", "out.json"} {
		written = append(written, "whatif -o "+name+" "+snapshot)
	}
	for _, name := range []string{"out", "out.md", "out.json", "out.html", "out.sarif"} {
		written = append(written, "report -o "+name+" "+snapshot, "diff -o "+name+" "+snapshot+" "+snapshot)
	}
	return append(printed, "--help", "help info", "info --help"),
		append(written, "pprof -o out.pb.gz "+snapshot, "pprof --at 10us -o out.pb.gz "+snapshot, "diff -o out.pb.gz "+snapshot+" "+snapshot)
}

var noRoom = regexp.MustCompile(`^memlane: -o out\S*: file too large\n$`)

// TestNoRoom checks that every command reports a full disk in one line, with status 5. A
// file gets its name only when it is complete.
func TestNoRoom(t *testing.T) {
	printed, written := commandLines(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range printed {
		var stderr bytes.Buffer
		status := run(strings.NewReader(""), full, &stderr, append([]string{"memlane"}, words(t, args)...))
		if status != statusOutput || stderr.String() != "memlane: standard output: no space left on device\n" {
			t.Errorf("memlane %s > /dev/full: status %d, %q", args, status, stderr.String())
		}
	}

	if testing.CoverMode() != "" {
		t.Skip("a program that counts what it reaches writes a file of its own")
	}
	for i := range written {
		written[i] += " --quiet"
	}
	// Programs of this shell cannot write a single byte to a file.
	for i, d := range runLines(t, exec.Command("sh", "-c", "ulimit -f 0; exec memlane-lines"), written) {
		if d.Status != statusOutput || !noRoom.Match(d.Stderr) || len(d.Stdout) > 0 {
			t.Errorf("memlane %s on a full disk: status %d, %q, %q", written[i], d.Status, d.Stderr, d.Stdout)
		}
		if len(d.Left) > 0 {
			t.Errorf("memlane %s on a full disk leaves %s", written[i], d.Left)
		}
	}
}

// TestClosedFolder checks the error for an output in a folder without write permission.
func TestClosedFolder(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.WriteFile(filepath.Join(closed, "probe"), nil, 0o666) == nil {
		t.Skip("it may be written into: by root, or on Windows")
	}
	file := filepath.Join(closed, "out.svg")
	_, stderr, status := memlane("", "svg", "--quiet", "-o", file, filepath.Join(snapshots, "twodev.pickle"))
	want := "memlane: -o " + file + ": cannot create a file in " + closed + ": permission denied; give -o a file in an existing folder with write permission\n"
	if status != statusOutput || stderr != want {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestSurroundings checks that language, time zone and environment do not change the
// output.
func TestSurroundings(t *testing.T) {
	printed, _ := commandLines(t)
	cmd := exec.Command("memlane-lines")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8", "LANGUAGE=tr", "TZ=Asia/Kathmandu", "TERM=dumb", "COLUMNS=20",
		"NO_COLOR=1", "HOME=/nonexistent", "TMPDIR=/nonexistent", "GODEBUG=", "LC_NUMERIC=de_DE.UTF-8"}
	for i, d := range runLines(t, cmd, printed) {
		if want := succeed(t, words(t, printed[i])...); d.Status != statusOK || string(d.Stdout) != want {
			t.Errorf("memlane %s: status %d, and writes other bytes in Turkey:\n%.200s\nwant\n%.200s", printed[i], d.Status, d.Stdout, want)
		}
	}
}

// TestNamesOfFiles uses every kind of file name that the system accepts.
func TestNamesOfFiles(t *testing.T) {
	data, err := os.ReadFile(snapshots + "/small_leak_cycles.pickle")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var names []string
	for _, name := range []string{"-dash", "--json", "two words", " ", "line\nbreak", "\x1b[31mred", "no\xffUTF-8\xfe", "*.pickle", "[a", "a?b", `back\slash\*`, "ünï 训练", strings.Repeat("n", 255),
		strings.Repeat("deep/", 500) + "file"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Logf("%q: %v", name, err) // the file system rejects the name
			continue
		}
		names = append(names, name)
	}
	want := succeed(t, "export", "--to", "csv", "--", names[0])
	for _, name := range names {
		if got := succeed(t, "export", "--to", "csv", "--", name); got != want {
			t.Errorf("%q gives another table", name)
		}
		folder := filepath.Join("folder", name)
		if err := os.MkdirAll(filepath.Join(folder, "in"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(absolute(t, name), filepath.Join(folder, "c.pickle")); err != nil {
			t.Fatal(err)
		}
		if got := succeed(t, "export", "--to", "csv", "--", folder); got != want {
			t.Errorf("a folder called %q gives another table", name)
		}
		out := name + ".out"
		if len(filepath.Base(out)) > 255 {
			out = name[:251] + ".out"
		}
		succeed(t, "export", "--to", "csv", "-o", out, "--", name)
		if got, err := os.ReadFile(out); err != nil || string(got) != want {
			t.Errorf("-o %q: another table (%v)", out, err)
		}
	}
	stdout, stderr, status := memlane("", "two words")
	if want := "two words: torch-snapshot, "; status != statusOK || !strings.HasPrefix(stdout, want) {
		t.Errorf("a capture in the place of the command: status %d, %q, %q", status, stdout, stderr)
	}
	_, stderr, status = memlane("", "info", strings.Repeat("deep/", 2000)+"file")
	if status != statusInput || !strings.HasSuffix(stderr, ": file name too long\n") {
		t.Errorf("a name that is too long: status %d, %.100q", status, stderr)
	}
}
