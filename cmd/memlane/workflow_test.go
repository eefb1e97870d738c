package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestWorkflow runs the memlane steps of docs/ci/github.yml as a runner does. A leak on a
// branch fails both gates; no change fails none.
func TestWorkflow(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, in which runners run steps")
	}
	text, err := os.ReadFile("../../docs/ci/github.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before, after string
		failing       string // names of steps
		summary       string
	}{
		{"leak_loss_fixed", "leak_loss", "Look for leaks, Compare with the main branch", `(?m)^## New findings$`},
		{"leak_loss_fixed", "leak_loss_fixed", "", `No call site changed`},
	} {
		dir := t.TempDir()
		for name, from := range map[string]string{"main.pickle": c.before, "this.pickle": c.after} {
			data, err := os.ReadFile(filepath.Join(snapshots, from+".pickle"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		summary := filepath.Join(dir, "summary")
		ran := 0
		var failing []string
		for _, step := range workflow.Jobs["memory"].Steps {
			if !strings.HasPrefix(step.Run, "memlane ") {
				continue
			}
			ran++
			cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GITHUB_STEP_SUMMARY="+summary)
			if out, err := cmd.CombinedOutput(); err != nil {
				failing = append(failing, step.Name)
				if cmd.ProcessState.ExitCode() != statusFound {
					t.Errorf("%s: %v\n%s", step.Name, err, out)
				}
			}
		}
		if got := strings.Join(failing, ", "); got != c.failing {
			t.Errorf("%s -> %s: failing are %q, want %q", c.before, c.after, got, c.failing)
		}
		if text, err := os.ReadFile(summary); err != nil || !regexp.MustCompile(c.summary).Match(text) {
			t.Errorf("%s -> %s: the summary says %q, %v", c.before, c.after, text, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "memory.html")); err != nil {
			t.Error(err)
		}
		if ran != 3 {
			t.Errorf("%d steps call memlane, want 3", ran)
		}
	}
}

// TestPinnedActions checks that workflows run actions of a commit, which nobody can change, and that only jobs that need an identity
// (to sign, or to publish) have one, without commands of their own.
func TestPinnedActions(t *testing.T) {
	for _, name := range []string{".github/workflows/release.yml", "action.yml", "docs/ci/github.yml", "docs/ci/pages.yml"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, uses := range regexp.MustCompile(`uses: .*`).FindAllString(string(text), -1) {
			if !regexp.MustCompile(`^uses: [\w/-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(uses) {
				t.Errorf("%s: %s", name, uses)
			}
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatal(err)
		}
		identity := func(permissions map[string]string) bool {
			return permissions["id-token"] != "" || permissions["attestations"] != ""
		}
		needs := regexp.MustCompile(`^(actions/(attest|deploy-pages)|pypa/)`)
		if identity(workflow.Permissions) {
			t.Errorf("%s: all jobs have an identity", name)
		}
		for job, of := range workflow.Jobs {
			for _, step := range of.Steps {
				if has := identity(of.Permissions); needs.MatchString(step.Uses) && !has || has && step.Run != "" {
					t.Errorf("%s: job %s has %v for %s%s", name, job, of.Permissions, step.Uses, step.Run)
				}
			}
		}
	}
}
