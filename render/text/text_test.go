package text_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/text"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"forward (modèle.py:7)": "forward (modèle.py:7)",
		"训练 <module> µs":        "训练 <module> µs",
		"a\tb\nc":               "a?b?c",
		"\u2028\u200b\ufeff":    "???",
		"\x80":                  "\ufffd",
	} {
		if got := text.Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	word := strings.Repeat("é", 30)
	if got, want := text.Wrap(word+" "+word+"\n"+word, "  "), word+" "+word+"\n  "+word; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	before := strings.Repeat("x", 72)
	for _, number := range []string{"100 MiB", "(1,068 cases,", "2.5 GiB"} {
		if got, want := text.Wrap(before+" "+number+" follow", "  "), before+"\n  "+number+" follow"; got != want {
			t.Errorf("a number lost its unit: %q, want %q", got, want)
		}
	}
	long := strings.Repeat("x", 200)
	if got := text.Wrap(long, "  "); got != long {
		t.Errorf("a word was broken: %q", got)
	}
}

// TestPara: a terminal gets lines that fit, files and pipes a line for each paragraph. Blanks of a file name remain.
func TestPara(t *testing.T) {
	const file = "/home/me/my  runs/a.pickle"
	words := file + ": " + strings.Repeat("twelve chars ", 8) + "end"
	for _, c := range []struct {
		style text.Style
		want  string
	}{
		{text.Style{}, "> " + words + "\n"},
		{text.Style{Width: 80}, "> " + file + ": twelve chars twelve chars twelve chars twelve\n  chars twelve chars twelve chars twelve chars twelve chars end\n"},
		{text.Style{Width: 40}, "> " + file + ": twelve\n  chars twelve chars twelve chars\n  twelve chars twelve chars twelve\n  chars twelve chars twelve chars end\n"},
	} {
		p := text.NewPage(c.style)
		p.Para("> ", "  ", words)
		if got := p.String(); got != c.want {
			t.Errorf("%d columns: %q, want %q", c.style.Width, got, c.want)
		}
	}
}

func TestRanks(t *testing.T) {
	of := func(process string, peak int64) *lifetime.Capture {
		return &lifetime.Capture{Tables: lifetime.Tables{Sources: make([]lifetime.Source, 1)}, Spaces: []*lifetime.Space{
			{SpaceInfo: lifetime.SpaceInfo{Process: process, Base: 1, End: 1}}, {SpaceInfo: lifetime.SpaceInfo{Process: process, Base: peak, End: 1}}}}
	}
	for _, c := range []struct {
		captures []*lifetime.Capture
		want     string
	}{
		{[]*lifetime.Capture{of("rank 0", 512)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("rank 0", 600)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("", 600)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("rank 1", 512)}, "\n2 ranks: highest peak 512 B on each\n"},
		{[]*lifetime.Capture{of("rank 2", 300), of("rank 0", 512), of("rank 1", 512)}, "\n3 ranks: highest peak 512 B on rank 0, lowest 300 B on rank 2\n"},
		{[]*lifetime.Capture{of("rank 0, pid 7", 300), of("rank 0, pid 8", 512), of("rank 1", 400)}, "\n2 ranks: highest peak 512 B on rank 0, lowest 400 B on rank 1\n"},
	} {
		var b strings.Builder
		r := &answer.Ranks{}
		for _, capture := range c.captures {
			r.Add(judge.Of(capture).Outline())
		}
		if err := text.Info(&b, &answer.Info{}, r.Summary(nil), text.Style{}); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want {
			t.Errorf("prints %q, want %q", b.String(), c.want)
		}
	}
}

// TestPlacesStayApart: places whose names are equal when shortened keep their rows.
func TestPlacesStayApart(t *testing.T) {
	long := strings.Repeat("transformer/", 10)
	k := answer.Peak{Total: lifetime.Amount{Bytes: 3 << 20, Count: 3}, Places: []answer.Place{
		{Name: long + "left/" + long + "Mul", Amount: lifetime.Amount{Bytes: 2 << 20, Count: 2}},
		{Name: long + "right/" + long + "Mul", Amount: lifetime.Amount{Bytes: 1 << 20, Count: 1}},
	}}
	var b strings.Builder
	if err := text.Peaks(&b, &answer.Peaks{Peaks: []answer.Peak{k}}, text.Style{Width: 60}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.00 MiB  66.7 %        2\n            transformer/transformer/…/left/…/transformer/Mul", "1.00 MiB  33.3 %        1\n            transformer/…/right/…/transformer/Mul"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, &b)
		}
	}
}

