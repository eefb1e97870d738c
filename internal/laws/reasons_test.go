package laws

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
)

// TestOneReason: leaks, oom, report and the headline of the page give one reason, confidence and advice for each failure, whatever
// the capacity of the device. A leak that kills is not answered with half the batch, and what killed is a leak that is found.
func TestOneReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkReasons(t, subjectOf("", judge.Of(anyCapture(t, usual))), 0) })
}

// checkReasons returns the number of failures in a capture.
func checkReasons(t fataler, of *subject, capacity int64) int {
	limited := func(c *lifetime.Capture) *judge.Capture {
		j := judge.Of(c)
		j.Settings.Limit = capacity
		return j
	}
	c, file, leaks := of.Capture, of.file, of.leaks()
	if capacity > 0 {
		c = limited(of.Capture.Capture)
		leaks = answer.LeaksOf(c, "")
	}
	found := c.Findings()
	all, _ := answer.OOMsOf(limited(c.Capture), c.Spaces)
	if !reflect.DeepEqual(leaks.OOMs, all) {
		t.Fatalf("%s: leaks and oom differ:\n%+v\n%+v", file, leaks.OOMs, all)
	}
	for i := range all {
		if f := &all[i]; f.Reason == string(oom.Leak) && (f.Past != nil || f.Leak == nil) {
			t.Fatalf("%s: a leak filled the memory: %+v, %+v", file, f.Past, f.Leak)
		}
	}
	for i := range leaks.Findings {
		f := &leaks.Findings[i]
		reason, ok := f.Evidence[finding.FigReason.Name]
		if !ok {
			continue
		}
		alone := *c.Capture
		alone.Spaces = []*lifetime.Space{found[i].Space}
		failed, near := answer.OOMsOf(limited(&alone), alone.Spaces)
		failures := append(failed, near...)
		if len(failures) == 0 {
			t.Fatalf("%s: only leaks says %s", file, f.Description)
		}
		if o := &failures[0]; reason != o.Reason || math.Abs(f.Confidence-o.Confidence) > 1e-9 || f.Suggestions[0] != o.Advice || !strings.Contains(f.Description, o.Words) {
			t.Fatalf("%s: leaks says %q, %v, %v, %q; oom %+v", file, f.Description, reason, f.Confidence, f.Suggestions, o)
		}
	}
	if len(all) == 0 || all[0].Reason == "survived" {
		return len(all)
	}
	if line := text.Headline(&answer.CaptureReport{Leaks: answer.CaptureLeaks{OOMs: all}}, nil); !strings.Contains(line, all[0].Advice) {
		t.Fatalf("%s: the headline is %q", file, line)
	}
	var markdown strings.Builder
	part := of.report()
	part.Leaks = leaks
	if err := report.WriteMarkdown(&markdown, reportOf(part), report.Repository{}); err != nil || !strings.Contains(markdown.String(), report.Escape(text.FailureLines(&all[0])[3].Text)) {
		t.Fatalf("%s: the report lacks %q: %v", file, text.FailureLines(&all[0])[3].Text, err)
	}
	return len(all)
}
