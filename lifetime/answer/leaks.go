package answer

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
)

// Leaks has the findings of captures.
type Leaks struct {
	Schema   string    `json:"schema"`   // "memlane/1"
	Next     string    `json:"next"`     // command that tells more; empty if none does
	Findings []Finding `json:"findings"` // most severe first
	Unjudged string    `json:"unjudged"` // what could not be judged; empty if everything was

	Without   []WithoutLeaks `json:"without_leaks,omitempty"` // memory IDs whose peak would be lower without their leaks
	OOMs      []Failure      `json:"ooms,omitempty"`          // failed allocations, as memlane oom answers them; the first ended the program
	Functions []Function     `json:"functions,omitempty"`     // with --function
	Ranks     []Rank         `json:"ranks,omitempty"`         // one for each rank, if there are several and every capture names its rank

	Series []Growth `json:"series,omitempty"` // call sites that grow from each capture to the next, if there are three or more and no ranks

	Captures []CaptureLeaks `json:"-"` // the same findings by capture
	Judged   int            `json:"-"` // captures that only the series can judge; 0 if there is none
	Summary  *RankSummary   `json:"-"` // nil without several ranks

	nothing bool // no capture could be judged
}

// Growth is a call site whose live memory rises from each capture of a run to the next.
type Growth struct {
	Space string  `json:"space"` // memory ID
	Site  string  `json:"site"`  // place
	Bytes []int64 `json:"bytes"` // occupied at the end of each capture, in the order of the captures
}

// AddSeries adds the growth over captures of one run. What only the series can judge is judged then.
func (l *Leaks) AddSeries(s *finding.Series) {
	for _, g := range s.Growing() {
		l.Series = append(l.Series, Growth{g.Space.ID(), g.Place.String(), g.Bytes})
	}
	if l.Judged = s.Captures(); l.Judged > 0 {
		l.Unjudged, l.nothing = "", false
	}
}

// WithoutLeaks is what a program would need if it freed what leaks of a memory ID keep: a range, as when it would do so
// is open. What the program kept from before the recording is in the range too.
type WithoutLeaks struct {
	File      string `json:"file"`       // capture
	Space     string `json:"space"`      // memory ID
	PeakBytes int64  `json:"peak_bytes"` // highest allocated memory, as recorded
	LowBytes  int64  `json:"low_bytes"`  // without leaks, with a request that failed, it is at least this
	HighBytes int64  `json:"high_bytes"` // and at most this

	Unfinished bool `json:"unfinished"` // the recording ends in the middle of a pass: that is until then, and the rest may need more
}

// CaptureLeaks has the findings of one capture.
type CaptureLeaks struct {
	File      string
	Verdict   string   // "1 leak, 2 other findings"
	Notes     []string // spaces in which leaks cannot be detected, and why
	Findings  []Finding
	Functions []Function
	OOMs      []Failure // failed allocations
	Without   []WithoutLeaks

	foreign  bool     // the rules are those of another tool, which judges everything
	replayed bool     // memlane tune can replay it
	unjudged string   // why no rule applies to the capture; "" if one does
	gaps     []string // memory IDs in which leaks cannot be detected, beside others in which they can
}

// Function has the allocations and frees of the functions that --function selects, in one memory ID.
type Function struct {
	File     string   `json:"file"`           // capture
	Space    string   `json:"space"`          // memory ID
	Inferred bool     `json:"steps_inferred"` // true if steps are not marked, so that memlane inferred them
	Steps    []Change `json:"steps"`          // one for each step or call

	Pattern string `json:"-"` // regular expression that selects functions
	Calls   bool   `json:"-"` // Steps are calls
}

// Change is one step or, if calls were recorded, one call.
type Change struct {
	Begin          int64 `json:"begin"`           // instant
	AllocatedBytes int64 `json:"allocated_bytes"` // allocated by the functions
	FreedBytes     int64 `json:"freed_bytes"`     // freed buffers of the functions
	ChangeBytes    int64 `json:"change_bytes"`    // allocated less freed
}

// LeaksOf returns the answer for the findings of a capture. rules is the name of a preset, "" for memlane's own rules.
func LeaksOf(c *judge.Capture, rules string) CaptureLeaks {
	found := c.Findings()
	out := CaptureLeaks{File: c.Name(), Findings: FindingsOf(c.Capture, found), unjudged: Unjudged(c.Capture), foreign: rules != "",
		replayed: slices.ContainsFunc(c.Spaces, replay.Recorded)}
	if c.Settings.Function != nil {
		out.Functions = functionsOf(c, c.Settings.Function)
	}
	if rules != "" {
		out.Verdict = units.Plural(len(found), "finding") + " by the rules of " + rules
		return out
	}
	out.OOMs, _ = OOMsOf(c, c.Spaces)
	out.judge(c)
	for _, s := range c.Spaces {
		if without := WithoutLeaksOf(c, s); without != nil {
			out.Without = append(out.Without, *without)
		}
	}
	return out
}

