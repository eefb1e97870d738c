package laws

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/text"
)

// impossible matches values that cannot be: negative times since the beginning, instants before it, and sizes and times
// with four digits where the next unit has three.
var impossible = regexp.MustCompile(`\+-|\b(event|instruction) -|\b[1-9]\d{3} ([KMGTP]iB|ms|µs)\b|\bNaN\b|\bInf\b`)

// TestTexts: no text about a capture has an impossible value.
func TestTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkTexts(t, subjectOf("", judge.Of(anyCapture(t, usual)))) })
}

func checkTexts(t fataler, of *subject) {
	var out bytes.Buffer
	answers := answer.NewLeaks([]answer.CaptureLeaks{of.leaks()}, &answer.Ranks{}, nil)
	info := answer.Info{Captures: []answer.Capture{of.info()}}
	if text.Leaks(&out, answers, false, text.Style{}) != nil || text.Info(&out, &info, nil, text.Style{}) != nil {
		t.Fatalf("%s: not written", of.file)
	}
	for line := range strings.Lines(out.String()) {
		if impossible.MatchString(line) {
			t.Fatalf("%s: %s", of.file, line)
		}
	}
}

// TestNothingRecorded: a device without any record gets no advice for others.
func TestNothingRecorded(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "f", Format: "torch-snapshot", Traits: lifetime.Traits{Advice: "call something"}})
	b.Describe(b.Space(), lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got := answer.LeaksOf(judge.Of(c), "").Notes
	if len(got) != 1 || got[0] != "cuda:0: nothing was recorded here: no allocation, and no live buffer" {
		t.Errorf("%q", got)
	}
}
