package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/memlane/memlane/docs/manual"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/loss"
	failures "github.com/memlane/memlane/lifetime/oom"
	render "github.com/memlane/memlane/render/text"
)

// manualFolder contains the pages of the manual.
const manualFolder = "../../docs/manual"

// markdown returns the names of the README, the skills for agents and the pages of the manual.
func markdown(t *testing.T) []string {
	pages, err := filepath.Glob(manualFolder + "/*.md")
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	skills, err := filepath.Glob("../../docs/skill/*/SKILL.md")
	if err != nil || len(skills) < 4 {
		t.Fatalf("%d skills: %v", len(skills), err)
	}
	return slices.Concat([]string{"../../README.md"}, skills, pages)
}

// block is a fenced block of a page.
type block struct {
	language string
	lines    []string
}

// fencedBlocks returns the fenced blocks of a page.
func fencedBlocks(t *testing.T, page string) (all []block) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !fenced:
			all = append(all, block{language: language})
			fenced = true
		case fence:
			fenced = false
		case fenced:
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		}
	}
	if fenced {
		t.Fatalf("%s: a block does not end", page)
	}
	return all
}

// example is a command of the manual or the README, with its output.
type example struct {
	command string
	output  []string
}

// examples returns the commands of a page: lines that begin with "$ ", and the lines below
// them while a quotation is open. The output ends at the next command or at the end of
// the block.
func examples(t *testing.T, page string) (all []example) {
	for _, b := range fencedBlocks(t, page) {
		var current *example
		for _, line := range b.lines {
			command, begins := strings.CutPrefix(line, "$ ")
			switch {
			case begins:
				all = append(all, example{command: command})
				current = &all[len(all)-1]
			case current == nil:
			case strings.Count(current.command, `"`)%2 == 1:
				current.command += "\n" + line
			default:
				current.output = append(current.output, line)
			}
		}
	}
	return all
}

// long matches the examples that take seconds each: only MEMLANE_DEEP=1 runs them.
var long = regexp.MustCompile(`^memlane whatif --search .*/h100_fit\.`)

// TestExamples runs every command of the manual and the README. Each page runs in its own
// folder with testdata in it. A line "..." stands for any number of lines.
func TestExamples(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]example{}
	for _, page := range markdown(t) {
		pages[page] = examples(t, page)
	}
	pictures, commands := map[string]bool{}, 0
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			file := filepath.Join(root, "cmd/memlane", page)
			dir := t.TempDir()
			if err := os.Symlink(filepath.Join(root, "testdata"), filepath.Join(dir, "testdata")); err != nil {
				t.Skip(err) // no symbolic links here
			}
			if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			for _, e := range pages[page] {
				commands++
				t.Run(e.command, func(t *testing.T) {
					if long.MatchString(e.command) && !deep.Is() && !*update {
						t.Skip("set MEMLANE_DEEP=1")
					}
					got := runExample(t, e.command)
					if *update {
						e.write(t, file, got)
					} else {
						e.check(t, got)
					}
				})
			}
			// Commands of the manual write the pictures in docs.
			made, err := filepath.Glob("docs/*")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range made {
				pictures[name] = true
				samePicture(t, name, filepath.Join(root, name))
			}
		})
	}
	t.Logf("%d commands", commands)
	there, err := filepath.Glob("../../docs/*.svg")
	if err != nil || commands > 0 && len(there) != len(pictures) {
		t.Errorf("%d pictures in docs, %d commands that make them (%v)", len(there), len(pictures), err)
	}
}

