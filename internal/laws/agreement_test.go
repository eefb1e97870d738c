package laws

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
)

// TestAgreement: answers that speak of the same thing say the same, for every shipped capture and for random ones.
func TestAgreement(t *testing.T) {
	a := &agreement{}
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapture(t, usual)
		category.Of(c, nil)
		j := judge.Of(c)
		j.Mark()
		a.compare(subjectOf("a random capture", j), judge.OfOutline(outline.Of(c)))
		if len(a.contradictions) > 0 {
			t.Fatal(strings.Join(a.contradictions, "\n"))
		}
	})
}

// agreement compares answers.
type agreement struct {
	file            string // of the capture that is compared
	captures, pairs int
	contradictions  []string
}

// same compares what two answers say of one thing.
func (a *agreement) same(space, what string, x, y any) {
	if a.pairs++; !reflect.DeepEqual(x, y) {
		a.contradictions = append(a.contradictions, fmt.Sprintf("%s %s: %s: %.300s and %.300s", a.file, space, what, fmt.Sprint(x), fmt.Sprint(y)))
	}
}

// compare compares all answers about a capture and its outline, which are judged.
func (a *agreement) compare(of *subject, o *judge.Outline) {
	a.captures++
	a.file = of.file
	c, whole, info := of.Capture, of.Outline(), answer.InfoOf(o)
	grouped := map[selection.By]*lifetime.Capture{}
	for _, by := range selection.Bys {
		if g, err := selection.GroupBy(c.Capture, by); err == nil && by != selection.ByLine {
			grouped[by] = g
		}
	}
	a.same("", "memory IDs of a capture and its outline", len(c.Spaces), len(o.Spaces))
	for i, s := range c.Spaces[:min(len(c.Spaces), len(o.Spaces))] {
		id, said := s.ID(), info.Spaces[i]
		peak := answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At)
		a.same(id, "the peak of info and peak", []any{said.Peak.Bytes, said.Peak.At}, []any{peak.Bytes, peak.At})
		a.same(id, "what the peak is for, of info and peak", said.AtPeak, peak.Parts)
		a.same(id, "the capacity of info and peak", limitOf(said.LimitBytes), peak.Limit)
		for _, other := range []*judge.Outline{o, whole} {
			short := answer.OutlinePeakOf(&other.Tables, other.Spaces[i], selection.AtPeak)
			a.same(id, "what the peak of an outline is for", short.Parts, peak.Parts)
			a.same(id, "the layers of an outline", short.Layers, peak.Layers)
			a.same(id, "the phases of an outline", short.PhasePeaks, peak.PhasePeaks)
		}
		for by, g := range grouped {
			p := answer.PeakOf(&g.Tables, g.Spaces[i], peak.At)
			a.same(id, "the peak by "+string(by), p.Bytes, peak.Bytes)
			a.same(id, "what the peak is for, by "+string(by), p.Parts, peak.Parts)
		}
		if a.captures%16 == 0 { // it takes longer than all else
			a.savings(c, o, i, grouped[selection.Bys[a.captures/16%len(selection.Bys)]])
		}
		a.leaked(c.Capture, s, of.Findings())
	}
	a.fragmented(of.Findings())
	// checkReasons compares findings with failures, stepsLaw all steps.
	failed, _ := answer.OOMsOf(judge.Of(c.Capture), c.Spaces)
	a.same("", "the failures of leaks and oom", of.leaks().OOMs, failed)
	a.reports(of)
	a.diff(of, info)
}

// savings compares what would lower the peak of space i in a capture, its outline and a grouping of it, which may be nil.
func (a *agreement) savings(c *judge.Capture, o *judge.Outline, i int, grouped *lifetime.Capture) {
	s := c.Spaces[i]
	of := func(c *judge.Capture, s *lifetime.Space) []answer.WhatIfScenario {
		p := answer.Peak{At: c.Spaces[i].Peak(lifetime.Occupied).At, Savings: []answer.WhatIfScenario{}}
		p.AddSavings(c, s)
		return p.Savings
	}
	whole := of(c, s)
	a.same(s.ID(), "what would help, of an outline", of(o.Kept, o.Spaces[i].Whole()), whole)
	if grouped != nil {
		a.same(s.ID(), "what would help, of groups", of(judge.Of(grouped), grouped.Spaces[i]), whole)
	}
}

func limitOf(bytes *int64) int64 {
	if bytes == nil {
		return 0
	}
	return *bytes
}

// leaked compares what findings count as leaked with the buffers of that category. A person's or an unjudged space has none.
func (a *agreement) leaked(c *lifetime.Capture, s *lifetime.Space, found []finding.Finding) {
	if s.Purposes == nil || c.Sources[s.Source].Traits.Folded {
		return
	}
	of := map[int]bool{}
	for i := range found {
		if f := &found[i]; f.IsLeak() && f.Space == s {
			for _, b := range f.Kept {
				of[b] = true
			}
		}
	}
	marked := map[int]bool{}
	for i := range s.Buffers {
		if c.Purpose(s.PurposeOf(i)).Category == purpose.Leaked {
			marked[i] = true
		}
	}
	a.same(s.ID(), "the buffers that findings and categories call leaked", of, marked)
}

// fragmented checks that a replay proves each warning about fragmentation: another way needs a tenth less.
func (a *agreement) fragmented(found []finding.Finding) {
	for i := range found {
		if f := &found[i]; f.Rule == "fragmentation" && f.Severity > finding.Info {
			own := f.Value(finding.FigReplayedOwn)
			saves := slices.ContainsFunc([]finding.Figure{finding.FigReplayed, finding.FigApart, finding.FigOnePool}, func(of finding.Figure) bool {
				other := f.Value(of)
				return other > 0 && other <= .9*own
			})
			a.same(f.Space.ID(), "a warning about fragmentation and what replays save", true, saves)
		}
	}
}

// reports compares the report with its parts.
func (a *agreement) reports(of *subject) {
	r := reportOf(of.report())
	l := answer.NewLeaks([]answer.CaptureLeaks{of.leaks()}, &answer.Ranks{}, nil)
	a.same("", "the findings of report and leaks", r.Findings, l.Findings)
	a.same("", "the failures of report and leaks", r.OOMs, l.OOMs)
	a.same("", "what comes next in report and leaks", r.Next, l.Next)
	headline := text.Headline(new(of.report()), of.leaks().Findings)
	died := len(l.OOMs) > 0 && l.OOMs[0].Reason != "survived"
	a.same("", "the headline and the failures", strings.Contains("\n"+headline, "\nOut of memory"), died)
}

// diff compares a capture with itself: nothing differs, and its figures are those of info.
func (a *agreement) diff(of *subject, info answer.Capture) {
	d := answer.DiffOf(of.diff(), false)
	a.same("", "a comparison with itself", len(d.Rows)+len(d.Findings.New)+len(d.Findings.Fixed), 0)
	for _, c := range of.diff().Still {
		a.same(c.Before.Space.ID(), "a finding and what it was in itself", c.Before.Description, c.After.Description)
	}
	for _, side := range []answer.Capture{d.Before, d.After} {
		a.same("", "the memory IDs of diff and info", side.Spaces, info.Spaces)
	}
	for _, row := range d.Categories {
		a.same(row.Space, "the change of a category in itself", row.DeltaBytes, int64(0))
	}
}
