package report_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/report"
)

// checkout makes a repository with code in src/train and a link out of it, and returns its folder.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"main.py", "src/train/lib.py", "src/train/my model (1).py", "tools/bench/run.py"} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("pass\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.py"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	os.Symlink(outside, filepath.Join(root, "away")) // where a system has no links, there is nothing to follow
	return root
}

// TestRepository checks where annotations, SARIF and both Markdown texts say that a leak is: in the same file of the repository, wherever
// it was recorded, or in none.
func TestRepository(t *testing.T) {
	root := checkout(t)
	for _, c := range []struct{ file, caller, here, want string }{
		{root + "/src/train/lib.py", root + "/main.py", "", "src/train/lib.py"},
		{root + "/src/train/gone.py", "/elsewhere/main.py", "", "src/train/gone.py"}, // below the checkout, but not in it now
		{"/app/src/train/lib.py", "/app/main.py", "", "src/train/lib.py"},
		{`C:\app\src\train\lib.py`, `C:\app\main.py`, "", "src/train/lib.py"},
		{"/app/src/train/my model (1).py", "/app/main.py", "", "src/train/my model (1).py"},
		{"/app/train/lib.py", "/app/train/lib.py", "src", "src/train/lib.py"}, // only src was copied to /app
		{"src/train/lib.py", "main.py", "", "src/train/lib.py"},
		{"./run.py", "run.py", "tools/bench", "tools/bench/run.py"},
		{"../bench/run.py", "../bench/run.py", "tools/x", "tools/bench/run.py"},
		{"/other/main.py", "/other/model.py", "", ""}, // another program that also has a main.py
		{"/app/away/secret.py", "/app/away/secret.py", "", ""},
		{"../../etc/passwd", "main.py", "", ""},
		{strings.Repeat("/a", 5000) + "/lib.py", "main.py", "", ""},
	} {
		capture := leaking(t, c.file)
		for i := range capture.Frames {
			if capture.Frames[i].File == "main.py" {
				capture.Frames[i].File = c.caller
			}
		}
		in := report.Repository{Root: root, Here: filepath.Join(root, filepath.FromSlash(c.here)), Web: "https://code.example/o/r/blob/abc"}
		var sarif, log, markdown, compared strings.Builder
		r := reportOf(capture)
		for _, err := range []error{
			report.WriteSARIF(&sarif, report.All(r.Findings), in), report.WriteAnnotations(&log, report.All(r.Findings), in),
			report.WriteMarkdown(&markdown, r, in), report.WriteDiff(&compared, diffOf(mixed(t), capture, false), in),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		uri := (&url.URL{Path: c.want}).EscapedPath()
		link := "[" + report.Escape(c.want+":1") + "](<https://code.example/o/r/blob/abc/" + uri + "#L1>)"
		want := map[string]string{sarif.String(): `"uri": "` + uri + `",`, log.String(): "file=" + c.want + ",line=1,",
			markdown.String(): "\nLine: " + link + "\n", compared.String(): ", in " + link + "\n"}
		for text, want := range want {
			if c.want == "" {
				for _, wrong := range []string{"SRCROOT", "file=", "\nLine:", ", in ["} {
					if strings.Contains(text, wrong) {
						t.Errorf("%s: %q in\n%s", c.file, wrong, text)
					}
				}
			} else if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", c.file, want, text)
			}
		}
		if c.want == "" {
			continue
		}
		var document struct {
			Runs []struct {
				OriginalURIBaseIDs map[string]struct{ URI string }
			}
		}
		if err := json.Unmarshal([]byte(sarif.String()), &document); err != nil {
			t.Fatal(err)
		}
		if base := document.Runs[0].OriginalURIBaseIDs["%SRCROOT%"].URI; !strings.HasPrefix(base, "file:///") || !strings.HasSuffix(base, filepath.Base(root)+"/") {
			t.Errorf("%s: the repository is %q", c.file, base)
		}
	}
}

// TestSARIFSchema checks SARIF against its schema, sarif-schema-2.1.0.json of OASIS, which MEMLANE_SARIF names.
func TestSARIFSchema(t *testing.T) {
	if os.Getenv("MEMLANE_SARIF") == "" {
		t.Skip("MEMLANE_SARIF names no schema")
	}
	schema, err := jsonschema.NewCompiler().Compile(os.Getenv("MEMLANE_SARIF"))
	if err != nil {
		t.Fatal(err)
	}
	root := checkout(t)
	none := report.All(reportOn(mixed(t), []finding.Finding{{Rule: "trend", Space: mixed(t).Spaces[0], Description: "a"}}).Leaks.Findings)
	for _, all := range [][]report.Located{
		nil, none, slices.Concat(none, report.All(reportOf(leaking(t, "/app/src/train/lib.py")).Findings)),
		report.Changes(answer.DiffOf(diff.Compare(judge.Of(leaking(t, `C:\a\b c.py`)), judge.Of(leaking(t, root+"/main.py"))), false)),
	} {
		var text strings.Builder
		if err := report.WriteSARIF(&text, all, report.Repository{Root: root}); err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%v in\n%s", err, text.String())
		}
	}
}