// samePicture compares a picture with the one in docs.
func samePicture(t *testing.T, made, want string) {
	have, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(want, have, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(want); err != nil || !bytes.Equal(have, there) {
		t.Errorf("%s is not what the manual's command makes (%v): -update makes it again", made, err)
	}
}

// words splits a command as a shell does. It supports the syntax that the manual uses.
func words(t *testing.T, command string) (all []string) {
	t.Helper()
	word, quote, any, escaped := "", rune(0), false, false
	for _, c := range command {
		switch {
		case escaped:
			word += string(c)
			escaped = false
		case quote == 0 && c == '\\':
			escaped = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, any = c, true
		case quote == 0 && unicode.IsSpace(c):
			if word != "" || any {
				all = append(all, word)
			}
			word, any = "", false
		case quote == 0 && strings.ContainsRune("|<>;&$`*", c):
			t.Fatalf("do not know what %q means in %q", c, command)
		default:
			word += string(c)
		}
	}
	if quote != 0 {
		t.Fatalf("a quotation does not end in %q", command)
	}
	if word != "" || any {
		all = append(all, word)
	}
	return all
}

// runExample returns the output of a command on a terminal, and the exit status if the
// command prints it.
func runExample(t *testing.T, command string) string {
	t.Helper()
	command, status := strings.CutSuffix(command, "; echo $?")
	args := words(t, strings.TrimPrefix(command, "go run ./cmd/"))
	switch args[0] {
	case "memlane":
		var out terminal
		got := run(strings.NewReader(""), &out, &out, args)
		if status {
			fmt.Fprintln(&out, got)
		} else if got != 0 {
			t.Fatalf("status %d: %s", got, &out)
		}
		return out.String()
	case "go":
		return string(goTool(t, args[2:]...))
	case "duckdb": // -csv -c QUERY
		return strings.Join(duckdb(t, args[len(args)-1]), "\n")
	case "benchstat":
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skip("no benchstat here (go install golang.org/x/perf/cmd/benchstat@latest)")
		}
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	t.Fatalf("do not know how to run %q", command)
	return ""
}

// blanksAtEnd matches blanks at the end of lines, which are invisible.
var blanksAtEnd = regexp.MustCompile(`(?m)[ \t]+$`)

func (e example) check(t *testing.T, got string) {
	t.Helper()
	rest := strings.TrimRight(blanksAtEnd.ReplaceAllString(got, ""), "\n") + "\n"
	pieces := strings.Split("\n"+blanksAtEnd.ReplaceAllString(strings.Join(e.output, "\n"), "")+"\n", "\n...\n")
	for i, piece := range pieces {
		piece = strings.TrimPrefix(piece+"\n", "\n")
		piece = strings.TrimRight(piece, "\n") + "\n"
		last := i == len(pieces)-1
		at := strings.Index("\n"+rest, "\n"+piece)
		switch {
		case piece == "\n": // the example begins or ends with "..."
			if rest == "" && last {
				t.Errorf("nothing follows where the example has ...")
			}
			continue
		case last && i > 0:
			at = strings.LastIndex("\n"+rest, "\n"+piece)
		}
		if at < 0 || i == 0 && at > 0 || last && at+len(piece) < len(rest) {
			t.Errorf("prints\n%s\nthe example has\n%s", got, strings.Join(e.output, "\n"))
			return
		}
		rest = rest[at+len(piece):]
	}
}

// write replaces the output of an example. If it contains "...", write keeps the number of
// lines before and after it.
func (e example) write(t *testing.T, file, got string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(blanksAtEnd.ReplaceAllString(got, ""), "\n"), "\n")
	if cut := slices.Index(e.output, "..."); cut >= 0 {
		after := max(len(lines)-(len(e.output)-cut-1), min(cut, len(lines)))
		lines = slices.Concat(lines[:min(cut, len(lines))], []string{"..."}, lines[after:])
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := func(output []string) string { return "$ " + e.command + "\n" + strings.Join(append(output, ""), "\n") }
	cuts := len(e.output) - len(slices.DeleteFunc(slices.Clone(e.output), func(line string) bool { return line == "..." }))
	if len(e.output) == 0 || cuts > 1 || strings.Count(string(text), block(e.output)) != 1 {
		e.check(t, got)
		return
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), block(e.output), block(lines), 1)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestPython parses the Python code of the manual, and runs the sessions with pandas.
func TestPython(t *testing.T) {
	if exec.Command("python3", "-c", "").Run() != nil {
		t.Skip("no Python here")
	}
	pandas := exec.Command("python3", "-c", "import pandas, pyarrow").Run() == nil
	var sources [][2]string // a page and its code
	sessions := 0
	for _, page := range markdown(t) {
		for _, b := range fencedBlocks(t, page) {
			code := strings.Join(b.lines, "\n") + "\n"
			switch b.language {
			case "python":
				if strings.HasPrefix(code, ">>>") { // a session with the package, which python/tests runs
					continue
				}
				sources = append(sources, [2]string{page, code})
			case "pycon":
				sessions++
				t.Run("pandas", func(t *testing.T) {
					if !pandas {
						t.Skip("no pandas here, or no pyarrow")
					}
					session(t, code)
				})
			}
		}
	}
	in, err := json.Marshal(sources)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("python3", "-c", "import ast, json, sys\nfor page, code in json.load(sys.stdin): ast.parse(code, page)")
	command.Stdin = bytes.NewReader(in)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(sources) < 10 || sessions == 0 {
		t.Errorf("%d pieces of Python, %d sessions", len(sources), sessions)
	}
}

// TestDyingProgram runs what README.md and the quick start say to record with, in a program that fails: the snapshot is written.
func TestDyingProgram(t *testing.T) {
	if exec.Command("python3", "-c", "").Run() != nil {
		t.Skip("no Python here")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, plain, _ := strings.Cut(string(readme), "\n# PyTorch\n")
	plain, _, _ = strings.Cut(plain, "\n\n")
	for _, code := range []string{plain, strings.Join(fencedBlocks(t, manualFolder+"/pytorch.md")[0].lines, "\n")} {
		const program = `
import sys
from unittest import mock
torch = sys.modules["torch"] = mock.MagicMock()
dies = mock.Mock(side_effect=ZeroDivisionError)
try:
    exec(sys.stdin.read(), {"torch": torch, "train": dies, "train_step": dies, "batches": [1]})
except ZeroDivisionError:
    torch.cuda.memory._record_memory_history.assert_called_once()
    torch.cuda.memory._dump_snapshot.assert_called_once_with("snapshot.pickle")
else:
    sys.exit("the program did not fail")
`
		command := exec.Command("python3", "-c", program)
		command.Stdin = strings.NewReader(code)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, code)
		}
	}
}

