package answer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/lifetime/whatif"
)

// WhatIf is the result of memlane whatif: what programs would need if they were changed.
type WhatIf struct {
	Schema string        `json:"schema"` // "memlane/1"
	Next   string        `json:"next"`   // command that tells more, or what to record for it; empty if none does
	Spaces []WhatIfSpace `json:"spaces"` // memory IDs with a history of PyTorch's allocator
}

// WhatIfSpace is the result for one memory ID.
type WhatIfSpace struct {
	File          string           `json:"file"`           // name on the command line
	ID            string           `json:"id"`             // memory ID
	Replay        Replay           `json:"replay"`         // how much of the recording the rules of the allocator predict
	CapacityBytes *int64           `json:"capacity_bytes"` // of --capacity, or of a recorded OOM; null if neither is known
	Searched      bool             `json:"searched"`       // scenarios that fit the capacity were searched for: those are all, the cheapest first
	Scenarios     []WhatIfScenario `json:"scenarios"`      // the recording first; empty if nothing can be predicted
}

// WhatIfScenario is what a program would need with some changes.
type WhatIfScenario struct {
	Edits             []string    `json:"edits"`                    // the changes, such as "batch=2"; empty for the recording
	Refused           string      `json:"refused"`                  // why there are no figures; empty if there are
	Exact             bool        `json:"exact"`                    // the peak was right to the byte for all programs that were tried
	PeakBytes         int64       `json:"peak_bytes"`               // highest allocated memory, as torch.cuda.max_memory_allocated
	LowBytes          int64       `json:"low_bytes"`                // the highest allocated memory is at least this
	HighBytes         int64       `json:"high_bytes"`               // and at most this
	SavedBytes        int64       `json:"saved_bytes"`              // by how much peak_bytes is below that of the recording
	PeakReservedBytes int64       `json:"peak_reserved_bytes"`      // highest reserved memory
	ReservedLowBytes  int64       `json:"peak_reserved_low_bytes"`  // the highest reserved memory is at least this
	ReservedHighBytes int64       `json:"peak_reserved_high_bytes"` // and at most this
	Fits              *bool       `json:"fits"`                     // whether it fits the capacity; null without a capacity, and where the ranges leave it open
	Recomputed        int64       `json:"recomputed"`               // buffers that each step computes again
	CopiedBytes       int64       `json:"copied_bytes"`             // to and from the host in each step
	Passes            int         `json:"passes"`                   // forward and backward passes that each step has more
	Batch             *WhatIfRoom `json:"largest_batch"`            // how far the batch can grow until it does not fit; null = not searched
	Sequence          *WhatIfRoom `json:"longest_sequence"`         // the same for the length of sequences; null also if the recording does not tell
}

// WhatIfRoom is a range of factors.
type WhatIfRoom struct {
	Low  float64 `json:"low_factor"`  // fits, also if the prediction is as much too low as the worst that was measured; 0 = not even as recorded
	High float64 `json:"high_factor"` // fits if the prediction is right
}

// tried are the scenarios of a command that names none.
var tried = []string{"checkpoint=blocks", "optimizer=adam8bit", "optimizer.device=host", "foreach=off", "loss.chunks=8", "offload=activations", "batch=0.5"}

// worthwhile is the share of the peak that a change must save to be shown without being named, as for settings of the allocator.
const worthwhile = .02

// WhatIfAsked is what memlane whatif answers.
type WhatIfAsked struct {
	Scenarios []whatif.Scenario // nil = those that may lower the peak; what saves 2 % of it is kept
	Capacity  int64             // bytes; 0 = that of a recorded OOM
	Search    bool              // find scenarios that fit the capacity
	Stop      func() error      // ends a search with an error
}

