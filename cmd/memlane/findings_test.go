package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	findingHead   = regexp.MustCompile(`^(info|warning|critical)  \w`)
	behindTheText = regexp.MustCompile(`^(    |  >|  stack |  and )`)
)

// TestShortFindings checks that on 80 columns the text of a finding takes at most three
// lines, and its advice one.
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
		text := succeed(t, "leaks", "--threshold", "limit_bytes=64MiB", file)
		for _, paragraph := range strings.Split(text, "\n\n") {
			lines := strings.Split(strings.TrimSuffix(paragraph, "\n"), "\n")
			if !findingHead.MatchString(lines[0]) {
				continue
			}
			findings++
			text := 0
			for text+1 < len(lines) && !behindTheText.MatchString(lines[text+1]) {
				text++
			}
			if last := lines[len(lines)-1]; text < 1 || text > 3 || strings.Count(paragraph, "\n  > ") > 1 || strings.HasPrefix(last, "    ") && strings.Contains(paragraph, "\n  > ") {
				t.Errorf("%s:\n%s", file, paragraph)
			}
		}
	}
	if findings < 100 {
		t.Errorf("only %d findings", findings)
	}
}
