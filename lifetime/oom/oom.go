// Package oom says why allocations failed: in recordings, in the texts that programs print, and in plans of compiled programs
// that are larger than a device. It gives the one diagnosis that every answer prints.
package oom

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/replay"
)

// Diagnosis is why an allocation failed, and what to do.
type Diagnosis struct {
	Space           *lifetime.Space
	Mark            *lifetime.Mark // the failed request
	failure.Failure                // what is known at that instant: what a text says, else what the recording has

	Reason     Reason
	Confidence float64 // of the reason, 0 to 1, as measured
	Words      string  // the reason as a clause
	Advice     string  // one thing to do
	Sure       float64 // confidence that a plan needs as little with the advice as Proof says, as measured; 0 if it is not
	Proof      string  // how it is known that the advice helps; "" if it is not

	Inferred bool // no failed request was recorded: a peak is compared with a limit
	Brief    bool // one of very many failures: who held memory is not listed

	Leak     *Grown    // the largest leak below it; nil if there is none
	Released int64     // bytes given back to the device right before, to make room
	Retries  int64     // earlier requests that fitted only after the allocator gave memory back
	Replayed *Replayed // nil if the recording cannot be replayed

	// What the rows look at besides. Figures that are not known are -1, unless a comment says else.
	by                      framework
	asked, free             int64           // of the mark
	account                 failure.Account // who has the memory
	loads                   bool            // the request is for a program of XLA
	size, padding, exceeded int64           // of a program that did not compile
	usable                  region.Holes    // of a recording: reserved, free and of the stream and pool of the request
	privatePools            int64           // of a recording: free in private pools
	elsewhere               int64           // of a recording: free for other streams, if that of the request has too little
	reachable               int64           // of a recording: what the allocator could have if it were empty
	pool                    int64           // of TensorFlow: what its pool could use if it split small rests
	held                    int64           // of a text of PyTorch: reserved, also if only its parts are known
	idle, unalloc           int64           // of a text of PyTorch, 0 if not known
	unexplained             int64           // used, but by neither the allocator nor a listed process
}

// How returns how the reason is known: an exact replay may prove it.
func (d *Diagnosis) How() purpose.How {
	if d.Reason == Fragmented && d.Replayed != nil && d.Replayed.Conf != "" {
		return purpose.Derived
	}
	return purpose.Inferred
}

// Grown is a leak below a failure, or what looks like one and may be data that is loaded.
type Grown struct {
	Site       lifetime.SiteID
	Amount     lifetime.Amount
	PerStep    float64 // bytes; 0 if steps are unknown
	Confidence float64
	Advice     string
	Kept       []int // its buffers, indices into the space
	Loads      bool  // it may be data that is loaded
}

// Replayed is what a replay of PyTorch's allocator says about a failure.
type Replayed struct {
	Recorded int64  // peak of reserved memory with the recorded settings
	Conf     string // PYTORCH_CUDA_ALLOC_CONF with which the request would have fit; "" = none is known
	Peak     int64  // of reserved memory with Conf
}

// Why returns the reason with its words: "fragmented: enough is reserved and free, but in smaller pieces".
func (d *Diagnosis) Why() string {
	return strings.ReplaceAll(string(d.Reason), "_", " ") + ": " + d.Words
}

// Caught reports whether the program went on.
func (d *Diagnosis) Caught() bool { return d.Reason == Survived }

// Of many failures in one space only the first are described as a whole, and fewer are judged with a replay: each costs as much as
// reading the space again. The state at an instant costs what is alive then.
const (
	leastWhole = 8
	mostWork   = 10_000_000 // buffers to look at
	maxJudged  = 4
)

// CapacityFor returns capacity for the spaces of the memory that it is given for, 0 for others: main memory, or if the spaces have none,
// all of them.
func CapacityFor(s *lifetime.Space, spaces []*lifetime.Space, capacity int64) int64 {
	if !s.IsMain() && slices.ContainsFunc(spaces, (*lifetime.Space).IsMain) {
		return 0
	}
	return capacity
}

// Needed returns the bytes that a compiled program needs of the memory of a space.
func Needed(s *lifetime.Space) int64 { return max(region.Planned(s), s.Peak(lifetime.Occupied).Bytes) }

// Facts are what a diagnosis asks of a recording until a failure. Package judge has them.
type Facts struct {
	Leaks  func(until *lifetime.Space) []Grown
	Replay func(until *lifetime.Space) *replay.Recording // nil if the allocator cannot be replayed, or that takes too long
}

