package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/pickletest"
)

// TestErrors: whatever goes wrong, nothing is printed on standard output, one
// line on standard error, and the status says whose fault it is.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"empty":          "",
		"text":           "Dear diary, this is no capture.\n",
		"page.json":      `{"a": 1}`,
		"zip":            "PK\x03\x04 and so on",
		"import.pickle":  "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
		"nothing.pickle": string(pickletest.Pickle(dict{"segments", list{}, "device_traces", list{}})),
		"bad.gz":         "\x1f\x8b\x08\xff nonsense",
		"bad.native":     "memlane native 2\nnonsense\n",
		"clockless": "memlane native 2\nsource format=\"native\" producer=\"\"\n" +
			`space source=0 device="cuda:0" axis="event" begin=0 end=+2 limit=0 base=0 allocations=0 frees=0 facts="history"` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	good, err := os.ReadFile(filepath.Join(snapshots, "twodev.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"good": good, "cut": good[:5000]} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, c := range []struct {
		args    string
		status  int
		message string // a regular expression
	}{
		{"nosuch", 2, `no command is called "nosuch"; see memlane --help`},
		{"leak good", 2, `no command is called "leak"; did you mean leaks\?; see memlane --help`},
		{"good", 2, `no command is called "good"; to see what is in a capture: memlane info good`},
		{"help nosuch", 2, `no command is called "nosuch"`},
		{"man nosuch", 2, `no page is called "nosuch"; there are: .*faq`},
		{"man faq oom", 2, `man: want one page, got 2`},
		{"help exprot", 2, `did you mean export\?`},
		{"completion", 2, `completion: no shell given; want bash, zsh, fish or powershell`},
		{"completion pwsh", 2, `completion "pwsh": want bash, zsh, fish or powershell`},
		{"completion bsh", 2, `did you mean bash\?`},
		{"--json info good", 2, `--json: flags stand behind the command, as in memlane info --json; see memlane --help`},
		{"info", 2, `info: no capture given; see memlane info --help`},
		{"--space=cuda:* info", 2, `--space=cuda:\*: flags stand behind the command, as in memlane info --space GLOB;`},
		{"--nosuch info", 2, `--nosuch: memlane has no such flag; see memlane --help`},
		{"info --nosuch good", 2, `--nosuch: memlane info has no such flag; see memlane info --help`},
		{"info good --nosuch", 2, `--nosuch: memlane info has no such flag`},
		{"info good --sapce x", 2, `--sapce: memlane info has no such flag; did you mean --space\?; see`},
		{"info good --vi\x1b[31m", 2, `--vi\?\[31m: memlane info has no such flag`},
		{"info --- good", 2, `-: memlane info has no such flag`},
		{"info good --space", 2, `--space: want a value, as in --space GLOB; see memlane info --help`},
		{"info good --json=perhaps", 2, `--json: takes no value, but got "perhaps"`},
		{"info --max-memory lots good", 2, `--max-memory "lots": want a size, as 2GiB`},
		{"info --max-memory 4KiB good", 3, `good: it does not fit in the 4.00 KiB of --max-memory: .* are taken so far`},
		{"leaks --max-memory 4KiB good", 3, `good: it does not fit in the 4.00 KiB of --max-memory`},
		{"info --space [ good", 2, `--space "\[": want a pattern, as 'cuda:\*'; a \[ needs its \]`},
		{"peak --function ( good", 2, `--function "\(": want a regular expression, as 'train_step\|evaluate': missing closing \) near "\("`},
		{"leaks --function a**b good", 2, `--function "a\*\*b": want a regular expression`},
		{"svg --max-blocks 0 good", 2, `--max-blocks "0": want a number from 1 on`},
		{"svg --max-blocks many good", 2, `--max-blocks "many": want a number from 1 on`},
		{"diff good", 2, `diff: want two captures, BEFORE and AFTER, got 1; see memlane diff --help`},
		{"diff --fail-on peek>+5% good good", 2, `want new-leak, or peak, .*; did you mean peak\?`},
		{"report --json --format sarif good", 2, `--json and --format sarif contradict each other; give one of them`},
		{"export --to xprof.memory_viewer good", 4, `good: holds no compiled program, which xprof.memory_viewer needs`},
		{"serve --http 127.0.0.1:99999 good", 5, `--http 127.0.0.1:99999: address 99999: invalid port`},
		{"info --input-format pickle good", 2, `--input-format "pickle": want torch-snapshot, xplane,`},
		{"info - -", 2, `standard input can be read only once`},
		{"peak --at noon good", 2, `--at "noon": want peak, end, oom, a duration`},
		{"peak --at 5s good", 2, `good: --at 5s: the recording of cuda:0 is 1.82 ms long`},
		{"peak --at -5ms good", 2, `--at "-5ms": want peak, end, oom, a duration`},
		{"peak --at 5ms clockless", 2, `clockless: --at "5ms": cuda:0 has no clock; want .* or the number of an event`},
		{"peak --at 7 good", 2, `good: --at 7: the recording of cuda:0 is \d+ to \d+`},
		{"ops", 2, `ops: no capture given; see memlane ops --help`},
		{"ops --sort size good", 2, `--sort "size": want calls, memory or time`},
		{"ops --space cuda:0 good", 2, `--space: memlane ops has no such flag; see`},
		{"svg", 2, `svg: no capture given`},
		{"svg --view peak good good", 2, `svg --view peak: want one capture, got 2`},
		{"svg --layout address good good", 2, `svg --layout: want one capture, got 2`},
		{"svg --view pie good", 2, `--view "pie": want blocks`},
		{"svg --view bloks good", 2, `--view "bloks": want blocks, peak or usage; did you mean blocks\?`},
		{"svg --view good", 2, `--view "good": want blocks`}, // its value was forgotten
		{"svg --layout x good", 2, `--layout "x": want address or stacked`},
		{"svg --color x good", 2, `--color "x": want category, leak, site or size`},
		{"leaks --rules gpumem good", 2, `--rules "gpumem": want default, gpumemprof or stormlog; did you mean gpumemprof\?`},
		{"leaks --fail-on waring good", 2, `--fail-on "waring": want critical, warning or info, or a rule that memlane leaks --list-rules has; did you mean warning\?`},
		{"report --format md good", 2, `--format "md": want text, markdown, `},
		{"pprof", 2, `pprof: no capture given`},
		{"pprof --at 1ms,2ms good", 2, `a series needs -o FILE`},
		{"export good", 2, `export: no format given; --to names one, as --to json; see memlane export --help`},
		{"export --to x good", 2, `--to "x": want native, json, `},
		{"export --to json good good", 2, `export: want one capture, got 2`},

		{"info missing", 3, `^memlane: missing: no such file`},
		{"info folder", 3, `folder: is a folder without captures`},
		{"info *.none", 3, `\*\.none: no file matches the pattern`},
		{"info empty", 3, `empty: it is empty: nothing was written, or nothing arrived`},
		{"info -", 3, `-: it is empty`},
		{"leaks text", 3, `text: not a capture .*Dear diary`},
		{"peak page.json", 3, `page.json: not a capture .*JSON`},
		{"svg zip", 3, `zip: not a capture: it is a zip archive`},
		{"pprof import.pickle", 3, `import.pickle: .*byte 14 .*os\.system: refused, not executed; a snapshot is plain data`},
		{"export --to json bad.gz", 3, `bad.gz: damaged gzip`},
		{"info bad.native", 3, `bad.native: line 2`},
		{"info --input-format native good", 3, `good: line 1`},
		{"info good missing", 3, `^memlane: missing: no such file`},
		{"info --strict cut", 3, `cut: truncated: .*byte 5000`},
		{"peak --strict --quiet cut", 3, `cut: truncated: .*byte 5000`},

		{"info nothing.pickle", 4, `nothing.pickle: holds no memory data.*_record_memory_history`},
		{"leaks --json nothing.pickle", 4, `nothing.pickle: holds no memory data`},
		{"peak good nothing.pickle", 4, `nothing.pickle: holds no memory data`},
		{"svg nothing.pickle", 4, `nothing.pickle: holds no memory data`},
		{"pprof nothing.pickle", 4, `nothing.pickle: holds no memory data`},
		{"export --to native nothing.pickle", 4, `nothing.pickle: holds no memory data`},
		{"info --space cuda:9 good", 4, `good: has no memory ID "cuda:9"; its memory IDs: cuda:0, cuda:1`},
		{"peak --at oom good", 4, `good: no allocation failed on cuda:0 in the recording`},

		{"ops good", 4, `good: has no operations: only traces of the PyTorch profiler do`},

		{"export --to json -o no/such/dir good", 5, `-o no/such/dir: no file can be made in no.such: no such file .*; let -o name a file in a folder that is there and that you may write into`},
		{"svg --quiet -o . good", 5, `-o \.: is a directory`},
	} {
		stdout, stderr, status := memlane("", strings.Fields(c.args)...)
		if status != c.status {
			t.Errorf("memlane %s: status %d, want %d", c.args, status, c.status)
		}
		if stdout != "" {
			t.Errorf("memlane %s: prints on standard output:\n%s", c.args, stdout)
		}
		if !strings.HasPrefix(stderr, "memlane: ") || strings.Index(stderr, "\n") != len(stderr)-1 {
			t.Errorf("memlane %s: standard error is not one line:\n%s", c.args, stderr)
		}
		if !regexp.MustCompile(c.message).MatchString(stderr) {
			t.Errorf("memlane %s: says\n%swant %s", c.args, stderr, c.message)
		}
	}
}

