package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/lifetime/answer"
)

var (
	findingHead   = regexp.MustCompile(`^(info|warning|critical)  \w`)
	behindTheText = regexp.MustCompile(`^(    |  >|  stack |  and )`)
)

// TestShortFindings checks that on 80 columns the text of a finding takes at most three
// lines, and its advice one, except that of a failed allocation, which names what to change.
func TestShortFindings(t *testing.T) {
	var files []string
	for _, pattern := range []string{"torchsnap/*.pickle", "labelled/*.zst", "chrome/*_leak.json.gz", "xplane/*.pb"} {
		some, err := filepath.Glob("../../testdata/" + pattern)
		if err != nil || some == nil {
			t.Fatal(pattern, err)
		}
		files = append(files, some...)
	}
	findings := 0
	for _, file := range files {
		text := onTerminal(t, "leaks", "--threshold", "limit_bytes=64MiB", file)
		for _, paragraph := range strings.Split(text, "\n\n") {
			lines := strings.Split(strings.TrimSuffix(paragraph, "\n"), "\n")
			if !findingHead.MatchString(lines[0]) {
				continue
			}
			findings++
			for k := 0; k < 2 && len(lines) > 1 && strings.HasPrefix(lines[1], "         "); k++ { // of a long place
				lines = slices.Delete(lines, 1, 2)
			}
			text := 0
			for text+1 < len(lines) && !behindTheText.MatchString(lines[text+1]) {
				text++
			}
			last, failed := lines[len(lines)-1], strings.Contains(lines[0], "  oom ")
			if text < 1 || text > 3 || strings.Count(paragraph, "\n  > ") > 1 && !strings.Contains(paragraph, "held by") || !failed && strings.HasPrefix(last, "    ") && strings.Contains(paragraph, "\n  > ") {
				t.Errorf("%s:\n%s", file, paragraph)
			}
		}
	}
	if findings < 100 {
		t.Errorf("only %d findings", findings)
	}
}

// TestUnjudged checks that a gate fails, and the report says so, where nothing could be judged.
func TestUnjudged(t *testing.T) {
	for _, file := range []string{"../../testdata/jaxprof/leak_after.memory.prof", "../../testdata/torchsnap/mode_off.pickle"} {
		for _, command := range [][]string{{"leaks", "--fail-on", "warning"}, {"report", "--fail-on", "leak"}, {"diff", "--fail-on", "new-leak", file}} {
			_, stderr, status := memlane("", append(command, "--quiet", file)...)
			if status != statusNothing || !strings.Contains(stderr, "cannot be judged") {
				t.Errorf("%v %s: status %d, %s", command, file, status, stderr)
			}
		}
		if out := decode[answer.Report](t, succeed(t, "report", "--json", "--quiet", file)); !strings.HasPrefix(out.Unjudged, "leaks cannot be judged: ") {
			t.Errorf("%s: unjudged is %q", file, out.Unjudged)
		}
		if text := succeed(t, "report", "--quiet", file); !strings.HasPrefix(text, "No problem was found. ") || !strings.Contains(text, ".\n\n"+file+": leaks cannot be judged\n") {
			t.Errorf("%s: %.100s", file, text)
		}
	}
	succeed(t, "leaks", "--fail-on", "warning", pickles(t)["healthy"])
}

// TestSmallLeaks checks the thresholds below which a leak does not fail a gate.
func TestSmallLeaks(t *testing.T) {
	file := pickles(t)["leak_4mib_20steps"] // 80 MiB, confidence 87 %
	for threshold, want := range map[string]int{"min_leak_bytes=80MiB": statusFound, "min_leak_bytes=81MiB": 0, "min_confidence=0.8": statusFound, "min_confidence=0.9": 0} {
		stdout, stderr, status := memlane("", "leaks", "--fail-on", "warning", "--threshold", threshold, file)
		if status != want || !strings.Contains(stdout, ": 1 leak\n") {
			t.Errorf("%s: status %d, want %d: %s%s", threshold, status, want, stdout, stderr)
		}
	}
	for _, threshold := range []string{"min_confidence=2", "min_leak_bytes=-1", "min_leak_bytes=x"} {
		if _, _, status := memlane("", "leaks", "--threshold", threshold, file); status != statusUsage {
			t.Errorf("%s: status %d", threshold, status)
		}
	}
}

// TestOutputNames checks that a file has the content that its name promises, and is compressed if it ends in .gz.
func TestOutputNames(t *testing.T) {
	dir, file := t.TempDir(), pickles(t)["leak_loss"]
	for _, args := range []string{"svg -o x.jpg", "svg -o x.html", "svg -o x.JSON.gz", "report -o r.pdf", "report -o r.svg", "pprof -o p.svg", "export --to json -o x.csv", "diff -o d.parquet " + file} {
		words := argsOf(strings.Replace(args, "-o ", "-o FILE/", 1), dir)
		_, stderr, status := memlane("", append(words, "--quiet", file)...)
		if status != statusUsage || !strings.Contains(stderr, "does not write") {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	for name, begins := range map[string]string{"r.json.gz": "{\n", "r.md.gz": "# Memory report\n", "r.html.gz": "<!", "r.txt.gz": "Nothing has to be done. If you need room: ", "r.gz": "Nothing has to be done. If you need room: ", "R.MD.GZ": "# Memory report\n", "d.svg.gz": "<svg", "r.json.zst": "{\n", "R.HTML.ZST": "<!", "d.svg.zst": "<svg"} {
		out := filepath.Join(dir, name)
		if strings.HasPrefix(name, "d") {
			succeed(t, "diff", "-o", out, "--quiet", pickles(t)["healthy"], file)
		} else {
			succeed(t, "report", "-o", out, "--quiet", pickles(t)["healthy"])
		}
		in, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		var z io.Reader
		if strings.HasSuffix(strings.ToLower(name), ".zst") {
			z, err = zstd.NewReader(in)
		} else {
			z, err = gzip.NewReader(in)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := io.ReadAll(z)
		in.Close()
		if err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %.40q, %v", name, text, err)
		}
	}
}