// WithoutLeaksOf replays a space without what its leaks keep; nil if its peak is not known to be lower then.
func WithoutLeaksOf(c *judge.Capture, s *lifetime.Space) *WithoutLeaks {
	var kept []int
	for _, f := range c.Leaks(s) {
		kept = append(kept, f.Kept...)
	}
	if len(kept) == 0 || s.Ungrouped != nil {
		return nil
	}
	e, _ := c.WhatIf(s)
	if e == nil {
		return nil
	}
	r := e.Without(kept)
	if peak := min(e.Peak, e.Recorded.Peak); float64(peak-r.High) < worthwhile*float64(peak) {
		return nil
	}
	return &WithoutLeaks{c.Sources[s.Source].File, s.ID(), e.Peak, r.Low, r.High, e.Unfinished}
}

// judge sets the verdict, and adds notes about the spaces in which leaks cannot be detected.
func (l *CaptureLeaks) judge(c *judge.Capture) {
	var unjudged []*lifetime.Space
	programs, judged, leaks := 0, 0, 0
	notes, short := l.tooShort(c)
	for _, s := range c.Spaces {
		switch {
		case static(&s.SpaceInfo):
			programs++
		case s.Facts&lifetime.History == 0:
			unjudged = append(unjudged, s)
		default:
			judged++
		}
	}
	others := 0
	for _, f := range l.Findings {
		switch {
		case f.Leak:
			leaks++
		case !f.Failure || len(l.OOMs) == 0:
			others++
		}
	}
	if why := loss.Unnamed(c.Losses); why != "" && slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Leak && len(f.HeldBy) == 0 }) {
		notes = append(notes, "what holds leaks was not recorded for all: "+why)
	}
	l.Verdict = units.Plural(leaks+others, "finding")
	switch {
	case judged == 0 && programs > 0 && len(l.OOMs) > 0 && leaks+others == 0:
		l.Verdict = "no other finding"
	case judged+programs == 0 || judged > 0 && judged == len(short):
		l.Verdict = "leaks cannot be judged"
	case judged > 0 && leaks == 0:
		l.Verdict = "no leak found"
	case judged > 0:
		l.Verdict = units.Plural(leaks, "leak")
	}
	if judged > 0 && others > 0 {
		l.Verdict += ", " + units.Plural(others, "other finding")
	}
	if judged == 0 && programs > 0 {
		l.Notes = append(l.Notes, "These are compiled programs. Their memory is planned at compile time, so nothing can leak.")
	}
	l.Notes = append(l.Notes, unjudgedNotes(c.Capture, unjudged)...)
	l.Notes, l.gaps = append(l.Notes, notes...), append(l.gaps, short...)
	if judged > 0 {
		for _, s := range unjudged {
			l.gaps = append(l.gaps, s.ID())
		}
	}
}

// tooShort notes the memory IDs without a leak whose history is too short to find one, and returns those in which nothing can be judged, and
// why: what grows, grows from step to step, or it is older than the recording. Where no steps are known, work is the measure.
func (l *CaptureLeaks) tooShort(c *judge.Capture) (notes []string, unjudged []string) {
	for _, s := range c.Spaces {
		if static(&s.SpaceInfo) || s.Facts&lifetime.History == 0 ||
			slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Leak && f.Space == s.ID() }) {
			continue
		}
		steps, why := len(c.Program().Steps(s).Begins), ""
		older, live, left := atEndOf(c.Capture, s)
		switch lost := slices.ContainsFunc(c.Losses, func(l loss.Loss) bool { return l.Reason == loss.RingOverflow }); {
		case steps == 1:
			why = "1 step"
			notes = append(notes, s.ID()+": only 1 step was recorded; record about 50 steps to see what grows")
		case steps == 0 && left > 0 && c.Program().OnePass(s):
			why = "one pass"
			notes = append(notes, s.ID()+": only one pass was recorded; record about 50 steps to see what grows")
		case lost && 2*older > live:
			why = units.Bytes(older) + " are older than the recording"
			notes = append(notes, fmt.Sprintf("%s: %s of %s alive at the end are older than the recording, as the ring buffer overflowed; raise max_entries to keep more",
				s.ID(), units.Bytes(older), units.Bytes(live)))
		case steps == 2:
			notes = append(notes, s.ID()+": only 2 steps were recorded, which hardly ever show a leak; record about 50 steps")
		}
		if why != "" {
			unjudged = append(unjudged, s.ID()+" ("+why+")")
		}
	}
	return notes, unjudged
}

// atEndOf returns the occupied bytes of a space that are alive at its end, those of them that are older than the recording, but for those
// whose category says why, and those that were allocated in it.
func atEndOf(c *lifetime.Capture, s *lifetime.Space) (older, live, left int64) {
	older, live = s.Base, s.Base
	for i := range s.Buffers {
		switch b := &s.Buffers[i]; {
		case b.Edge&lifetime.EndOpen == 0:
			continue
		case b.Edge&lifetime.BeginUnseen == 0:
			left = units.AddSat(left, b.Size)
		case !program.Outlives(c.Purpose(s.PurposeOf(i)).Category):
			older = units.AddSat(older, b.Size)
		}
		live = units.AddSat(live, s.Buffers[i].Size)
	}
	return older, live, left
}

