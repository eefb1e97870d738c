package answer

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/lifetime/whatif"
)

// Scope is what answers say of a recording that ends in the middle of a pass.
const Scope = "until the recording ends, in the middle of a pass: the rest may need more"

// WhatIf is the result of memlane whatif: what programs would need if they were changed.
type WhatIf struct {
	Schema string        `json:"schema"` // "memlane/1"
	Next   string        `json:"next"`   // command that tells more, or what to record for it; empty if none does
	Spaces []WhatIfSpace `json:"spaces"` // memory IDs with a history of PyTorch's allocator; the compiled program with the highest peak
}

// WhatIfSpace is the result for one memory ID.
type WhatIfSpace struct {
	File          string           `json:"file"`           // name on the command line
	ID            string           `json:"id"`             // memory ID
	Replay        *Replay          `json:"replay"`         // how much of the recording the rules of the allocator predict; null for a compiled program
	CapacityBytes *int64           `json:"capacity_bytes"` // of --capacity, or of a recorded OOM; null if neither is known
	OneStep       bool             `json:"one_step"`       // the only whole step of the recording makes what the next one has from its beginning, such as states: all changes are with another step after it, as next-step alone
	Unfinished    bool             `json:"unfinished"`     // the recording ends in the middle of a pass: all peaks are those until then, and the rest may need more
	Failed        bool             `json:"failed"`         // a recorded request failed: all peaks but the recorded one are with it, as if it had found memory
	Searched      bool             `json:"searched"`       // scenarios that fit the capacity were searched for, the cheapest first
	Long          bool             `json:"long"`           // the search took so long that it ended before all combinations were tried: others may fit, too
	Scenarios     []WhatIfScenario `json:"scenarios"`      // the recording first; empty if nothing can be predicted
}

// WhatIfScenario is what a program would need with some changes.
type WhatIfScenario struct {
	Edits             []string    `json:"edits"`                    // the changes, such as "batch=2"; empty for the recording
	Refused           string      `json:"refused"`                  // why there are no figures, and all sizes are null; empty if there are
	Exact             bool        `json:"exact"`                    // the peak was right to the byte for all programs that were tried
	How               string      `json:"how"`                      // how it is known: recorded, derived from recorded facts by arithmetic or an exact replay, or inferred
	PeakBytes         *int64      `json:"peak_bytes"`               // highest allocated memory, as torch.cuda.max_memory_allocated; of the recording as recorded
	ReplayedBytes     *int64      `json:"replayed_bytes"`           // the same as a replay counts it: with remainders that the allocator did not split off, without buffers whose free is pending; if failed is set, with the request that failed
	LowBytes          *int64      `json:"low_bytes"`                // the highest allocated memory is at least this
	HighBytes         *int64      `json:"high_bytes"`               // and at most this
	SavedBytes        *int64      `json:"saved_bytes"`              // by how much peak_bytes is below replayed_bytes of the recording, or of next-step if one_step is set
	PeakReservedBytes *int64      `json:"peak_reserved_bytes"`      // highest reserved memory; of the recording as recorded
	ReservedLowBytes  *int64      `json:"peak_reserved_low_bytes"`  // the highest reserved memory is at least this
	ReservedHighBytes *int64      `json:"peak_reserved_high_bytes"` // and at most this
	Fits              *bool       `json:"fits"`                     // whether it fits the capacity; null without a capacity, and where the ranges leave it open
	FitsShare         *float64    `json:"fits_share"`               // if the ranges leave it open: about how many of such programs fit, not all of which were run; null else, and if unfinished is set
	Recomputed        int64       `json:"recomputed"`               // buffers that each step computes again
	CopiedBytes       int64       `json:"copied_bytes"`             // to and from the host in each step
	Passes            int         `json:"passes"`                   // forward and backward passes that each step has more
	Advice            string      `json:"advice"`                   // what to do, in a sentence; empty for changes that were asked for by name
	Site              *Site       `json:"site"`                     // line that the advice is about; null if it is not about one
	Batch             *WhatIfRoom `json:"largest_batch"`            // how far the batch can grow until it does not fit; null = not searched
	Sequence          *WhatIfRoom `json:"longest_sequence"`         // the same for the length of sequences; null also if the recording does not tell
}

