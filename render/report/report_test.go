package report_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/report"
)

// leaking is a capture whose function of a hostile name leaks, and one beside it.
func leaking(t *testing.T, name string) *lifetime.Capture {
	t.Helper()
	b := lifetime.NewBuilder()
	b.Source(lifetime.Source{File: name + ".pickle"})
	s := b.Space()
	site := func(function string) lifetime.SiteID {
		return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{
			b.Frame(lifetime.Frame{Function: function, File: name, Line: 1}), b.Frame(lifetime.Frame{Function: "main", File: "main.py", Line: 2}),
		})})
	}
	hostile, beside, work := site(name), site("beside"), site("work")
	for step := range int64(60) {
		t := 100 * step
		b.Mark(s, lifetime.Mark{Begin: t + 1, End: t + 90, Kind: lifetime.Step, Text: "step"})
		b.Alloc(s, t+2, uint64(3*step)<<20, 1<<20, 1<<20, hostile)
		b.Alloc(s, t+3, uint64(3*step+1)<<20, 1<<19, 1<<19, beside)
		b.Alloc(s, t+4, uint64(3*step+2)<<20, 1<<20, 1<<20, work)
		b.Free(s, t+5, uint64(3*step+2)<<20, 1<<20, 0)
	}
	b.Describe(s, lifetime.Space{Device: "cuda:0", Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dataOf(captures ...*lifetime.Capture) *report.Data {
	d := &report.Data{Captures: captures, Rules: "default"}
	for _, c := range captures {
		d.Findings = append(d.Findings, leak.Find(c, c.Spaces, leak.Settings{}))
	}
	d.Report = report.Of(d)
	return d
}

// TestHostileNames: nothing in a capture becomes a heading, a link, a row, HTML or a
// control sequence.
func TestHostileNames(t *testing.T) {
	name := "f|x](http://evil.example) <img src=x onerror=alert(1)>\n# heading\x1b[2J `code` **b** @team \u202e"
	var text strings.Builder
	if err := report.WriteMarkdown(&text, dataOf(leaking(t, name))); err != nil {
		t.Fatal(err)
	}
	got := text.String()
	for _, bad := range []string{"<img", "\x1b", "\u202e", "x](", "http://", "\n# heading", " `code`", " **b**", " @team"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q stands in the report", bad)
		}
	}
	for _, line := range strings.Split(got, "\n") { // a row has as many columns as its table
		if strings.HasPrefix(line, "| warning") && len(regexp.MustCompile(`(^|[^\\])\|`).FindAllString(line, -1)) != 8 {
			t.Errorf("columns: %s", line)
		}
	}
}

// TestFirst: leaks of one cause are one thing to do, and cost once.
func TestFirst(t *testing.T) {
	d := dataOf(leaking(t, "a"), leaking(t, "b"))
	if len(d.Findings[0]) != 2 || len(d.First(3)) != 2 {
		t.Errorf("%d findings, %d things to do", len(d.Findings[0]), len(d.First(3)))
	}
	if s := d.Report.OptimizationScore; s.Score != 70 || s.IssuesFound != 4 {
		t.Errorf("%+v", s)
	}
	if s := d.Report.Summary; s.TotalFunctionCalls != 360 || s.TotalFunctionsAnalyzed != 6 || s.TotalMemoryAllocated != 2*60*(5<<19) {
		t.Errorf("%+v", s)
	}
}