// Unjudged returns why no rule applies to a capture, "" if one does: it has a history, a compiled program, or calls or
// samples of other profilers.
func Unjudged(c *lifetime.Capture) string {
	if len(c.Spaces) == 0 || len(c.Calls)+len(c.Samples) > 0 || slices.ContainsFunc(c.Spaces, func(s *lifetime.Space) bool {
		return static(&s.SpaceInfo) || s.Facts&lifetime.History != 0
	}) {
		return ""
	}
	return whyUnjudged(c, c.Spaces[0])
}

// maxIDs is the maximum number of memory IDs in a sentence.
const maxIDs = 12

// unjudgedNotes explains why leaks cannot be detected in some spaces, in one note for each reason.
func unjudgedNotes(c *lifetime.Capture, spaces []*lifetime.Space) (notes []string) {
	ids, reasons := map[string][]string{}, []string{}
	for _, s := range spaces {
		why := whyUnjudged(c, s)
		if ids[why] == nil {
			reasons = append(reasons, why)
		}
		ids[why] = append(ids[why], s.ID())
	}
	for _, why := range reasons {
		notes = append(notes, listed(ids[why])+": "+why)
	}
	return notes
}

func listed(names []string) string {
	if more := len(names) - maxIDs; more > 0 {
		names = append(names[:maxIDs:maxIDs], units.Count(int64(more))+" more (memlane info lists them)")
	}
	return strings.Join(names, ", ")
}

// whyUnjudged returns what is missing for the detection of leaks in a space, and how to record it.
func whyUnjudged(c *lifetime.Capture, s *lifetime.Space) string {
	why := "no history of allocations and frees"
	switch {
	case len(s.Buffers)+len(s.Totals)+len(s.Regions)+s.Allocations+s.Frees == 0:
		return "nothing was recorded here: no allocation, and no live buffer"
	case s.UsageOnly() && s.Allocations+s.Frees > 0:
		return "allocations and frees were recorded without addresses; record again with PyTorch 1.10 or newer"
	case s.UsageOnly():
		why = "only totals were recorded, as in counters and memory timelines"
	case s.Allocations+s.Frees == 1 && s.Facts&lifetime.EndState != 0:
		why = `only the last event was recorded, as with enabled="state" or, in PyTorch 2.0, without trace_alloc_max_entries`
	}
	if advice := c.Sources[s.Source].Traits.AdviceFor(s.Device); advice != "" {
		why += "; " + advice
	}
	return why
}

func functionsOf(c *judge.Capture, function *regexp.Regexp) (all []Function) {
	matches := selection.Matching(&c.Tables, function)
	for i, s := range c.Spaces {
		out := Function{File: c.Sources[s.Source].File, Space: s.ID(), Steps: []Change{}, Pattern: function.String(),
			Calls: len(c.Calls) > 0}
		for k := range c.Calls {
			if call := &c.Calls[k]; call.Space == i && matches(call.Site) {
				out.Steps = append(out.Steps, Change{int64(math.Round(call.Begin * 1e9)), call.Allocated, call.Freed, call.Change()})
			}
		}
		if !out.Calls {
			changes, inferred := finding.Changes(c.Program(), s, finding.Settings{Function: function})
			out.Inferred = inferred
			for _, change := range changes {
				out.Steps = append(out.Steps, Change{change.Begin, change.Allocated.Bytes, change.Freed.Bytes, change.Bytes()})
			}
		}
		if len(out.Steps) > 0 && !static(&s.SpaceInfo) {
			all = append(all, out)
		}
	}
	return all
}

// NewLeaks combines the answers for several captures. outliers are the findings about ranks; ranks may be nil.
func NewLeaks(captures []CaptureLeaks, ranks *Ranks, outliers []finding.Finding) *Leaks {
	out := &Leaks{Schema: schema, Findings: []Finding{}, Captures: captures, Summary: ranks.Summary(captures)}
	if out.Summary != nil {
		out.Ranks = out.Summary.Rows
	}
	unjudged := 0
	var gaps []string
	for i := range captures {
		if captures[i].unjudged != "" && !captures[i].foreign {
			unjudged++
			gaps = append(gaps, captures[i].File)
		}
		gaps = append(gaps, captures[i].gaps...)
		out.Findings = append(out.Findings, captures[i].Findings...)
		out.Functions = append(out.Functions, captures[i].Functions...)
		out.OOMs = append(out.OOMs, captures[i].OOMs...)
		out.Without = append(out.Without, captures[i].Without...)
	}
	sortFailures(out.OOMs)
	about := rankFindingsOf(outliers)
	out.Findings = append(out.Findings, about...)
	out.Next = afterFindings(captures, out.Findings, out.OOMs)
	slices.Sort(gaps)
	switch gaps = slices.Compact(gaps); {
	case unjudged > 0 && unjudged == len(captures):
		out.nothing, out.Unjudged = true, "leaks cannot be judged: "+captures[0].unjudged
	case len(gaps) > 0:
		out.Unjudged = "not judged: " + listed(gaps)
	}
	return out
}