func TestFlagsFirst(t *testing.T) {
	app := newApp(nil, nil, nil)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"--help", "--help"},
		{"nosuch a --json", "nosuch a --json"},
		{"info", "info --"},
		{"info a b", "info -- a b"},
		{"info a --json", "info --json -- a"},
		{"info --json a", "info --json -- a"},
		{"info a --help b", "info --help"},
		{"info a -json=false b", "info -json=false -- a b"},
		{"info a --space cuda:* b", "info --space cuda:* -- a b"},
		{"info a --space=cuda:* b", "info --space=cuda:* -- a b"},
		{"info a --space --json b", "info --space --json -- a b"}, // the value is "--json"
		{"info - --quiet", "info --quiet -- -"},
		{"info --json -- -a --quiet", "info --json -- -a --quiet"},
		{"info a -- --quiet", "info -- a --quiet"},
		{"svg a -o -", "svg -o - -- a"},
		{"svg a -o b c", "svg -o b -- a c"},
		{"svg a --output b", "svg --output b -- a"},
		{"peak a --at -5ms", "peak --at -5ms -- a"},
	} {
		args := append([]string{"memlane"}, strings.Fields(c.in)...)
		given := slices.Clone(args)
		sorted, err := flagsFirst(app, args)
		if err != nil {
			t.Fatalf("flagsFirst(%q): %v", c.in, err)
		}
		if got := strings.Join(sorted[1:], " "); got != c.want {
			t.Errorf("flagsFirst(%q) = %q, want %q", c.in, got, c.want)
		}
		if !slices.Equal(args, given) {
			t.Errorf("flagsFirst(%q) changes its arguments", c.in)
		}
	}
}

