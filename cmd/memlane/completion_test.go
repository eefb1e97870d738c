package main

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestCandidates checks the candidates at the cursor. The scripts of the shells are tested
// in testdata/script/completion-*.txtar.
func TestCandidates(t *testing.T) {
	for _, c := range []struct{ line, want string }{ // the cursor is at the end of the last word
		{"inf", "info"},
		{"-", "--help -h --version"},
		{"--quiet i", ""},
		{"nosuch ", ""},
		{"help le", "leaks"},
		{"help leaks ", ""},
		{"completion z", "zsh"},
		{"completion zsh ", ""},
		{"completion --w", ""}, // hidden
		{"svg ", "FILES"},
		{"svg --th", "--theme"},
		{"svg a.pickle -o", "-o"},
		{"svg --theme ", "auto dark light"},
		{"svg --theme l", "light"},
		{"svg --theme=l", "--theme=light"},
		{"svg -theme=l", "-theme=light"},
		{"svg --theme=light ", "FILES"},
		{"svg --theme light ", "FILES"},
		{"svg --quiet=", ""},
		{"svg --nosuch=", ""},
		{"svg --nosuch ", "FILES"},
		{"svg --quiet ", "FILES"},
		{"svg -o ", "FILES"},
		{"svg --output=a", "FILES"},
		{"svg --space ", ""},
		{"svg --theme -- ", "FILES"}, // -- is the value
		{"svg -- --theme ", "FILES"},
		{"svg -- --th", "FILES"},
		{"svg - --th", "--theme"},
		{"leaks --rules s", "stormlog"},
		{"leaks --fail-on w", "warning whole_program"},
		{"diff --fail-on ", "new-leak"},
		{"export --to x", "xprof.memory_profile xprof.memory_viewer"},
		{"export --table s", "sites stacks"},
		{"info --to ", ""},
		{"info --input-format x", "xplane"},
		{"report --format m", "markdown"},
		{"peak --at o", "oom"},
		{"pprof --at o", "oom"},
		{"ops --sort c", "calls"},
		{"info --category o", "output"},
	} {
		words := strings.Split(c.line, " ")
		last := len(words) - 1
		args := append([]string{"completion", "--word=" + words[last], "--"}, words[:last]...)
		stdout, stderr, status := memlane("", args...)
		var got []string
		for line := range strings.Lines(stdout) {
			name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, name)
		}
		if status != 0 {
			got = []string{"FILES"}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q: %q, want %q (%s)", c.line, text, c.want, stderr)
		}
	}
}

// free are the flags that take any value.
var free = map[string]bool{
	"from": true, "space": true, "module": true, "min-size": true, "max-memory": true, "function": true, "threshold": true,
	"rank-from": true, "buffer": true, "width": true, "height": true, "capacity": true, "fraction": true, "scale": true, "http": true, "output": true, "word": true,
	"categories": true, "root": true, "name": true,
}

// TestFlagValues checks that each flag with words accepts the words that it lists.
func TestFlagValues(t *testing.T) {
	for _, command := range newApp(nil, nil, nil).Commands {
		for _, f := range command.Flags {
			name := f.Names()[0]
			choice, ok := f.(wordFlag)
			if _, isSwitch := f.(*cli.BoolFlag); isSwitch || name == "to" && command.Name != "export" {
				continue
			}
			if ok == free[name] {
				t.Errorf("%s --%s: %d words", command.Name, name, len(choice.words))
			}
			for _, w := range choice.words {
				_, stderr, status := memlane("", command.Name, "--"+name, w.name)
				if status != statusUsage || strings.Contains(stderr, "--"+name) && !strings.Contains(stderr, command.Name+":") {
					t.Errorf("%s --%s %s: %s", command.Name, name, w.name, stderr)
				}
			}
		}
	}
}
