package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// actionScript returns the script of the step "Compare" of action.yml and the
// defaults of the inputs by the variables that the step gives it.
func actionScript(t *testing.T) (script string, defaults map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Using string
			Steps []struct {
				Name, Shell, Run string
				Env              map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &action); err != nil || action.Runs.Using != "composite" {
		t.Fatalf("%q, %v", action.Runs.Using, err)
	}
	defaults = map[string]string{}
	for _, step := range action.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("step %q has an expression in its script: its text would be run", step.Name)
		}
		if step.Name != "Compare" {
			continue
		}
		script = step.Run
		for name, from := range step.Env {
			input := strings.TrimSuffix(strings.TrimPrefix(from, "${{ inputs."), " }}")
			if _, known := action.Inputs[input]; !known {
				t.Errorf("%s is %q, which is no input", name, from)
			}
			defaults[name] = action.Inputs[input].Default
		}
	}
	if script == "" || len(defaults) != len(action.Inputs) {
		t.Fatalf("script %q with %d of %d inputs", script, len(defaults), len(action.Inputs))
	}
	return script, defaults
}

// TestAction runs the script of action.yml as a runner does, with captures whose
// names a shell could take for commands or options.
func TestAction(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, in which runners run steps")
	}
	script, defaults := actionScript(t)
	const base, capture = "-base $(touch ran).pickle", "this `touch ran`;'\".pickle"
	for _, c := range []struct {
		name, before, after, failOn string
		status                      int
		output, summary             string
	}{
		{"a new leak", "leak_loss_fixed", "leak_loss", "", statusFound, `(?m)^::`, `(?m)^## New findings$`},
		{"no change", "leak_loss_fixed", "leak_loss_fixed", "", statusOK, ``, `No call site changed`},
		{"a gate of one's own", "leak_loss_fixed", "leak_loss", "\nallocated>+1000TiB\n", statusOK, `(?m)^::`, `(?m)^## New findings$`},
		{"gates with blanks, of Windows", "leak_loss_fixed", "leak_loss", " \r\n  allocated > +1000 TiB \r\n\t\r\nend>+1%\r\n", statusFound, `end>\+1%: end of cuda:0 grew`, `(?m)^## New findings$`},
		{"a gate that does not exist", "leak_loss_fixed", "leak_loss", "$(touch ran)", statusUsage, `touch ran`, `^earlier\n$`},
		{"no base yet", "", "leak_loss", "", statusOK, `(?m)^::warning title=memlane::no capture of the base branch`, `leak`},
		{"no capture", "leak_loss_fixed", "", "", statusInput, `no such file`, `^earlier\n$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, from := range map[string]string{base: c.before, capture: c.after} {
				if from == "" {
					continue
				}
				data, err := os.ReadFile(filepath.Join(snapshots, from+".pickle"))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
					t.Skip(err) // names that this system does not have
				}
			}
			env := maps.Clone(defaults)
			env["BASE"], env["CAPTURE"] = base, capture
			if c.failOn != "" {
				env["FAIL_ON"] = c.failOn
			}
			summary := filepath.Join(dir, "summary")
			if err := os.WriteFile(summary, []byte("earlier\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			env["GITHUB_STEP_SUMMARY"], env["RUNNER_TEMP"] = summary, dir
			cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
			cmd.Dir, cmd.Env = dir, os.Environ()
			for _, name := range slices.Sorted(maps.Keys(env)) {
				cmd.Env = append(cmd.Env, name+"="+env[name])
			}
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("status %d, want %d: %v\n%s", got, c.status, err, out)
			}
			if !regexp.MustCompile(c.output).Match(out) {
				t.Errorf("output %q", out)
			}
			if text, err := os.ReadFile(summary); err != nil || !strings.HasPrefix(string(text), "earlier\n") || !regexp.MustCompile(c.summary).Match(text) {
				t.Errorf("the summary says %q, %v", text, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("a name was run")
			}
		})
	}
}
