package report_test

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/text"
)

// leaking is a capture in which a function called name and another function leak.
func leaking(t *testing.T, name string) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: name + ".pickle"})
	s := b.Space()
	site := func(function string) lifetime.SiteID {
		return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{
			b.Frame(frame.Frame{Function: function, File: name, Line: 1}), b.Frame(frame.Frame{Function: "main", File: "main.py", Line: 2}),
		})})
	}
	hostile, beside, work := site(name), site("beside"), site("work")
	for step := range int64(60) {
		t := 100 * step
		b.Mark(s, lifetime.Mark{Begin: t + 1, End: t + 90, Kind: lifetime.Step, Text: "step"})
		b.Alloc(s, t+2, build.Block{Addr: uint64(3*step) << 20, Requested: 1 << 20, Occupied: 1 << 20, Site: hostile})
		b.Alloc(s, t+3, build.Block{Addr: uint64(3*step+1) << 20, Requested: 1 << 19, Occupied: 1 << 19, Site: beside})
		b.Alloc(s, t+4, build.Block{Addr: uint64(3*step+2) << 20, Requested: 1 << 20, Occupied: 1 << 20, Site: work})
		b.Free(s, t+5, build.Block{Addr: uint64(3*step+2) << 20, Requested: 1 << 20, Occupied: 1 << 20})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reportOf returns the report on captures with the default rules.
func reportOf(captures ...*lifetime.Capture) *answer.Report {
	var of []answer.CaptureReport
	for _, c := range captures {
		of = append(of, reportOn(c, nil))
	}
	return answer.NewReport("default", of, &answer.Ranks{}, nil)
}

func diffOf(before, after *lifetime.Capture, perStep bool) *answer.Diff {
	return answer.DiffOf(diff.Compare(judge.Of(before), judge.Of(after)), perStep)
}

// reportOn returns the report on a capture with findings, nil = by the default rules.
func reportOn(c *lifetime.Capture, found []finding.Finding) answer.CaptureReport {
	j := judge.Of(c)
	j.Found = found
	return answer.CaptureReportOf(j, "")
}

// TestHostileNames checks that names in a capture do not become headings, links, rows,
// HTML or control sequences.
func TestHostileNames(t *testing.T) {
	name := "f|x](http://evil.example) <img src=x onerror=alert(1)>\n# heading\x1b[2J `code` **b** @team \u202e"
	var text strings.Builder
	if err := report.WriteMarkdown(&text, reportOf(leaking(t, name)), report.Repository{}); err != nil {
		t.Fatal(err)
	}
	got := text.String()
	for _, bad := range []string{"<img", "\x1b", "\u202e", "x](", "http://", "\n# heading", " `code`", " **b**", " @team"} {
		if strings.Contains(got, bad) {
			t.Errorf("the report contains %q", bad)
		}
	}
	for _, line := range strings.Split(got, "\n") { // a row has as many columns as its table
		if strings.HasPrefix(line, "| warning") && len(regexp.MustCompile(`(^|[^\\])\|`).FindAllString(line, -1)) != 8 {
			t.Errorf("columns: %s", line)
		}
	}
}

// TestFirst checks that the advice is that of the worst finding, and the counts and sums of two captures.
func TestFirst(t *testing.T) {
	graph, err := judged.Open("../../testdata/torchsnap/leak_loss.pickle", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	if got := text.Do(reportOf(graph.Capture)); got != "Call .item() or .detach() on what outlives its step: a loss, a state." {
		t.Errorf("advises %q", got)
	}
	r := reportOf(leaking(t, "a"), leaking(t, "b"))
	if got := strings.Join(text.Verdict(r), "; "); len(r.Findings) != 4 || got != "4 warnings" {
		t.Errorf("%d findings, %q", len(r.Findings), got)
	}
	if s := r.Summary; s.Allocations != 360 || s.Functions != 6 || s.AllocatedBytes != 2*60*(5<<19) {
		t.Errorf("%+v", s)
	}
}

// TestHostileMarkdown checks that hostile names do not change the structure of the report,
// and that it has no mentions or references.
func TestHostileMarkdown(t *testing.T) {
	write := func(name string) (string, string) {
		c := hostile.Capture(name)
		var report1, report2 strings.Builder
		if err := report.WriteMarkdown(&report1, reportOf(c), report.Repository{}); err != nil {
			t.Fatal(err)
		}
		if err := report.WriteDiff(&report2, diffOf(hostile.Capture("other"), c, false), report.Repository{}); err != nil {
			t.Fatal(err)
		}
		return report1.String(), report2.String()
	}
	plain, plainDiff := write("plain")
	wantReport, _ := hostile.Outline(t, plain)
	wantDiff, _ := hostile.Outline(t, plainDiff)
	for _, name := range hostile.Texts {
		one, two := write(name)
		for markdown, want := range map[string]string{one: wantReport, two: wantDiff} {
			got, words := hostile.Outline(t, markdown)
			if got != want && !strings.HasPrefix(name, "%") {
				t.Errorf("%q: the report has the structure\n%s\nwant\n%s\n%s", name, got, want, markdown)
			}
			if found := regexp.MustCompile(`[@#][A-Za-z0-9]`).FindString(html.UnescapeString(words)); found != "" {
				t.Errorf("%q: a code host takes %q for a mention or a reference", name, found)
			}
			for _, r := range markdown {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Errorf("%q: the report contains %U", name, r)
					break
				}
			}
		}
	}
}

// TestHugeNames checks that names of 100,000 characters do not fill the report, and that facts and places stay.
func TestHugeNames(t *testing.T) {
	for _, name := range []string{strings.Repeat("f", 100_000), strings.Repeat("std::pair<int, ", 7_000), "/" + strings.Repeat("folder/", 14_000) + "a.py"} {
		c := leaking(t, "a.py")
		for i := range c.Frames {
			if c.Frames[i].Function == "a.py" {
				c.Frames[i].Function = name
			}
		}
		r, d := reportOf(c), diffOf(mixed(t), c, false)
		var one, two, sarif, log, compared strings.Builder
		for _, err := range []error{report.WriteMarkdown(&one, r, report.Repository{}), report.WriteDiff(&two, d, report.Repository{}), text.Diff(&compared, d, text.Style{}),
			report.WriteSARIF(&sarif, report.All(r.Findings), report.Repository{}), report.WriteAnnotations(&log, report.All(r.Findings), report.Repository{})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, got := range []string{one.String(), two.String(), sarif.String(), log.String(), compared.String()} {
			for line := range strings.Lines(got) {
				if len(line) > 8_000 {
					t.Errorf("%.20s: a line of %d bytes: %.200s", name, len(line), line)
				}
			}
			if !strings.Contains(got, "60 buffers (60.0 MiB) were never freed") || !strings.Contains(got, "(a.py:1)") {
				t.Errorf("%.20s: no fact or place in\n%s", name, got)
			}
		}
	}
}

// TestHostileFindings checks that SARIF is JSON whose addresses are file paths and whose
// messages have no links, and that an annotation is one command in one line.
func TestHostileFindings(t *testing.T) {
	annotation := regexp.MustCompile(`^::(error|warning|notice) (file=[^,:\r\n]*,line=[0-9]+,)?title=[^,:\r\n]*::(.*)$`)
	for _, name := range hostile.Texts {
		all := report.All(reportOf(hostile.Capture(name)).Findings)
		var sarif, log strings.Builder
		if err := report.WriteSARIF(&sarif, all, report.Repository{}); err != nil {
			t.Fatal(err)
		}
		if err := report.WriteAnnotations(&log, all, report.Repository{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range sarif.String() + log.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%q: %U is written", name, r)
				break
			}
		}
		var document struct {
			Runs []struct {
				Results []struct {
					Message   struct{ Text string }
					Locations []struct {
						PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(sarif.String()), &document); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		results := document.Runs[0].Results
		if len(results) != len(all) || len(results) < 3 {
			t.Errorf("%q: %d results of %d findings", name, len(results), len(all))
		}
		for _, r := range results {
			if regexp.MustCompile(`\]\(|(^|[^{])(\{\{)*\{[0-9]+\}([^}]|$)`).MatchString(r.Message.Text) {
				t.Errorf("%q: the message has a link or a placeholder: %s", name, r.Message.Text)
			}
			for _, l := range r.Locations {
				address := l.PhysicalLocation.ArtifactLocation.URI
				u, err := url.Parse(address)
				if err != nil || u.Scheme != "" && u.Scheme != "file" || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(address, " <>\"{}|\\^`") {
					t.Errorf("%q: the address %q is not only a path (%v)", name, address, err)
				}
			}
		}
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if len(lines) != len(all) {
			t.Errorf("%q: %d annotations of %d findings", name, len(lines), len(all))
		}
		for _, line := range lines {
			m := annotation.FindStringSubmatch(line)
			if m == nil || regexp.MustCompile(`%(?:$|[^2]|2[^5])`).MatchString(m[3]) || strings.Contains(line, "##[") {
				t.Errorf("%q: the annotation %q", name, line)
			}
		}
	}
}

// mixed is a capture with everything in a report except leaks: bytes from before the
// window, a stack outside the heap, all kinds of sites, programs and a loss.
func mixed(t *testing.T) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "mixed.pb"})
	s := b.Space()
	for i, site := range []lifetime.Site{{}, {Op: "MatMul", Shape: "[2]"}, {Instr: "add.1"}, {Op: "a"}, {Op: "b"}, {Op: "c"}} {
		b.Alloc(s, int64(10+i), build.Block{Addr: uint64(i+1) << 20, Requested: int64(6-i) << 10, Occupied: int64(6-i) << 10, Site: b.Site(site)})
	}
	b.StackReserved(s, 10, 9<<10)
	b.Total(s, lifetime.Total{T: 10, Bytes: 14 << 10, Measure: lifetime.Occupied}) // 8 KiB more than the events
	b.Reserve(s, 20, lifetime.Region{Addr: 1 << 30, Size: 1 << 20})
	b.Describe(s, lifetime.SpaceInfo{Device: "tpu:0", Facts: lifetime.Clock})
	for i, size := range []int64{100, 300, 200} {
		p := b.Space()
		b.Interval(p, build.Interval{Buffer: lifetime.Buffer{Begin: -1, End: 5, Size: size, Edge: lifetime.EndOpen}})
		b.Describe(p, lifetime.SpaceInfo{Device: "tpu:0", Module: string(rune('x' + i)), Axis: lifetime.ProgramOrder, Begin: -1, End: 5})
	}
	b.Describe(b.Space(), lifetime.SpaceInfo{Device: "empty"})
	b.Lose(loss.Truncated, 1, 0, "byte | 7")
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func markdown(t *testing.T, r *answer.Report) string {
	t.Helper()
	var text strings.Builder
	if err := report.WriteMarkdown(&text, r, report.Repository{}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestReport checks the peak by call site (of programs only the largest), ranks, findings
// without a place, and losses.
func TestReport(t *testing.T) {
	c := mixed(t)
	outlier := finding.Finding{Rule: "rank_outlier", Kind: finding.KindUsage, Description: "rank 3 needs more", Space: c.Spaces[0]}
	r := answer.NewReport("default", []answer.CaptureReport{reportOn(c, nil)}, &answer.Ranks{}, []finding.Finding{outlier})
	r.RankInfo = &answer.RankSummary{Median: 2 << 20, Deviation: 1 << 20,
		Rows: []answer.Rank{{Rank: "0", Peak: 1 << 20, Leaked: new(int64)}, {Rank: "1", Peak: 3 << 20, Leaked: new(int64(7))}}}
	got := markdown(t, r)
	for _, want := range []string{
		"\n**no finding**",
		"| mixed.pb | tpu:0 | 12 ns | 38.0 KiB | 38.0 KiB | 1.00 MiB |", "| mixed.pb | empty | 1 ns | 0 B | 0 B |  |",
		"| 9.00 KiB | 23.7 % | stack of compiled programs |\n| 8.00 KiB | 21.1 % | older buffers (only a sum) |\n| 6.00 KiB | 15.8 % | (no operation recorded) |\n| 5.00 KiB | 13.2 % | MatMul \\[2\\] |\n| 4.00 KiB | 10.5 % | add.1 |\n| | | and 3 more |\n",
		"\n| 0 | 1.00 MiB | 0 B | 0 B |\n| 1 | 3.00 MiB | 0 B | 7 B |\n", "The median peak is 2.00 MiB, the median deviation 1.00 MiB.",
		"## Warnings\n\n- truncated: the file ends early; everything before that point was used (at byte \\| 7)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "/tpu:0, ") || strings.Contains(got, "empty, 0 B") {
		t.Error("the report has the peak of a smaller program or of an empty memory")
	}
}

// TestUsageAlone checks that a capture without a history is not called healthy.
func TestUsageAlone(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "usage.json"})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cpu"})
	b.Delta(s, 1, 100)
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got := markdown(t, reportOf(c))
	for _, want := range []string{"**leaks cannot be judged: allocations and frees were recorded without addresses; record again with PyTorch 1.10 or newer** · no finding", "| 100 B | 100.0 % | (only the total was recorded) |"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

// TestManyFindings checks that the table has all findings, and the details a limited number.
func TestManyFindings(t *testing.T) {
	c := mixed(t)
	var found []finding.Finding
	for i := range 23 {
		f := finding.Finding{Rule: "trend", Kind: finding.KindUsage, Severity: finding.Severity(min(i, 2)), Description: "grows", Space: c.Spaces[1], BytesPerStep: 1.6, Confidence: 0.5, Suggestions: []string{"look"}}
		if i > 0 {
			f.Sites = []lifetime.SiteID{1}
		}
		found = append(found, f)
	}
	got := markdown(t, answer.NewReport("default", []answer.CaptureReport{reportOn(c, found)}, &answer.Ranks{}, nil))
	for want, n := range map[string]int{
		"\n**21 critical findings, 1 warning, 1 note**":                    1,
		"| critical | trend | tpu:0 | MatMul \\[2\\] | 0 B | 2 B | 50 % |": 21,
		"| info | trend | tpu:0 | (the whole memory) | 0 B | 2 B | 50 % |": 1,
		"\n### trend: MatMul \\[2\\]\n\ngrows.\n\n- look\n":                19,
		"\n3 more findings are only in the table.":                         1,
	} {
		if strings.Count(got, want) != n {
			t.Errorf("%d times %q, want %d, in\n%s", strings.Count(got, want), want, n, got)
		}
	}
}

// TestWriteDiff checks figures, places and findings of a comparison as Markdown.
func TestWriteDiff(t *testing.T) {
	write := func(before, after *lifetime.Capture, perStep bool) string {
		var text strings.Builder
		if err := report.WriteDiff(&text, diffOf(before, after, perStep), report.Repository{}); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	a, b, nothing := leaking(t, "a.py"), leaking(t, "x/a.py"), mixed(t)
	for _, c := range []struct {
		name, got string
		want      []string
	}{
		{"another function leaks", write(a, b, false), []string{
			"**peak unchanged at", "leak in a.py (a.py:1) fixed; new leak in x/a.py (a.py:1); beside (a.py:1) still leaks", "\n## cuda:0\n", "| allocations | 180 | 180 |  |", "| at the end | 90.0 MiB | 90.0 MiB | 0 B |",
			"| new | cuda:0 | x/a.py (a.py:1) | +60.0 MiB | +60.0 MiB | +60.0 MiB |", "| gone | cuda:0 | a.py (a.py:1) | -60.0 MiB | -60.0 MiB | -60.0 MiB |",
			"## New findings\n\n- **", "## Fixed findings\n\n- **", "## Remaining findings\n\n- **"}},
		{"a step", write(a, b, true), []string{"allocated per step", "| new | cuda:0 | x/a.py (a.py:1) | +60.0 MiB | +60.0 MiB | +1.00 MiB |"}},
		{"the same", write(a, a, false), []string{"No call site changed."}},
		{"bytes from before", write(a, nothing, false), []string{"| new | tpu:0 | older buffers (only a sum) | +8.00 KiB |"}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.got, want) {
				t.Errorf("%s: want %q in\n%s", c.name, want, c.got)
			}
		}
	}
}

// TestWriteTune checks the recommendation and the table of settings as Markdown, with a name that is markup.
func TestWriteTune(t *testing.T) {
	c, err := judged.Open("../../testdata/replay/b16.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	c.Sources[0].File = "<b>[x](y)|"
	var tuning answer.Tuning
	for range 2 {
		if err := tuning.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	out, err := tuning.Tune(nil, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.WriteTune(&text, out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"**recommended: PYTORCH\\_CUDA\\_ALLOC\\_CONF=expandable\\_segments:True**", "it reserves 362 MiB instead of 1.69 GiB, replayed exactly",
		"\n| default (recorded) | 1.69 GiB | 346 MiB | 1.35 GiB | 42 | 0 | exact |\n", "\n## " + report.Escape("<b>[x](y)|") + ", cuda:0\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestSARIFAddresses checks that a file outside the repository has a file URI (RFC 8089), also on a drive of Windows, and a relative
// path a relative reference. All have slashes.
func TestSARIFAddresses(t *testing.T) {
	for file, want := range map[string]string{
		`C:\proj\src\my model.py`: "file:///C:/proj/src/my%20model.py",
		`\\server\share\a.py`:     "file:///server/share/a.py", // not the address of a host
		"/proj/a%b.py":            "file:///proj/a%25b.py",
		"proj/../src/a.py":        "src/a.py",
		"C:a.py":                  "./C:a.py", // relative, and C is no scheme
	} {
		var text strings.Builder
		if err := report.WriteSARIF(&text, report.All(reportOf(leaking(t, file)).Findings), report.Repository{}); err != nil {
			t.Fatal(err)
		}
		if want := `"uri": "` + want + `"`; !strings.Contains(text.String(), want) || strings.Contains(text.String(), "originalUriBaseIds") {
			t.Errorf("%s: want %s, got %q", file, want, regexp.MustCompile(`"uri": .*`).FindString(text.String()))
		}
	}
}

// TestSARIF checks the file, line and state of findings. A finding without a file has no
// location.
func TestSARIF(t *testing.T) {
	c := leaking(t, "/home/a/proj/src/my model.py")
	in := report.Repository{Root: "/home/a/proj"}
	all := report.All(reportOf(c).Findings)
	all[0].State, all[1].State = "new", "absent"
	all = append(all, report.All(reportOn(c, []finding.Finding{{Rule: "trend", Severity: finding.Info, Space: c.Spaces[0], Description: "a\nb%\x1b"}}).Leaks.Findings)...)
	var text strings.Builder
	if err := report.WriteSARIF(&text, all, in); err != nil {
		t.Fatal(err)
	}
	got := text.String()
	for want, n := range map[string]int{
		`"uri": "src/my%20model.py"`: 2, `"uriBaseId": "%SRCROOT%"`: 2, `"uri": "file:///home/a/proj/"`: 1, `"startLine": 1`: 2, `"baselineState": "new"`: 1, `"baselineState": "absent"`: 1, `"locations"`: 2, `"level": "note"`: 1,
		`"memory_id": "cuda:0"`: 3, "\x1b": 0,
	} {
		if strings.Count(got, want) != n {
			t.Errorf("%d times %q, want %d, in\n%s", strings.Count(got, want), want, n, got[strings.Index(got, `"results"`):])
		}
	}
	text.Reset()
	if err := report.WriteAnnotations(&text, all, in); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if !strings.HasPrefix(lines[0], "::warning file=src/my model.py,line=1,title=memlane new%3A leak::") || !strings.HasPrefix(lines[1], "::notice file=") ||
		!strings.Contains(lines[1], "title=memlane fixed%3A leak::") || lines[2] != "::notice title=memlane trend::a?b%25?" || len(lines) != 4 {
		t.Errorf("%q", lines)
	}
}