// WhatIfOf returns what the spaces of a capture would need in scenarios. It fails with a *selection.NothingError if there is no history of
// PyTorch's allocator, or nothing to search for.
func WhatIfOf(c *lifetime.Capture, asked WhatIfAsked) (spaces []WhatIfSpace, err error) {
	scenarios := asked.Scenarios
	all := scenarios == nil && !asked.Search
	if all {
		for _, text := range tried {
			s, err := whatif.Parse(text)
			if err != nil {
				return nil, err
			}
			scenarios = append(scenarios, s)
		}
	}
	for _, s := range c.Spaces {
		h := replay.Of(s, c.Sources[s.Source].Settings)
		if h == nil {
			continue
		}
		law, _ := ReplayOf(h)
		out := WhatIfSpace{File: c.Sources[s.Source].File, ID: s.ID(), Replay: law, Scenarios: []WhatIfScenario{}}
		if e, _ := whatif.New(&c.Tables, s); e != nil {
			capacity := cmp.Or(asked.Capacity, e.Capacity())
			out.scenarios(e, scenarios, all, capacity)
			if asked.Search {
				if err := out.search(e, capacity, asked.Stop); err != nil {
					return nil, err
				}
			}
		}
		spaces = append(spaces, out)
	}
	if spaces == nil {
		return nil, &selection.NothingError{File: c.Name(), Why: "no history of PyTorch's allocator; record one with torch.cuda.memory._record_memory_history()"}
	}
	return spaces, nil
}

// Changed returns the first memory ID of a capture with a scenario that can be predicted, as it was recorded and as it would be, both
// as captures. It fails with a *selection.NothingError if there is none.
func Changed(c *lifetime.Capture, spaces []WhatIfSpace) (before, after *lifetime.Capture, err error) {
	for i := range spaces {
		at := slices.IndexFunc(spaces[i].Scenarios, func(s WhatIfScenario) bool { return len(s.Edits) > 0 && s.Refused == "" })
		of := slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.ID() == spaces[i].ID })
		if at < 0 || of < 0 {
			continue
		}
		edits, err := whatif.Parse(strings.Join(spaces[i].Scenarios[at].Edits, ","))
		if err != nil {
			return nil, nil, err
		}
		e, _ := whatif.New(&c.Tables, c.Spaces[of])
		before, _ = e.Capture(nil)
		after, _ = e.Capture(edits)
		return before, after, nil
	}
	return nil, nil, &selection.NothingError{File: c.Name(), Why: "no change can be predicted; see memlane whatif without -o"}
}

// Complete sets Next.
func (w *WhatIf) Complete() {
	if len(w.Spaces) > 0 {
		w.Next = commandLine("peak", "--by", "category", w.Spaces[0].File)
	}
}

func (s *WhatIfSpace) scenarios(e *whatif.Engine, scenarios []whatif.Scenario, saving bool, capacity int64) {
	if capacity > 0 {
		s.CapacityBytes = &capacity
	}
	s.Scenarios = append(s.Scenarios, scenarioOf(e, nil, capacity))
	for _, edits := range scenarios {
		r := scenarioOf(e, edits, capacity)
		if saving && float64(r.SavedBytes) < worthwhile*float64(e.Recorded.Peak) {
			continue
		}
		s.Scenarios = append(s.Scenarios, r)
	}
	if saving {
		slices.SortStableFunc(s.Scenarios[1:], func(x, y WhatIfScenario) int { return cmp.Compare(x.PeakBytes, y.PeakBytes) })
	}
}

// search adds the scenarios that fit.
func (s *WhatIfSpace) search(e *whatif.Engine, capacity int64, stop func() error) error {
	if capacity == 0 {
		return &selection.NothingError{File: s.File, Why: "no capacity is known: give --capacity"}
	}
	s.Searched = true
	plans, err := e.Search(capacity, stop)
	for _, p := range plans {
		r := &s.Scenarios[0] // the recording
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
	return &WhatIfRoom{r.Low, r.High}
}

func scenarioOf(e *whatif.Engine, edits whatif.Scenario, capacity int64) WhatIfScenario {
	r := e.Run(edits, replay.Device{})
	out := WhatIfScenario{
		Edits: []string{}, Refused: r.Refused, Exact: r.Exact, PeakBytes: r.Peak, LowBytes: r.Low, HighBytes: r.High,
		PeakReservedBytes: r.Reserved, ReservedLowBytes: r.ReservedLow, ReservedHighBytes: r.ReservedHigh,
		Recomputed: r.Recomputed, CopiedBytes: r.Copied, Passes: r.Passes,
	}
	for i := range edits {
		out.Edits = append(out.Edits, edits[i].String())
	}
	if r.Refused != "" {
		return out
	}
	out.SavedBytes = e.Recorded.Peak - r.Peak
	if fits, sure := r.Fits(capacity); sure && capacity > 0 {
		out.Fits = &fits
	}
	return out
}
