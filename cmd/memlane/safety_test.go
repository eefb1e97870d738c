package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/text"
)

// nasty is a name with escape sequences, C1 controls, a bell, a carriage return, a second
// line, reversed writing direction, markup, and bytes that are not UTF-8.
const nasty = "a\x1b[31;1mred\x1b]0;title\x07\r\nmemlane: b\u009b2J\x7f\u202egnirts\u2066</title><script>&amp;\"'\xff"

// TestNamesCannotActOnATerminal checks that output contains only printable text, whatever
// the names in a capture or on the command line are.
func TestNamesCannotActOnATerminal(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	// The file name is hostile too, if the file system accepts it.
	evil := "x\x1b[31m\n\u202e.pickle"
	if err := os.WriteFile(evil, leaky(nasty, "/src/"+nasty+".py"), 0o666); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile("cut\x1b", leaky(nasty, nasty)[:2500], 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"info", evil}, {"info", "--json", evil}, {"leaks", evil}, {"leaks", "--json", evil},
		{"peak", evil}, {"peak", "--json", evil}, {"svg", evil}, {"export", "--to", "native", evil}, {"export", "--to", "json", evil},
		{"info", "cut\x1b"}, {"leaks", "cut\x1b"},
		{"info", "--strict", "cut\x1b"},
		{"info", "missing" + nasty}, {"nosuch" + nasty}, {"info", "--no" + nasty}, {"info", "--space", nasty, evil},
		{"info", "--input-format", nasty, evil}, {"peak", "--at", nasty, evil}, {"export", "--to", nasty, evil},
		{"svg", "-o", "no" + nasty + "/x", evil}, {"help", nasty},
	} {
		stdout, stderr, status := memlane("", args...)
		printableOnly(t, args, stdout)
		printableOnly(t, args, stderr)
		if n := strings.Count(stderr, "\n"); n > 1 || status != 0 && n != 1 {
			t.Errorf("memlane %q: %d lines on standard error:\n%q", args, n, stderr)
		}
		if status != 0 && stdout != "" {
			t.Errorf("memlane %q: status %d, and prints\n%s", args, status, stdout)
		}
	}
	// JSON keeps the original names.
	findings := decode[answer.Leaks](t, succeed(t, "leaks", "--json", evil)).Findings
	if len(findings) != 1 || findings[0].Site.Function != strings.ToValidUTF8(nasty, "\ufffd") || findings[0].File != evil {
		t.Errorf("the names of JSON are not those of the capture: %+v", findings)
	}
	// The reader of a profile escapes the names itself.
	succeed(t, "pprof", "-o", "out.pb.gz", evil)
	// Text shows the name on one line.
	text := succeed(t, "leaks", evil)
	if !strings.Contains(text, "at …/title><script>") {
		t.Errorf("leaks prints\n%s", text)
	}
}

// TestHostileTextOnTerminals checks that no text of a capture or file name reaches a
// terminal or the log of a pipeline as a command.
func TestHostileTextOnTerminals(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range hostile.Texts {
		if text.Printable(name) == name {
			continue // visible text is not changed
		}
		file := hostileFile(t, name)
		t.Run("", func(t *testing.T) {
			for _, command := range []string{
				"info", "info --json", "leaks --json", "peak", "peak --json", "peak --at oom", "peak --module *", "ops", "ops --json",
				"report", "report --json", "report --format markdown", "report --format sarif", "diff FILE", "diff --json FILE",
				"svg --view peak", "export --to native", "export --to csv --table stacks",
				// Hostile text in arguments.
				"info --space TEXT", "info --module TEXT", "peak --at TEXT", "peak --from TEXT", "info --input-format TEXT", "export --to TEXT", "svg --color TEXT", "svg -o TEXT/TEXT/x", "diff --fail-on TEXT FILE",
				"leaks --rules TEXT", "leaks --function TEXT", "info --max-memory TEXT", "peak --category TEXT", "info TEXT", "info --TEXT", "info --json=TEXT", "TEXT", "help TEXT", "serve --http TEXT", "serve --no-browser TEXT/x",
			} {
				args := strings.Fields(command)
				for i := range args {
					args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i], "TEXT", name), "FILE", file)
				}
				if args[0] != name && args[0] != "help" {
					args = append(args, file)
				}
				stdout, stderr, _ := memlane("", args...)
				for _, out := range []string{stdout, stderr} {
					printableOnly(t, args, out)
					for line := range strings.Lines(out) {
						if args[0] != "export" && args[0] != "svg" && (strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[")) {
							t.Errorf("memlane %q: GitHub takes for a command: %q", args, line)
						}
					}
				}
			}
		})
	}
}

