package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/nativetest"
	_ "github.com/memlane/memlane/render/tables/parquet"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = nativetest.Update // of testdata/script

func TestMain(m *testing.M) {
	testscript.Main(rare{m}, programs)
}

// rare runs tests with few garbage collections: their captures are small, and collecting as often as the program does takes a fourth of the time.
type rare struct{ *testing.M }

func (r rare) Run() int {
	debug.SetGCPercent(800)
	return r.M.Run()
}

// programs are those that tests run as processes.
var programs = map[string]func(){"memlane": main, "memlane-lines": memlaneLines}

// done is what a command printed, and the files that it left in its folder.
type done struct {
	Stdout, Stderr []byte
	Status         int
	Left           []string
}

// memlaneLines runs the command lines of the standard input in one process, each in a new folder, and prints what they did.
func memlaneLines() {
	var lines [][]string
	here, err := os.Getwd()
	if err := cmp.Or(err, json.NewDecoder(os.Stdin).Decode(&lines)); err != nil {
		panic(err)
	}
	var all []done
	for i, args := range lines {
		dir := filepath.Join(here, fmt.Sprint(i))
		if err := cmp.Or(os.Mkdir(dir, 0o777), os.Chdir(dir)); err != nil {
			panic(err)
		}
		var d done
		var out, message bytes.Buffer
		d.Status = run(strings.NewReader(""), &out, &message, append([]string{"memlane"}, args...))
		d.Stdout, d.Stderr = out.Bytes(), message.Bytes()
		left, err := os.ReadDir(".")
		if err != nil {
			panic(err)
		}
		for _, e := range left {
			d.Left = append(d.Left, e.Name())
		}
		all = append(all, d)
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
}

// runLines runs command lines with a command that starts memlane-lines.
func runLines(t *testing.T, cmd *exec.Cmd, lines []string) (all []done) {
	t.Helper()
	var args [][]string
	for _, line := range lines {
		args = append(args, words(t, line))
	}
	in, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	var message bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = t.TempDir(), bytes.NewReader(in), &message
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil || len(all) != len(lines) {
		t.Fatalf("%d of %d commands: %v: %s", len(all), len(lines), err, &message)
	}
	return all
}

// snapshots is the folder of the PyTorch snapshots.
const snapshots = "../../testdata/torchsnap"

// TestScripts runs testdata/script/*.txtar. Captures are taken from $SNAPSHOTS, $REPLAY, $MEANING and $WHATIF. With MEMLANE_DEEP=1 each
// command is a process.
func TestScripts(t *testing.T) {
	dir, scripts := absolute(t, snapshots), "testdata/script"
	if !deep.Is() && !*update {
		scripts = commandsHere(t, scripts)
		here := absolute(t, ".")
		t.Cleanup(func() { os.Chdir(here) })
	}
	testscript.Run(t, testscript.Params{
		Dir:                 scripts,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SNAPSHOTS", dir)
			e.Setenv("REPLAY", filepath.Join(filepath.Dir(dir), "replay"))
			e.Setenv("MEANING", filepath.Join(filepath.Dir(dir), "meaning"))
			e.Setenv("WHATIF", filepath.Join(filepath.Dir(dir), "whatif"))
			return nil
		},
		Condition: shellThere,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"here":     here,
			"compress": compress,
			"truncate": truncate,
		},
	})
}

// aCommand matches a line that runs the program alone: not in a shell, nor with a standard input or a terminal.
var aCommand = regexp.MustCompile(`(?m)((?:^(?:stdin|ttyin) .*\n)?)^((?:\[.*\] )?(?:! )?)exec memlane `)

// commandsHere copies scripts, with commands that run in this process where that makes no difference, and returns their folder.
func commandsHere(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	copies := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("\nenv ")) { // the variables would be those of all scripts
			text = aCommand.ReplaceAllFunc(text, func(line []byte) []byte {
				if bytes.Contains(line, []byte("\n")) {
					return line
				}
				return bytes.Replace(line, []byte("exec memlane "), []byte("here "), 1)
			})
		}
		if err := os.WriteFile(filepath.Join(copies, filepath.Base(file)), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return copies
}

// folders is held while a command runs here: a process has one current folder.
var folders sync.Mutex

// here runs a command of the program in this process.
func here(ts *testscript.TestScript, neg bool, args []string) {
	folders.Lock()
	defer folders.Unlock()
	ts.Check(os.Chdir(ts.MkAbs(".")))
	status := runIn(context.Background(), strings.NewReader(""), ts.Stdout(), ts.Stderr(), append([]string{"memlane"}, args...))
	if (status != statusOK) != neg {
		ts.Fatalf("memlane %q: status %d", args, status)
	}
}

// TestTrailingBlanks checks that no line of a transcript ends in blanks, which editors
// remove. zsh adds a blank to a completed word.
func TestTrailingBlanks(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		if filepath.Base(file) == "completion-zsh.txtar" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			if n++; strings.TrimRight(line, " \t\r\n")+"\n" != line {
				t.Errorf("%s:%d: %q", file, n, line)
			}
		}
	}
}

// shellThere is the condition [shell:NAME]: the shell is installed. CI requires it.
func shellThere(condition string) (bool, error) {
	name, ok := strings.CutPrefix(condition, "shell:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	_, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "" {
		return false, fmt.Errorf("no %s: .ci/run installs it", name)
	}
	return err == nil, nil
}

// exits runs a command that must end with a status: exits STATUS COMMAND ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND ARG...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || got != want {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// compress writes FILE.gz, FILE.zst and FILE.zst.gz.
func compress(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	for name, data := range map[string][]byte{".gz": gzipped(data), ".zst": zstded(data), ".zst.gz": gzipped(zstded(data))} {
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+name), data, 0o666))
	}
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

func zstded(data []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return z.EncodeAll(data, nil)
}

// truncate keeps the first bytes of a file: truncate FILE BYTES
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// acceptSignals makes this process and its children handle signals that they inherited as
// ignored. Background processes of shells inherit them so.
func acceptSignals(t *testing.T) {
	signals := make(chan os.Signal, 1)
	for s := range endingSignals {
		signal.Notify(signals, s)
	}
	t.Cleanup(func() { signal.Stop(signals) })
}

// memlane runs the program in this process.
func memlane(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	status = run(strings.NewReader(stdin), &out, &err, append([]string{"memlane"}, args...))
	return out.String(), err.String(), status
}

// succeed runs the program and returns its output. It fails if the status is not 0.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := memlane("", args...)
	if status != 0 {
		t.Fatalf("memlane %s: status %d: %s", strings.Join(args, " "), status, stderr)
	}
	return stdout
}

// terminal is a terminal of 80 columns without colours.
type terminal struct{ bytes.Buffer }

func (*terminal) columns() int { return 80 }

// onTerminal is succeed with a terminal as the standard output.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	var out terminal
	var err bytes.Buffer
	if status := run(strings.NewReader(""), &out, &err, append([]string{"memlane"}, args...)); status != 0 {
		t.Fatalf("memlane %s: status %d: %s", strings.Join(args, " "), status, &err)
	}
	return out.String()
}

// argsOf returns the words of a command line, with file in the place of FILE. Its path may have blanks.
func argsOf(line, file string) []string {
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FILE", file)
	}
	return args
}

func absolute(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
