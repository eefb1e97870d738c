package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example is a command of the manual or the README and what follows it.
type example struct {
	command string
	output  []string
}

// examples finds the indented or fenced lines that begin with "$ ". Output ends
// at an empty line that is followed by no further output, at the next command
// or at the end of the block.
func examples(text, indent string) []example {
	var all []example
	for _, block := range codeBlocks(text, indent) {
		var current *example
		for _, line := range block {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, example{command: command})
				current = &all[len(all)-1]
			} else if current != nil {
				current.output = append(current.output, line)
			}
		}
	}
	return all
}

// codeBlocks returns the runs of lines that are indented, or fenced when indent is
// "".
func codeBlocks(text, indent string) [][]string {
	var all [][]string
	var block []string
	fenced := false
	for _, line := range append(strings.Split(text, "\n"), "", "end") {
		inside := indent != "" && (strings.HasPrefix(line, indent) || line == "" && block != nil)
		if indent == "" {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			} else {
				inside = fenced
			}
		}
		if inside {
			block = append(block, strings.TrimPrefix(line, indent))
			continue
		}
		for len(block) > 0 && block[len(block)-1] == "" {
			block = block[:len(block)-1]
		}
		if block != nil {
			all = append(all, block)
			block = nil
		}
	}
	return all
}

// TestExamples runs every command of the manual and the README. A line "..."
// stands for further lines.
func TestExamples(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	all := append(examples(string(readme), ""), examples(string(manual), "\t")...)
	if len(all) < 8 {
		t.Fatalf("found %d commands", len(all))
	}
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"testdata"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Skip(err) // no symbolic links here
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, e := range all {
		t.Run(e.command, func(t *testing.T) { e.check(t, runExample(t, e.command)) })
	}
	// The pictures in docs are what the manual's commands make.
	for _, name := range []string{"leak.svg", "leak-dark.svg", "fragmentation.svg", "usage.svg", "peak.svg"} {
		got, err := os.ReadFile(filepath.Join("docs", name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the manual's command makes (%v): make it again", name, err)
		}
	}
}

func runExample(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	if words[0] == "go" && words[1] == "tool" {
		out, err := exec.Command(words[0], words[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	words = strings.Fields(strings.TrimPrefix(command, "go run ./cmd/"))
	if words[0] != "memlane" {
		t.Fatalf("do not know how to run %q", command)
	}
	var stdout, stderr bytes.Buffer
	if status := run(strings.NewReader(""), &stdout, &stderr, words); status != 0 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	return stdout.String()
}

func (e example) check(t *testing.T, got string) {
	t.Helper()
	rest := strings.TrimRight(got, "\n") + "\n"
	pieces := strings.Split("\n"+strings.Join(e.output, "\n")+"\n", "\n...\n")
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