// TestFirstLines checks that a page answers at its begin: a command, a table or code is in its first ten lines.
func TestFirstLines(t *testing.T) {
	answers := regexp.MustCompile("(?m)^(```|\\|---|    )|`memlane")
	for _, page := range markdown(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfterN(string(text), "\n", 11)
		if begin := strings.Join(lines[:min(10, len(lines))], ""); !answers.MatchString(begin) {
			t.Errorf("%s begins without an answer:\n%s", page, begin)
		}
	}
}

// session runs a session of Python on the tables of the manual.
func session(t *testing.T, code string) {
	dir := t.TempDir()
	for _, table := range []string{"buffers", "usage"} {
		succeed(t, "export", "--to", "parquet", "--table", table, "-o", filepath.Join(dir, table+".parquet"), pickles(t)["leak_loss"])
	}
	file := filepath.Join(dir, "session.txt")
	if err := os.WriteFile(file, []byte(code), 0o666); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("python3", "-m", "doctest", file)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inline  = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// TestLinks checks that the links of Markdown files lead to files and headings.
func TestLinks(t *testing.T) {
	evidence, err := filepath.Glob("../../docs/evidence/*.md")
	if err != nil || len(evidence) == 0 {
		t.Fatalf("%d pages of evidence: %v", len(evidence), err)
	}
	files := append(markdown(t), evidence...)
	for _, name := range []string{"CHANGELOG.md", "CONTRIBUTING.md", "testdata/README.md", "docs/tasks.md", "docs/dependencies.md"} {
		files = append(files, "../../"+name)
	}
	n := 0
	for _, file := range files {
		text, _ := prose(t, file)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			n++
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s leads nowhere", file, m[1])
			} else if anchor != "" {
				if _, anchors := prose(t, path); !anchors[anchor] {
					t.Errorf("%s: %s leads to no heading", file, m[1])
				}
			}
		}
	}
	if n < 80 {
		t.Errorf("only %d links were found", n)
	}
}