// TestHelp: every command has examples, and no line is wider than a terminal.
func TestHelp(t *testing.T) {
	pages := [][]string{{}, {"--help"}, {"help"}, {"help", "info"}}
	app := newApp(nil, nil, nil)
	for _, command := range app.Commands {
		pages = append(pages, []string{command.Name, "--help"}, []string{command.Name, "a", "-h"})
		for _, f := range command.Flags {
			if text := f.String(); strings.Contains(text, "default: false") {
				t.Errorf("%s: %s", command.Name, text)
			}
			if d, ok := f.(cli.DocGenerationFlag); !ok || d.GetUsage() == "" {
				t.Errorf("%s: --%s says nothing", command.Name, f.Names()[0])
			}
		}
	}
	for _, args := range pages {
		page := succeed(t, args...)
		if !strings.Contains(page, "Examples:\n") {
			t.Errorf("memlane %s: no examples", strings.Join(args, " "))
		}
		for line := range strings.Lines(page) {
			if len(line) > 81 {
				t.Errorf("memlane %s: too wide: %s", strings.Join(args, " "), line)
			}
		}
	}
}

// TestHelpExamples runs the examples of every command's help, as far as memlane's part
// of a line goes, on captures that have the names in them. What an example asks for
// need not be in those captures: then the status says so.
func TestHelpExamples(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{
		"snapshot.pickle": "torchsnap/leak_4mib_20steps.pickle", "before.pickle": "torchsnap/pair_before.pickle", "after.pickle": "torchsnap/pair_after.pickle",
		"old.pickle": "torchsnap/pair_before.pickle", "new.pickle": "torchsnap/pair_after.pickle", "trace.json": "chrome/cpu_leak.json.gz",
		"trace.json.gz": "chrome/cpu_leak.json.gz", "rank0.json": "chrome/cpu_leak.json.gz", "rank1.json": "chrome/cpu_leak.json.gz",
		"host.xplane.pb": "xplane/tf_leak.xplane.pb", "step.hlo.pb": "xplane/jax_donate.jit_donated.hlo.pb", "results.json": "gpumemprof/both.json",
	} {
		data, err := os.ReadFile(filepath.Join("../../testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := os.ReadFile(filepath.Join(dir, "snapshot.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, command := range newApp(nil, nil, nil).Commands {
		n := 0
		for line := range strings.Lines(command.Description) {
			line, isExample := strings.CutPrefix(strings.TrimRight(line, "\n"), "  memlane ")
			if !isExample {
				continue
			}
			n++
			args := firstCommand(line)
			if args[0] == "serve" { // it would go on
				args[0] = "info"
				args = slices.DeleteFunc(args, func(arg string) bool {
					return slices.Contains([]string{"--http", "localhost:8080", "--no-browser"}, arg)
				})
			}
			_, stderr, status := memlane(string(snapshot), args...)
			switch {
			case status == statusUsage && strings.Contains(stderr, "the recording of"): // of this capture is shorter
			case status == statusUsage || status == statusInput || status == statusOutput:
				t.Errorf("memlane %s: status %d: %s", line, status, stderr)
			}
		}
		if n == 0 {
			t.Errorf("memlane %s --help has no example that begins with memlane", command.Name)
		}
	}
}

// firstCommand splits a line as a shell does, up to where its output goes elsewhere.
// Patterns are memlane's own to match.
func firstCommand(line string) (all []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(line, -1) {
		switch {
		case m[1] != "":
			all = append(all, m[1])
		case m[0] == "|" || m[0] == "||" || m[0] == ">":
			return all
		default:
			all = append(all, m[0])
		}
	}
	return all
}
