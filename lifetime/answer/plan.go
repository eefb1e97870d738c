package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/lifetime/whatif"
)

// planOf returns what the compiled program with the highest peak would need if it were changed, as far as its schedule and its sizes prove it.
// XLA plans a changed program anew, so all else is refused, with the line to change.
func planOf(c *judge.Capture, asked WhatIfAsked) (WhatIfSpace, error) {
	s, _ := selection.Largest(slices.DeleteFunc(slices.Clone(c.Spaces), func(s *lifetime.Space) bool { return !static(&s.SpaceInfo) }))
	switch {
	case s == nil || slices.ContainsFunc(s.Marks, func(m lifetime.Mark) bool { return m.Kind == lifetime.OOM }):
		return WhatIfSpace{}, &selection.NothingError{File: c.Name(), Why: "a text has no schedule of the program: " +
			`dump it (XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto"), and give memlane whatif the folder`}
	case asked.Search || asked.Changed != nil:
		return WhatIfSpace{}, &selection.NothingError{File: c.Name(), Why: "a compiled program cannot be searched or drawn: XLA plans it anew after each change; change it, compile it again and dump it"}
	}
	peak := s.Peak(lifetime.Occupied).Bytes
	out := WhatIfSpace{File: c.Sources[s.Source].File, ID: s.ID(), Scenarios: []WhatIfScenario{planScenario(s, oom.Planned{Low: peak, Peak: peak, High: peak}, nil)}}
	if asked.Scenarios == nil {
		out.Scenarios = append(out.Scenarios, plansOf(c, s)...)
	}
	for _, edits := range asked.Scenarios {
		p, refused := planned(&c.Tables, s, oom.Plans(&c.Tables, s), edits)
		if refused != "" {
			out.Scenarios = append(out.Scenarios, WhatIfScenario{Edits: edits.Texts(), Refused: refused})
			continue
		}
		out.Scenarios = append(out.Scenarios, planScenario(s, p, edits.Texts()))
	}
	if asked.Capacity > 0 {
		out.CapacityBytes = &asked.Capacity
		for i := range out.Scenarios {
			of := &out.Scenarios[i]
			if fits := of.Refused == "" && *of.ReservedHighBytes <= asked.Capacity; fits || of.Refused == "" && *of.ReservedLowBytes > asked.Capacity {
				of.Fits = &fits
			}
		}
	}
	return out, nil
}

// plansOf returns the changes of a compiled program that its schedule proves and that are worthwhile.
func plansOf(c *judge.Capture, s *lifetime.Space) []WhatIfScenario {
	return judge.Once(c, "plans", s, func() []WhatIfScenario {
		all, peak := []WhatIfScenario{}, s.Peak(lifetime.Occupied).Bytes
		for _, p := range oom.Plans(&c.Tables, s) {
			if float64(peak-p.High) >= worthwhile*float64(peak) {
				all = append(all, planScenario(s, p, []string{p.Edit}))
			}
		}
		return all
	})
}

func planScenario(s *lifetime.Space, p oom.Planned, edits []string) WhatIfScenario {
	peak := s.Peak(lifetime.Occupied).Bytes
	between, saved := oom.Needed(s)-peak, peak-p.Peak // of buffers: what the plan needs more
	reserved, least, most := p.Peak+between, p.Low+between, p.High+between
	return WhatIfScenario{Edits: append([]string{}, edits...), How: howKnown(edits == nil, false), Advice: p.Advice,
		PeakBytes: &p.Peak, ReplayedBytes: &p.Peak, LowBytes: &p.Low, HighBytes: &p.High, SavedBytes: &saved,
		PeakReservedBytes: &reserved, ReservedLowBytes: &least, ReservedHighBytes: &most}
}

// planned returns what a compiled program would need with changes, or why that is not known. plans are those that its schedule proves.
func planned(t *lifetime.Tables, s *lifetime.Space, plans []oom.Planned, edits whatif.Scenario) (p oom.Planned, refused string) {
	edit := &edits[0]
	chosen := func(name string) bool { return whatif.Matches(edit.Value, name) }
	if i := slices.IndexFunc(plans, func(p oom.Planned) bool { return p.Edit == edits.String() }); i >= 0 {
		return plans[i], ""
	}
	again := "change it, compile it again and dump it"
	if line := largestLine(t, s); line != "" {
		again = "change it (most of its peak is made at " + line + "), compile it again and dump it"
	}
	switch {
	case len(edits) > 1:
		return p, edits.String() + ": the schedule of a compiled program proves one change; " + again
	case edit.Name == "drop":
		if p, n := oom.Dropped(t, s, chosen); n > 0 {
			return p, ""
		}
		return p, edit.String() + ": no argument in memory of its own has this name; memlane peak --by name lists all"
	case edit.Name == "narrow" && oom.OnCPU(t, s):
		return p, edit.String() + ": XLA for CPU computes in 32 bits and keeps arrays of 16 bits in both types; " + again
	case edit.Name == "narrow":
		if p, n := oom.Narrowed(t, s, chosen); n > 0 {
			return p, ""
		}
		return p, edit.String() + ": no argument with floats of 32 bits has this name; memlane peak --by name lists all"
	case edit.Name == "checkpoint" && oom.OnCPU(t, s) && !slices.ContainsFunc(t.Sites, func(of lifetime.Site) bool { return strings.Contains(of.Op, "/while/") }):
		return p, edit.String() + ": compiled for CPU, jax.checkpoint outside of loops saves nothing; make them one lax.scan: " + again
	case edit.Name == "donate" || edit.Name == "in-place":
		return p, edit.String() + ": the schedule of the program proves none that saves memory"
	}
	return p, edit.String() + ": XLA plans a compiled program anew; " + again
}

// largestLine returns the line that makes the largest array at the peak beside the arguments; "" if none is known.
func largestLine(t *lifetime.Tables, s *lifetime.Space) string {
	for _, row := range s.Breakdown(s.Peak(lifetime.Occupied).At) {
		if line := t.SourcePlace(row.Site); line != "" && t.ArgumentOf(row.Kind, row.Site) == "" {
			return line
		}
	}
	return ""
}

// unreplayed says why the memory of a capture cannot be replayed, and if it is of PyTorch, what to record.
func unreplayed(c *judge.Capture, dump string) error {
	why := fmt.Sprintf("no history of PyTorch's caching allocator; record one with torch.cuda.memory._record_memory_history()%s", dump)
	if source := &c.Sources[0]; !oom.OfPyTorch(source) {
		why = fmt.Sprintf("only PyTorch's caching allocator can be replayed, and this is a capture of %s; memlane peak shows what fills the memory", source.Producer)
	}
	return &selection.NothingError{File: c.Name(), Why: why}
}