// prose returns a page without code, and the anchors that GitHub gives its headings.
func prose(t *testing.T, file string) (text string, anchors map[string]bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	fenced := false
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced {
			kept.WriteString(line)
		}
	}
	anchors = map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(kept.String(), -1) {
		var anchor strings.Builder
		for _, c := range strings.ToLower(m[1]) {
			switch {
			case c == ' ':
				anchor.WriteByte('-')
			case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
				anchor.WriteRune(c)
			}
		}
		name := anchor.String()
		for i := 1; anchors[name]; i++ {
			name = fmt.Sprintf("%s-%d", anchor.String(), i)
		}
		anchors[name] = true
	}
	return inline.ReplaceAllString(kept.String(), ""), anchors
}

// TestCommandsPage checks that commands.md equals the reference that memlane man writes.
func TestCommandsPage(t *testing.T) {
	want := commandsMarkdown(newApp(nil, nil, nil))
	file := filepath.Join(manualFolder, commandsPage+".md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != want {
		t.Errorf("commands.md is not what the commands are now (%v): run go test ./cmd/memlane -run TestCommandsPage -update, and read it", err)
	}
}

// TestPagesListed checks that the first page names every page.
func TestPagesListed(t *testing.T) {
	front := manual.Text(manual.Front)
	files, err := fs.Glob(manual.Pages, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".md")
		if row := fmt.Sprintf("| [%s](%s) |", name, file); name != manual.Front && !strings.Contains(front, row) {
			t.Errorf("README.md of the manual does not list %s", name)
		}
	}
}

// TestMan formats every manual page with groff and mandoc. It fails for warnings and for
// lines longer than 80 columns.
func TestMan(t *testing.T) {
	pages := append([]string{""}, manual.Names()...)
	_, noGroff := exec.LookPath("groff")
	_, noMandoc := exec.LookPath("mandoc")
	if noGroff != nil && noMandoc != nil {
		t.Log("neither groff nor mandoc here: only the source was checked")
	}
	for _, name := range pages {
		t.Run(name, func(t *testing.T) {
			args := []string{"man"}
			if name != "" {
				args = append(args, name)
			}
			page := succeed(t, args...)
			if !strings.Contains(page, "\n.SH NAME\nmemlane") && !strings.Contains(page, "\n.SH NAME\n\nmemlane") {
				t.Errorf("no NAME:\n%.300s", page)
			}
			for _, markup := range []string{"](", "|---", "```", "\n| "} {
				if strings.Contains(page, markup) {
					t.Errorf("Markdown is left: %q", markup)
				}
			}
			if name != "" {
				text := manual.Text(name)
				plain := manual.Plain(name, "", text, render.Wrap)
				for _, markup := range []string{"](", "|---", "```", "\n| ", "\n#"} {
					if strings.Contains(plain, markup) {
						t.Errorf("Markdown is left on a terminal: %q", markup)
					}
				}
				for line := range strings.Lines(plain) {
					if utf8.RuneCountInString(line) > 81 {
						t.Errorf("too wide for a terminal: %s", line)
					}
				}
				for line := range strings.Lines(text) {
					if heading, is := strings.CutPrefix(line, "## "); is && !strings.Contains(plain, "\n"+strings.ReplaceAll(heading, "`", "")) {
						t.Errorf("%s is missing on a terminal", heading)
					}
				}
				rows := strings.Count(text, "\n|") - 2*strings.Count(text, "\n|---")
				if n := strings.Count(page, "\n.TP\n"); n != rows {
					t.Errorf("%d entries of lists, %d rows of tables", n, rows)
				}
			}
			if noGroff == nil {
				formatted := format(t, page, "groff", "-ww", "-Kutf8", "-Tutf8", "-P-c", "-P-b", "-P-o", "-P-u", "-man")
				for line := range strings.Lines(formatted) {
					if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
						t.Errorf("%d columns: %s", n, line)
					}
				}
			}
			if noMandoc == nil { // go test builds without a date, so the page has none
				format(t, strings.Replace(page, ` "" memlane`, ` "2026-01-02" memlane`, 1), "mandoc", "-Tlint", "-Wwarning")
			}
		})
	}
}

// format runs a formatter on a page. It fails if the formatter prints warnings.
func format(t *testing.T, page string, command ...string) string {
	t.Helper()
	var out, errors bytes.Buffer
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(page), &out, &errors
	if err := c.Run(); err != nil || errors.Len() > 0 {
		t.Errorf("%s: %v\n%s%.2000s", command[0], err, errors.String(), out.String())
	}
	return out.String()
}