// Of returns the failures of a space, first the one that ended the program: what a launcher names as the first, then what was not
// survived, in order. Without any, it returns an inferred one for a compiled program that is larger than the device, and for a
// recording that ends close to the limit. capacity is that of the device in bytes, 0 = as recorded.
func Of(t *lifetime.Tables, s *lifetime.Space, capacity int64, facts Facts) []Diagnosis {
	if capacity > 0 {
		limited := *s
		limited.Limit = capacity
		s = &limited
	}
	var all []Diagnosis
	most := max(leastWhole, mostWork/(len(s.Buffers)+1))
	whole, judged := map[bool]int{}, 0 // survived ones apart: they must not hide the one that ended the program
	survivor, now, work := Survivors(s), region.Moments(s), 0
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Kind != lifetime.OOM {
			continue
		}
		survived := survivor(m)
		d := Diagnosis{Space: s, Mark: m, Brief: whole[survived] >= most}
		whole[survived]++
		var state *lifetime.Space
		if !d.Brief || work < mostWork {
			state = now(m.Begin)
			work += len(state.Buffers) + len(state.Regions)
		}
		d.judge(t, state, survived)
		if m.Failure == nil && !d.Brief && !survived && judged < maxJudged {
			judged++
			judgeRecording(t, &d, facts)
		}
		all = append(all, d)
	}
	if all == nil {
		return inferred(t, s, facts)
	}
	order := func(d *Diagnosis) int {
		switch {
		case d.First:
			return 0
		case !d.Caught():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(x, y Diagnosis) int {
		return cmp.Or(order(&x)-order(&y), cmp.Compare(x.Mark.Begin, y.Mark.Begin))
	})
	return all
}

// judge sets what is known of the failure, its reason, and for a compiled program the changes that help. now is the space with what is
// alive then; nil if there are too many failures to look at it.
func (d *Diagnosis) judge(t *lifetime.Tables, now *lifetime.Space, survived bool) {
	because := &row{reason: Unknown}
	switch d.Failure = failure.Unknown(""); {
	case now != nil || d.Mark.Failure != nil:
		d.state(cmp.Or(now, d.Space), survived)
		d.look(t)
		because = d.rowOf()
	case survived:
		because = &row{reason: Survived}
	}
	d.because(t, because)
	if d.Space.Axis == lifetime.ProgramOrder && !d.Brief && !onChip(d.Space) {
		d.remedies(t)
	}
}

func (d *Diagnosis) evidence() string {
	switch {
	case d.Inferred && d.Source == "":
		return fromPeak
	case d.Planned:
		return fromPlan
	}
	return cmp.Or(d.Source, fromRecording)
}

func (d *Diagnosis) because(t *lifetime.Tables, r *row) {
	words := r.reason.Words()
	switch {
	case r.reason == Exhausted && !d.isFull():
		words = notFull
	case r.reason == Fragmented && d.Unallocated < d.asked && d.pool >= d.asked:
		words = withRests
	}
	d.Reason, d.Words = r.reason, d.fill(cmp.Or(r.words, words))
	d.Confidence = confidenceOf(d.evidence(), d.Reason)
	d.by = frameworkOf(d.Source, &t.Sources[d.Space.Source])
	d.Advice = d.fill(cmp.Or(r.advice, d.general(d.by)))
}

// inferred returns the failure of a space without a recorded one, if its peak shows one.
func inferred(t *lifetime.Tables, s *lifetime.Space, facts Facts) []Diagnosis {
	const (
		close = 0.95 // share of the limit
		late  = 0.9  // share of the recording
	)
	program, capacity := s.Axis == lifetime.ProgramOrder, s.Limit
	if capacity <= 0 {
		return nil
	}
	peak, needed := s.Peak(lifetime.Occupied), Needed(s)
	d := Diagnosis{Space: s, Mark: &lifetime.Mark{Begin: peak.At, End: peak.At, Kind: lifetime.OOM}, Inferred: true}
	switch {
	case program && needed > capacity:
		said := failure.Unknown(failure.FromCompiler)
		said.Needed, said.Capacity, said.Exceeded = needed, capacity, needed-capacity
		d.Mark.Failure = &said
		d.judge(t, s, false)
	case !program && float64(peak.Bytes) >= close*float64(capacity) && float64(peak.At-s.Begin) >= late*float64(s.End-s.Begin):
		d.state(s, false)
		d.because(t, &row{reason: Exhausted})
		judgeRecording(t, &d, facts)
		d.Words = fmt.Sprintf("no failed request was recorded, but the peak is %s below the capacity", units.Bytes(max(capacity-peak.Bytes, 0)))
	default:
		return nil
	}
	return []Diagnosis{d}
}
