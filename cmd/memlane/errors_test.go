package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/pickletest"
)

// TestErrors checks that an error prints nothing on standard output and one line on
// standard error, and causes the right exit status.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"empty":          "",
		"text":           "Dear diary, this is not a capture.\n",
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
		{"nosuch", 2, `unknown command "nosuch"; see memlane --help`},
		{"leak good", 2, `unknown command "leak"; did you mean leaks\?; see memlane --help`},
		{"help nosuch", 2, `unknown command "nosuch"`},
		{"man nosuch", 2, `unknown page "nosuch"; the pages are .*faq`},
		{"man faq oom", 2, `man takes one page \(got 2\)`},
		{"help exprot", 2, `did you mean export\?`},
		{"completion", 2, `completion: no shell given; use bash, zsh, fish or powershell`},
		{"completion pwsh", 2, `completion "pwsh": use bash, zsh, fish or powershell`},
		{"completion bsh", 2, `did you mean bash\?`},
		{"--json info good", 2, `--json: put flags after the command: memlane info --json; see memlane --help`},
		{"info", 2, `info: no capture given; see memlane info --help`},
		{"--space=cuda:* info", 2, `--space=cuda:\*: put flags after the command: memlane info --space GLOB;`},
		{"--nosuch info", 2, `memlane has no flag --nosuch; see memlane --help`},
		{"info --nosuch good", 2, `memlane info has no flag --nosuch; see memlane info --help`},
		{"info good --nosuch", 2, `memlane info has no flag --nosuch`},
		{"info good --sapce x", 2, `memlane info has no flag --sapce; did you mean --space\?; see`},
		{"info good --vi\x1b[31m", 2, `memlane info has no flag --vi\?\[31m;`},
		{"info --- good", 2, `memlane info has no flag --;`},
		{"info good --space", 2, `--space needs a value: --space GLOB; see memlane info --help`},
		{"info good --json=perhaps", 2, `--json takes no value \(got "perhaps"\)`},
		{"info --max-memory lots good", 2, `--max-memory "lots": use a size such as 2GiB`},
		{"info --max-memory 4KiB good", 3, `good: it does not fit in the 4.00 KiB of --max-memory: .* are taken so far`},
		{"leaks --max-memory 4KiB good", 3, `good: it does not fit in the 4.00 KiB of --max-memory`},
		{"info --space [ good", 2, `--space "\[": use a pattern such as 'cuda:\*'; a \[ needs a closing \]`},
		{"peak --function ( good", 2, `--function "\(": missing closing \) near "\("; use a regular expression such as 'train_step\|evaluate'`},
		{"leaks --function a**b good", 2, `--function "a\*\*b": .* near .*; use a regular expression`},
		{"diff good", 2, `diff takes two captures, BEFORE and AFTER \(got 1\); see memlane diff --help`},
		{"diff --fail-on peek>+5% good good", 2, `use new-leak, or peak, .*; did you mean peak\?`},
		{"report --json --format sarif good", 2, `--json and --format sarif contradict each other; give one of them`},
		{"export --to xprof.memory_viewer good", 4, `good: no compiled program, which xprof.memory_viewer needs`},
		{"serve --http 127.0.0.1:99999 good", 5, `--http 127.0.0.1:99999: address 99999: invalid port`},
		{"info --input-format pickle good", 2, `--input-format "pickle": use torch-snapshot, xplane,`},
		{"info - -", 2, `standard input can be read only once`},
		{"peak --at noon good", 2, `--at "noon": use peak, end, oom, a duration`},
		{"peak --at 5s good", 2, `good: --at 5s: the recording of cuda:0 is 1.82 ms long`},
		{"peak --at -5ms good", 2, `--at "-5ms": use peak, end, oom, a duration`},
		{"peak --at 5ms clockless", 2, `clockless: --at "5ms": cuda:0 has no clock; use .* or the number of an event`},
		{"peak --at 7 good", 2, `good: --at 7: the recording of cuda:0 is 1.82 ms long; give a duration since its beginning with a unit: 7ms`},
		{"peak --at peek good", 2, `did you mean peak\?`},
		{"peak --by sites good", 2, `name or holder; did you mean line\?`},
		{"whatif --set batch=2,chekpoint=blocks good", 2, `did you mean checkpoint\?`},
		{"whatif --set narow=params* good", 2, `did you mean narrow\?`},
		{"whatif --set checkpoint=block good", 2, `use blocks, every:N such as every:2, .*module:\*.mlp\n$`},
		{"export --to svgg good", 2, `; did you mean memlane svg\?`},
		{"report --format jsn good", 2, `; did you mean --json\?`},
		{"svg --view timeline good", 2, `--view "timeline": use blocks, peak or usage\n$`},
		{"leaks --threshold critical_byte=1GiB good", 2, `; did you mean critical_bytes\?`},
		{"diff --fail-on peek>5% good good", 2, `; did you mean peak\?`},
		{"ops", 2, `ops: no capture given; see memlane ops --help`},
		{"ops --sort size good", 2, `--sort "size": use calls, memory or time`},
		{"ops --space cuda:0 good", 2, `memlane ops has no flag --space; see`},
		{"svg", 2, `svg: no capture given`},
		{"svg --view peak good good", 2, `svg --view peak takes one capture \(got 2\)`},
		{"svg --layout address good good", 2, `svg --layout address takes one capture \(got 2\)`},
		{"svg --view pie good", 2, `--view "pie": use blocks`},
		{"svg --view bloks good", 2, `--view "bloks": use blocks, peak or usage; did you mean blocks\?`},
		{"svg --view good", 2, `--view "good": use blocks`}, // without a value
		{"svg --layout x good", 2, `--layout "x": use address or stacked`},
		{"svg --color x good", 2, `--color "x": use category, leak, site or size`},
		{"leaks --rules gpumem good", 2, `--rules "gpumem": use default, gpumemprof or stormlog; did you mean gpumemprof\?`},
		{"leaks --fail-on waring good", 2, `--fail-on "waring": use critical, warning or info, or a rule from memlane leaks --list-rules; did you mean warning\?`},
		{"report --format md good", 2, `--format "md": use text, markdown, `},
		{"pprof", 2, `pprof: no capture given`},
		{"pprof --at 1ms,2ms good", 2, `--at "1ms,2ms": use peak, end, oom, a duration`},
		{"export good", 2, `export: no format given; use --to, for example --to json; see memlane export --help`},
		{"export --to x good", 2, `--to "x": use native, json, `},
		{"export --to json good good", 2, `export takes one capture \(got 2\)`},

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

		{"ops good", 4, `good: no operations; only traces of the PyTorch profiler have them`},

		{"export --to json -o no/such/dir good", 5, `-o no/such/dir: cannot create a file in no.such: no such file .*; give -o a file in an existing folder with write permission`},
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
			t.Errorf("memlane %s: prints\n%swant %s", c.args, stderr, c.message)
		}
	}
}