// Remedy is a scenario of a space, and what would be in use then.
type Remedy struct {
	WhatIfScenario
	e     *whatif.Engine
	edits whatif.Scenario
}

// In returns the bytes in use with the change at the times of the recording, and the buffers, in order, that it makes larger or smaller, moves or
// does without. on is the recorded space, on its own axis or by event. nil if its buffers are groups.
func (r *Remedy) In(on *lifetime.Space) ([]lifetime.Level, []int) {
	if on.Ungrouped != nil {
		return nil, nil
	}
	return r.e.Levels(r.edits, on), r.e.Changes(r.edits)
}

// WhatIfRoom is a range of factors.
type WhatIfRoom struct {
	Low  float64 `json:"low_factor"`  // fits, also if the prediction is as much too low as the worst that was measured; 0 = not even as recorded, or not known
	High float64 `json:"high_factor"` // fits if the prediction is right
	More bool    `json:"more"`        // larger factors were not tried
}

// worthwhile is the share of the peak that a change must save to be shown without being named, as for settings of the
// allocator.
const worthwhile = .02

// autoEngine returns the engine of a space for changes that nobody asked for; nil if there is none. It needs
// categories, and a history of PyTorch's allocator.
func autoEngine(c *judge.Capture, s *lifetime.Space) (e *whatif.Engine) {
	if s != nil && s.Purposes != nil {
		e, _ = c.WhatIf(s)
	}
	return e
}

// pastOf returns the cheapest change with which the last request of a space finds memory; nil if none is known.
func pastOf(c *judge.Capture, s *lifetime.Space) *WhatIfScenario {
	return judge.Once(c, "past", s, func() *WhatIfScenario {
		if e := autoEngine(c, s); e != nil {
			if edits, advice := e.Past(); edits != nil {
				past := scenarioOf(e, edits, e.Capacity())
				past.Advice = advice
				return &past
			}
		}
		return nil
	})
}

// RemediesOf returns the changes that lower the peak of a space as Peak.Savings does, with what would be in use.
func RemediesOf(c *judge.Capture, s *lifetime.Space) []Remedy {
	return judge.Once(c, "remedies", s, func() []Remedy {
		if e := autoEngine(c, s); e != nil {
			return lowering(c, s, e, 0)
		}
		return nil
	})
}

// unchangedOf returns what changes lower if that is not the recorded peak: the next step, or the program with the request that failed; else nil.
func unchangedOf(e *whatif.Engine) *WhatIfScenario {
	if !e.OneStep && e.Capacity() == 0 {
		return nil
	}
	return new(scenarioOf(e, e.Start(), 0))
}

// tries are the changes that a page offers, in the order in which people try them. All combinations of them take many times as long as all else.
var tries = [...]string{"batch=0.5", "batch=2", "checkpoint=blocks", "optimizer=adam8bit", "optimizer.device=host", "shard=8:optimizer", "shard=8:parameters"}

// TriesOf returns what a space would need with each change that people try and it allows; nil if they cannot be predicted in time.
func TriesOf(c *judge.Capture, s *lifetime.Space) iter.Seq[Remedy] {
	e := autoEngine(c, s)
	if e == nil || len(cmp.Or(s.Ungrouped, s).Buffers) > c.Limits.Tries {
		return nil
	}
	known := slices.Clip(RemediesOf(c, s))
	return func(yield func(Remedy) bool) {
		for _, edit := range tries {
			i := slices.IndexFunc(known, func(r Remedy) bool { return r.edits.String() == edit })
			if scenario, _ := whatif.Parse(edit); i < 0 {
				i, known = len(known), append(known, Remedy{scenarioOf(e, scenario, e.Capacity()), e, scenario})
			}
			if known[i].Refused == "" && !yield(known[i]) {
				return
			}
		}
	}
}