// TestWholeCalls: in 80 columns a stack breaks between calls, no call is cut that fits a line, and the calls that all stacks end with stand
// once.
func TestWholeCalls(t *testing.T) {
	place := func(bytes int64, calls ...string) answer.Place {
		return answer.Place{Name: strings.Join(calls, " ← "), Amount: lifetime.Amount{Bytes: bytes, Count: 1}}
	}
	build, main, module := "_build_critic_model_optimizer (megatron_workers.py:581)", "main_loop (worker.py:892)", "<module> (default_worker.py:327)"
	k := answer.Peak{Total: lifetime.Amount{Bytes: 7 << 20, Count: 3}, Places: []answer.Place{
		place(4<<20, "get_model (utils.py:114)", build, main, module), place(2<<20, build, main, module), place(1<<20, "(no stack recorded)")}}
	var b strings.Builder
	if err := text.Peaks(&b, &answer.Peaks{By: "stack", Peaks: []answer.Peak{k}}, text.Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if want := `   bytes   share  buffers  stack
4.00 MiB  57.1 %        1  get_model (utils.py:114)
            ← _build_critic_model_optimizer (megatron_workers.py:581) ← ...
2.00 MiB  28.6 %        1
            _build_critic_model_optimizer (megatron_workers.py:581) ← ...
1.00 MiB  14.3 %        1  (no stack recorded)
... is main_loop (worker.py:892) ← <module> (default_worker.py:327)
`; !strings.Contains(b.String(), want) {
		t.Errorf("prints\n%swant\n%s", &b, want)
	}
}

// TestBriefSays: a change is advised only if it lowers the peak by 5 %, what could not be judged comes with what to record, and the place of
// a leak is named once among what held the memory.
func TestBriefSays(t *testing.T) {
	const mib = 1 << 20
	brief := func(r *answer.Report) string {
		var b strings.Builder
		if err := text.Brief(&b, r, text.Style{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	healthy := func(high int64) *answer.Report {
		peak, low, saved := high-mib, high-2*mib, 101*mib-high
		p := answer.Peak{Space: "cuda:0", Bytes: 100 * mib, Savings: []answer.WhatIfScenario{{Edits: []string{"batch=0.5"}, Advice: "Halve the batch.",
			PeakBytes: &peak, LowBytes: &low, HighBytes: &high, SavedBytes: &saved}}}
		return &answer.Report{Captures: []answer.CaptureReport{{Info: answer.Capture{Spaces: make([]answer.Space, 1), Fails: true},
			Leaks: answer.CaptureLeaks{Verdict: "no leak found"}, Peaks: []answer.Peak{p}}}}
	}
	if got := brief(healthy(96 * mib)); strings.Contains(got, "Halve") || !strings.Contains(got, "state   No request failed in the recording. No leak found.\ndo      Nothing has to be done.\n") {
		t.Errorf("a saving of 4 %%: %s", got)
	}
	if got := brief(healthy(94 * mib)); !strings.Contains(got, "do      Nothing has to be done. If you need room: Halve the batch. The peak would be 93.0 MiB (92.0 to 94.0) instead of 100 MiB.\n") {
		t.Errorf("a saving of 6 %%: %s", got)
	}
	short := healthy(100 * mib)
	short.Unjudged, short.Captures[0].Leaks.Verdict, short.Captures[0].Leaks.Notes = "not judged: cuda:0 (1 step)", "leaks cannot be judged", []string{"cuda:0: only 1 step was recorded; record about 50"}
	if got := brief(short); !strings.Contains(got, "Leaks cannot be judged: only 1 step was recorded.\ndo      No problem was found. Record about 50.\n") {
		t.Errorf("too short: %s", got)
	}
	c, err := judged.Open("../../testdata/failures/ahead.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	got := brief(answer.NewReport("", []answer.CaptureReport{answer.CaptureReportOf(c, "")}, &answer.Ranks{}, nil))
	if strings.Count(got, "fetch (died.py:38)") != 2 || !strings.Contains(got, "held    leak: fetch (died.py:38) leaked 221 MiB in 188 buffers; use (died.py:39) 160 MiB\n") {
		t.Errorf("a leak: %s", got)
	}
}