// hostileFile writes a hostile capture. Its name is the text, without the characters that
// file systems reject.
func hostileFile(t *testing.T, text string) string {
	t.Helper()
	name := strings.NewReplacer("/", "", "\x00", "").Replace(text)
	name = strings.TrimLeft(name[:min(len(name), 200)], "-.")
	var b strings.Builder
	if err := native.Write(&b, hostile.Capture(text)); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(name, []byte(b.String()), 0o666)
	if err != nil { // this system accepts only text as a name
		name = "capture"
		err = os.WriteFile(name, []byte(b.String()), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func printableOnly(t *testing.T, args []string, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("memlane %q: prints invalid UTF-8", args)
	}
	for i, r := range text {
		if r != '\n' && r != '\u00a0' && !unicode.IsPrint(r) { // U+00A0 is harmless
			t.Errorf("memlane %q: prints %U: %q", args, r, text[max(0, i-40):min(len(text), i+40)])
			return
		}
	}
}

// TestProgress checks that nothing is shown in the first second, then one line that fits
// the terminal and is cleared.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, file: "dir/" + strings.Repeat("long\x1b", 99), size: 1000}
	p.started = time.Now().Add(time.Hour)
	p.add(250)
	p.clear()
	if out.Len() > 0 {
		t.Errorf("a quick read shows %q", out.String())
	}
	p.started = time.Now().Add(-2 * time.Second)
	p.add(250)
	p.add(250) // too soon after the last
	if got := out.String(); !strings.HasPrefix(got, "\r\033[Kreading long?long?") || !strings.HasSuffix(got, ": 50 % of 1000 B, 2s left") || len(got) > 80 {
		t.Errorf("shows %q", got)
	}
	out.Reset()
	p.clear()
	if got := out.String(); got != "\r\033[K" {
		t.Errorf("clears with %q", got)
	}

	// The size is unknown or wrong, or nothing was read yet.
	for _, size := range []int64{0, 100} {
		out.Reset()
		p = &progress{out: &out, file: "-", size: size, started: time.Now().Add(-2 * time.Second)}
		p.add(0)
		p.shown = time.Time{}
		p.add(250)
		if got := out.String(); got != "\r\033[Kreading -: 0 B\r\033[Kreading -: 250 B" {
			t.Errorf("size %d: shows %q", size, got)
		}
	}
}

// TestWidth checks that text fits a terminal.
func TestWidth(t *testing.T) {
	fits := func(args ...string) {
		for line := range strings.Lines(onTerminal(t, append(args, "--quiet")...)) {
			if n := utf8.RuneCountInString(line) - 1; n > 80 {
				t.Errorf("memlane %s: %d columns: %s", strings.Join(args, " "), n, line)
			}
		}
	}
	snapshotFiles, traceFiles := pickles(t), traces(t)
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(snapshots)
	for _, command := range []string{"info", "leaks", "peak"} {
		for _, file := range snapshotFiles {
			fits(command, filepath.Base(file))
		}
	}
	t.Chdir(filepath.Join(root, "../../testdata/chrome"))
	for _, command := range []string{"info", "leaks", "peak", "ops"} {
		for _, file := range traceFiles {
			fits(command, filepath.Base(file))
		}
	}
}