func TestFlagsFirst(t *testing.T) {
	app := newApp(nil, nil, nil)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"--help", "help"},
		{"nosuch a --json", "nosuch a --json"},
		{"info", "info --"},
		{"info a b", "info -- a b"},
		{"info a --json", "info --json -- a"},
		{"info --json a", "info --json -- a"},
		{"info a --help b", "help info"},
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

// TestHelp checks that every command has examples, and that no line is wider than a terminal. A command's own flags stand
// once and first, with all descriptions in one column; what most commands have is described on one page.
func TestHelp(t *testing.T) {
	app := newApp(nil, nil, nil)
	overview := succeed(t, "--help")
	pages := map[string]string{"": succeed(t), "--help": overview, "help": succeed(t, "help"), "help info": succeed(t, "help", "info")}
	for _, command := range app.Commands {
		page := succeed(t, command.Name, "--help")
		pages[command.Name+" --help"], pages[command.Name+" a -h"] = page, succeed(t, command.Name, "a", "-h")
		own, shared := flagsOf(flagUses(app), command)
		for i, d := range append(own, shared...) {
			if d.doc == "" || strings.Contains(d.doc, `default: "`) || strings.Contains(d.doc, "default: default") || strings.HasPrefix(d.doc, d.name[strings.LastIndex(d.name, " ")+1:]) {
				t.Errorf("%s: %s: %s", command.Name, d.name, d.doc)
			}
			where := page
			if i >= len(own) {
				where = overview
			}
			rows := regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(d.name)+`(\s+)\S`).FindAllStringSubmatch(where, -1)
			if len(rows) != 1 || len(d.name) < flagColumn-2 && len(rows[0][1]) != flagColumn-2-len(d.name) {
				t.Errorf("%s: %s is described %d times, or not in its column:\n%s", command.Name, d.name, len(rows), where)
			}
		}
	}
	for args, page := range pages {
		if !strings.Contains(page, "Examples:\n") {
			t.Errorf("memlane %s: no examples", args)
		}
		for line := range strings.Lines(page) {
			if len(line) > 81 {
				t.Errorf("memlane %s: too wide: %s", args, line)
			}
		}
	}
}

// TestHelpExamples runs the memlane part of the examples in every command's help, on
// captures with those names. The captures may lack the requested data: status 4.
func TestHelpExamples(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{
		"snapshot.pickle": "torchsnap/leak_4mib_20steps.pickle", "before.pickle": "torchsnap/pair_before.pickle", "after.pickle": "torchsnap/pair_after.pickle",
		"old.pickle": "torchsnap/pair_before.pickle", "new.pickle": "torchsnap/pair_after.pickle", "trace.json": "chrome/cpu_leak.json.gz",
		"trace.json.gz": "chrome/cpu_leak.json.gz", "rank0.json": "chrome/cpu_leak.json.gz", "rank1.json": "chrome/cpu_leak.json.gz",
		"host.xplane.pb": "xplane/tf_leak.xplane.pb", "step.hlo.pb": "xplane/jax_donate.jit_donated.hlo.pb", "results.json": "gpumemprof/both.json",
		"train.log": "oomtext/wrapped.log",
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
			if args[0] == "mcp" { // it reads no capture from standard input
				continue
			}
			if args[0] == "serve" { // serve does not end
				args[0] = "info"
				args = slices.DeleteFunc(args, func(arg string) bool {
					return slices.Contains([]string{"--http", "localhost:8080", "--no-browser"}, arg)
				})
			}
			_, stderr, status := memlane(string(snapshot), args...)
			switch {
			case status == statusUsage && strings.Contains(stderr, "the recording of"): // --at is after the end of this capture
			case status == statusUsage || status == statusInput || status == statusOutput:
				t.Errorf("memlane %s: status %d: %s", line, status, stderr)
			}
		}
		if n == 0 {
			t.Errorf("memlane %s --help has no example that begins with memlane", command.Name)
		}
	}
}

// firstCommand splits a line as a shell does, up to a pipe or redirection. It does not
// expand patterns, because memlane does.
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