// quoted matches the keys of each format in the source of its reader.
var quoted = map[string]struct {
	file string
	keys *regexp.Regexp
}{
	"torch-snapshot": {"torchsnap/keys.go", regexp.MustCompile(`key\w+: "(\w+)"`)},
	"chrome-trace":   {"chrometrace/internal/scan/keys.go", regexp.MustCompile(`"([A-Za-z_ ]+)"`)},
	"xplane":         {"xplane/event.go", regexp.MustCompile(`"([a-z_]+)":`)},
	"gpumemprof":     {"gpumemprof/record.go", regexp.MustCompile(`json:"(\w+)"`)},
}

// TestDocumentedFormats checks that formats.md documents exactly the keys of the readers.
func TestDocumentedFormats(t *testing.T) {
	sections := strings.Split(manual.Text("formats"), "\n## ")
	for name, reader := range quoted {
		source, err := os.ReadFile("../../formats/" + reader.file)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, name+"\n") })
		if i < 0 {
			t.Errorf("formats.md has no section %s", name)
			continue
		}
		documented := map[string]bool{}
		for _, m := range inline.FindAllString(sections[i], -1) {
			documented[strings.Trim(m, "`")] = true
		}
		known := map[string]bool{}
		for _, m := range reader.keys.FindAllStringSubmatch(string(source), -1) {
			known[m[1]] = true
			if !documented[m[1]] && m[1] != "Input dims" { // formats.md documents "Input Dims"
				t.Errorf("formats.md, %s: does not document %q", name, m[1])
			}
		}
		if len(known) < 4 {
			t.Errorf("%s: only %d keys were found", name, len(known))
		}
		for line := range strings.Lines(sections[i]) {
			cell, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
			if !row || !strings.HasPrefix(line, "| `") {
				continue
			}
			for _, m := range inline.FindAllString(cell, -1) {
				if key := strings.Trim(m, "`"); !known[key] && !strings.Contains(string(source), key) && !inReader(t, reader.file, key) {
					t.Errorf("formats.md, %s: the reader does not know %q", name, key)
				}
			}
		}
	}
}

// inReader reports whether a reader mentions a key outside its list.
func inReader(t *testing.T, file, key string) bool {
	folder, _, _ := strings.Cut(file, "/")
	files, err := filepath.Glob("../../formats/" + folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && !strings.HasSuffix(file, "_test.go") && bytes.Contains(source, []byte(`"`+key+`"`))
	})
}

// TestDocumentedRules checks that leaks.md has every rule with its kind, its silence and
// its advice, and every cause.
func TestDocumentedRules(t *testing.T) {
	page := manual.Text("leaks")
	sections := regexp.MustCompile(`(?m)^##+ `).Split(page, -1)
	lacks := func(name, page, row string) {
		if !strings.Contains(page, row) {
			t.Errorf("%s.md lacks\n%s", name, row)
		}
	}
	for _, r := range finding.Rules() {
		lacks("leaks", page, fmt.Sprintf("\n| [%s](#%s) | %s | %s |\n", r.Name, r.Name, r.Kind, r.Doc))
		i := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, r.Name+"\n") })
		if i < 0 || !strings.Contains(sections[i], "\n- Silent: ") || !strings.Contains(sections[i], "\n- Do: ") {
			t.Errorf("leaks.md lacks Silent or Do of %s", r.Name)
		}
	}
	for c := finding.FailedAllocations; c <= finding.Concatenation; c++ {
		lacks("leaks", page, fmt.Sprintf("\n| `%s` | %s | %s |\n", c, c.Doc(), c.Advice()))
	}
	for _, r := range failures.Reasons() {
		lacks("json", manual.Text("json"), fmt.Sprintf("\n| `%s` | %s |\n", r, r.Words()))
	}
}

// TestDocumentedLosses checks that reference.md has every loss reason, in the words of info.
func TestDocumentedLosses(t *testing.T) {
	page := manual.Text(backPage)
	for r := loss.Reason(0); r <= loss.ManyBuffers; r++ {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", r, r.Class(), r.Doc()); !strings.Contains(page, row) {
			t.Errorf("reference.md lacks\n%s", row)
		}
	}
}