func scenariosOf(remedies []Remedy) []WhatIfScenario {
	all := []WhatIfScenario{}
	for i := range remedies {
		all = append(all, remedies[i].WhatIfScenario)
	}
	return all
}

// lowering returns the changes that save a part of the peak that is worthwhile, the cheapest first.
func lowering(c *judge.Capture, s *lifetime.Space, e *whatif.Engine, capacity int64) (all []Remedy) {
	for _, r := range e.Remedies() {
		one := scenarioOf(e, r.Scenario, capacity)
		if one.Refused != "" || !e.Lowers(*one.HighBytes) || float64(*one.SavedBytes) < worthwhile*float64(e.Needs.Peak) {
			continue // it may raise the peak, or saves little
		}
		one.Advice = r.Advice
		if r.Held != 0 {
			site := siteOf(&c.Tables, &s.SpaceInfo, r.Held)
			one.Site = &site
		}
		all = append(all, Remedy{one, e, r.Scenario})
	}
	return all
}

// WhatIfAsked is what memlane whatif answers.
type WhatIfAsked struct {
	Scenarios []whatif.Scenario // nil = those that lower the peak by 2 %, the cheapest first
	Capacity  int64             // bytes; 0 = that of a recorded OOM
	Search    bool              // find scenarios that fit the capacity
	Stop      func() error      // ends a search with an error
	Changed   *Changed          // filled with the first scenario that can be predicted; nil = not wanted
}

// Changed is a memory ID as it was recorded, and as it would be in a scenario.
type Changed struct {
	Before, After *lifetime.Capture
	Scenario      WhatIfScenario
}

// WhatIfOf returns what the spaces of a capture would need in scenarios. It fails with a *selection.NothingError if
// there is neither a history of PyTorch's allocator nor a compiled program, or nothing to search for.
func WhatIfOf(c *judge.Capture, asked WhatIfAsked) (spaces []WhatIfSpace, err error) {
	c.Limits = judge.Asked
	for _, s := range c.Spaces {
		h := c.Replay(s)
		if h == nil {
			continue
		}
		out := WhatIfSpace{File: c.Sources[s.Source].File, ID: s.ID(), Replay: new(replayOf(h)), Scenarios: []WhatIfScenario{}}
		if e, _ := c.WhatIf(s); e != nil {
			out.Unfinished, out.Failed = e.Unfinished, e.Capacity() > 0
			capacity := cmp.Or(asked.Capacity, e.Capacity())
			if capacity > 0 {
				out.CapacityBytes = &capacity
			}
			out.Scenarios = append(out.Scenarios, scenarioOf(e, nil, capacity))
			if out.OneStep = e.OneStep; e.OneStep {
				out.Scenarios = append(out.Scenarios, scenarioOf(e, e.Start(), capacity))
			}
			given := len(out.Scenarios) // what follows was asked, or is offered
			for _, edits := range asked.Scenarios {
				out.Scenarios = append(out.Scenarios, scenarioOf(e, edits, capacity))
			}
			if asked.Scenarios == nil && !asked.Search {
				out.Scenarios = append(out.Scenarios, scenariosOf(lowering(c, s, e, capacity))...)
			}
			if asked.Search {
				if err := out.search(e, capacity, asked.Stop); err != nil {
					return nil, err
				}
			}
			if asked.Changed != nil && asked.Changed.After == nil {
				if err := asked.Changed.set(e, out.Scenarios[given:]); err != nil {
					return nil, err
				}
			}
		}
		spaces = append(spaces, out)
	}
	switch {
	case spaces != nil:
	case slices.ContainsFunc(c.Spaces, func(s *lifetime.Space) bool { return static(&s.SpaceInfo) }):
		plan, err := planOf(c, asked)
		return []WhatIfSpace{plan}, err
	default:
		return nil, unreplayed(c, "")
	}
	return spaces, nil
}

// set takes the first scenario that can be predicted, if there is one.
func (c *Changed) set(e *whatif.Engine, scenarios []WhatIfScenario) error {
	at := slices.IndexFunc(scenarios, func(s WhatIfScenario) bool { return len(s.Edits) > 0 && s.Refused == "" })
	if at < 0 {
		return nil
	}
	c.Scenario = scenarios[at]
	edits, err := whatif.Parse(strings.Join(c.Scenario.Edits, ","))
	if err == nil {
		c.Before, _ = e.Capture(e.Start())
		c.Before.Sources[c.Before.Spaces[0].Source].File += ", replayed" // the peak may differ from the recorded one
		c.After, _ = e.Capture(edits)
	}
	return err
}

// NewWhatIf combines the results for memory IDs.
func NewWhatIf(spaces []WhatIfSpace) *WhatIf {
	out := &WhatIf{Schema: schema, Spaces: spaces}
	if len(spaces) > 0 {
		out.Next = commandLine("peak", "--by", "category", spaces[0].File)
	}
	return out
}

// search adds the scenarios that fit.
func (s *WhatIfSpace) search(e *whatif.Engine, capacity int64, stop func() error) error {
	if capacity == 0 {
		return &selection.NothingError{File: s.File, Why: "no capacity is known: give --capacity"}
	}
	s.Searched = true
	start := len(s.Scenarios) - 1 // nothing is changed
	plans, err := e.Search(capacity, stop)
	if s.Long = err == whatif.ErrLong; s.Long {
		err = nil
	}
	for _, p := range plans {
		r := &s.Scenarios[start]
		if len(p.Scenario) > 0 {
			s.Scenarios = append(s.Scenarios, scenarioOf(e, p.Scenario, capacity))
			r = &s.Scenarios[len(s.Scenarios)-1]
		}
		r.Batch, r.Sequence = roomOf(p.Batch), roomOf(p.Sequence)
	}
	return err
}

func roomOf(r whatif.Room) *WhatIfRoom {
	if r.High == 0 {
		return nil
	}
	return &WhatIfRoom{r.Low, r.High, r.Low >= whatif.MaxGrowth}
}

func scenarioOf(e *whatif.Engine, edits whatif.Scenario, capacity int64) WhatIfScenario {
	r := e.Run(edits, replay.Device{})
	out := WhatIfScenario{Edits: edits.Texts(), Refused: r.Refused, Exact: r.Exact, Recomputed: r.Recomputed, Passes: r.Passes}
	if r.Refused != "" {
		return out
	}
	saved := e.Needs.Peak - r.Peak
	out.CopiedBytes, out.SavedBytes, out.ReplayedBytes, out.How = r.Copied, &saved, &r.Peak, howKnown(false, r.Exact)
	fits, sure := false, false
	if capacity > 0 {
		fits, sure = e.Fits(edits, &r, capacity)
		switch {
		case sure && (!fits || !e.Unfinished):
			out.Fits = &fits
		case !sure && !e.Unfinished:
			out.FitsShare = new(whatif.FitsShare[fits])
		}
	}
	out.PeakBytes, out.LowBytes, out.HighBytes = &r.Peak, &r.Low, &r.High
	out.PeakReservedBytes, out.ReservedLowBytes, out.ReservedHighBytes = &r.Reserved, &r.ReservedLow, &r.ReservedHigh
	switch {
	case len(edits) == 0:
		out.PeakBytes, out.LowBytes, out.HighBytes, r.Reserved, r.ReservedLow, r.ReservedHigh = &e.Peak, &e.Peak, &e.Peak, e.Reserved, e.Reserved, e.Reserved
		out.SavedBytes, out.How = new(int64), howKnown(true, true)
	case fits: // it releases what it has cached before it needs more
		r.Reserved, r.ReservedLow, r.ReservedHigh = min(r.Reserved, capacity), min(r.ReservedLow, capacity), min(r.ReservedHigh, capacity)
	}
	return out
}
