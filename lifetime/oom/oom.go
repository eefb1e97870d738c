// Package oom says why allocations failed: in recordings, in the texts that programs print, and in plans of compiled programs
// that are larger than a device. It gives the one diagnosis that every answer prints.
package oom

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/region"
)

// Diagnosis is why an allocation failed, and what to do.
type Diagnosis struct {
	Space *lifetime.Space
	Mark  *lifetime.Mark  // the failed request
	State failure.Failure // at that instant: what a text says, else what the recording has

	Reason     Reason
	Confidence float64 // of the reason, 0 to 1, as measured
	Words      string  // the reason as a clause
	Advice     string  // one thing to do
	Proof      string  // how it is known that the advice helps; "" if it is not

	Inferred bool // no failed request was recorded: a peak is compared with a limit
	Brief    bool // one of very many failures: only its request and whether it was survived are known

	Leak     *Grown    // the largest leak below it; nil if there is none
	Released int64     // bytes given back to the device right before, to make room
	Retries  int64     // earlier requests that fitted only after the allocator gave memory back
	Replayed *Replayed // nil if the recording cannot be replayed
}

// Grown is a leak below a failure.
type Grown struct {
	Site       lifetime.SiteID
	Amount     lifetime.Amount
	PerStep    float64 // bytes; 0 if steps are unknown
	Confidence float64
	Advice     string
	Kept       []int // its buffers, indices into the space
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
// reading the space again.
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

// Of returns the failures of a space, first the one that ended the program: what a launcher names as the first, then what was not
// survived, in order. Without any, it returns an inferred one for a compiled program that is larger than the device, and for a
// recording that ends close to the limit. capacity is that of the device in bytes, 0 = as recorded. leaks finds the leaks in the
// recording until a failure.
func Of(t *lifetime.Tables, s *lifetime.Space, capacity int64, leaks func(until *lifetime.Capture) []Grown) []Diagnosis {
	if capacity > 0 {
		limited := *s
		limited.Limit = capacity
		s = &limited
	}
	var all []Diagnosis
	most := max(leastWhole, mostWork/(len(s.Buffers)+1))
	whole, judged := map[bool]int{}, 0 // survived ones apart: they must not hide the one that ended the program
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Kind != lifetime.OOM {
			continue
		}
		survived := DidSurvive(s, m)
		d := Diagnosis{Space: s, Mark: m, Brief: whole[survived] >= most}
		whole[survived]++
		d.judge(t)
		if m.Failure == nil && !d.Brief && !survived && judged < maxJudged {
			judged++
			judgeRecording(t, &d, leaks)
		}
		all = append(all, d)
	}
	if all == nil {
		return inferred(t, s, leaks)
	}
	order := func(d *Diagnosis) int {
		switch {
		case d.State.First:
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

// judge sets the state and the reason.
func (d *Diagnosis) judge(t *lifetime.Tables) {
	s, m := d.Space, d.Mark
	f := &facts{Failure: failure.Unknown("")} // nothing is known of one that is told briefly
	switch {
	case !d.Brief || m.Failure != nil:
		d.State = stateAt(s, m)
		f = factsOf(s, m, &d.State)
		d.because(t, f.reason(d.evidence()))
	case DidSurvive(s, m):
		d.State = failure.Unknown("")
		d.because(t, Survived)
	default:
		d.State = failure.Unknown("")
		d.because(t, Unknown)
	}
	switch {
	case d.State.Absurd, d.Reason == Larger && m.Requested >= absurd:
		d.Advice = "Look for a wrong size: a negative or overflowed shape, or ranks that are out of step."
	case d.Reason == Host && m.Requested >= absurdOnHost:
		d.Words = units.Bytes(m.Requested) + " at once do not fit into host memory"
		d.Advice = "Look for a wrong size: a shape, a product of shapes, or a broadcast."
	case d.Reason == Host && (s.Memory == "pinned" || s.Device == "host"):
		d.Advice = "Reduce pinned host memory, or add memory."
	case d.Reason == Exhausted && d.isScratch():
		d.Words = "the temporaries of the program do not fit: it needs " + units.Bytes(d.State.Scratch) + " for them in one block"
		d.Advice = "Use a smaller batch, recompute (jax.checkpoint), or compute the largest in blocks."
	case d.Reason == Fragmented && t.Sites[m.Site].Op == failure.LoadProgram:
		d.Advice = "Load the program before other arrays, or free arrays before it runs."
	case d.Reason == NotGranted && d.State.Growth:
		d.Words = "the driver refused to enlarge the pool"
	case d.Reason == Exhausted && d.State.Capacity > 0 && d.State.Live > d.State.Capacity:
		d.Words = "the program holds more than the device has: the driver moves it to host memory"
	case d.Reason == Unknown && d.State.Cut:
		d.Words = "the text is cut off before the figures that decide"
	case d.Reason == Unknown && m.Requested == 0 && f.isLater():
		d.Words = "the figures are of a later moment: an allocator that fails keeps no whole free segments"
	case d.Reason == Fragmented && m.Requested == 0 && d.State.InPieces >= 0:
		d.Words = fmt.Sprintf("%s of %s reserved are free, but in pieces", units.Bytes(d.State.InPieces), units.Bytes(d.State.Reserved))
	case d.single():
		d.Words = "this one request is larger than all live buffers together"
		d.Advice = Larger.advice("", other, "")
	case d.Reason == Exhausted && d.State.Source == failure.FromTensorFlow && f.freeInPieces():
		d.Words += ", and the little that is free is in pieces"
	case d.Reason == Outside && f.processHolds() && !f.othersHold():
		d.Words = "the process itself holds " + units.Bytes(f.ownOutside()) + " outside of this allocator"
		d.Advice = "Find what else allocates in this process: NCCL, cuDNN, RMM, another framework."
	case d.Reason == Outside && d.State.Source == failure.FromXLA:
		d.Words = "the program is small: other arrays or another process hold the memory"
	case d.State.Source == failure.FromVLLM && d.State.Capacity > 0:
		d.Advice = fmt.Sprintf("Lower gpu_memory_utilization to %.2f, or free what others hold; see %s.",
			math.Floor(100*float64(m.Free.Or(0))/float64(d.State.Capacity))/100, monitorOf("cuda"))
	case d.Reason == Limit && d.State.Source == failure.FromTorch && m.Free.Or(-1) < 0 && m.Requested > d.State.Allowed && d.State.Allowed > 0:
		d.Advice = "Allocate smaller blocks: the platform limits the size of one."
	case m.Failure != nil && strings.Contains(m.Text, "KV ") && d.Reason == Exhausted:
		d.Advice = "Lower gpu_memory_utilization (vLLM) or mem_fraction_static (SGLang): the KV cache took the rest."
	}
	if onChip(s) && d.Reason == Larger {
		d.Advice = "Use smaller blocks in the kernel, or raise vmem_limit_bytes (on-chip memory)."
	} else if s.Axis == lifetime.ProgramOrder && !d.Brief {
		d.remedies(t)
	}
}

// single reports whether the request alone is larger than all that is live: the memory is not full of buffers.
func (d *Diagnosis) single() bool {
	said := d.State.Source
	return d.Reason == Exhausted && d.State.Live >= 0 && d.Mark.Requested > units.AddSat(d.State.Live, max(d.State.Idle, 0)) &&
		(said == "" || said == failure.FromTorch || said == failure.FromTensorFlow)
}

// isScratch reports whether the request is for the temporaries of a program of XLA.
func (d *Diagnosis) isScratch() bool {
	gap := d.Mark.Requested - d.State.Scratch
	return d.State.Scratch > 0 && max(gap, -gap) <= 2*d.State.Rounding
}

// evidence returns the kind of evidence.
func (d *Diagnosis) evidence() string {
	if d.Inferred && d.State.Source == "" {
		return fromPeak
	}
	return cmp.Or(d.State.Source, fromRecording)
}

// because sets the reason, with its confidence, words and advice.
func (d *Diagnosis) because(t *lifetime.Tables, r Reason) {
	d.Reason, d.Words = r, r.Words()
	d.Confidence = confidenceOf(d.evidence(), r)
	if r == Fragmented && d.State.Source == failure.FromTorch {
		if d.Advice = fewSizes; d.State.Setting != "" {
			d.Advice = "Set " + d.State.Setting + "; bucket batch sizes."
		}
		return
	}
	d.Advice = r.advice(d.State.Source, frameworkOf(d.State.Source, &t.Sources[d.Space.Source]), d.Space.Device)
}

// inferred returns the failure of a space without a recorded one, if its peak shows one.
func inferred(t *lifetime.Tables, s *lifetime.Space, leaks func(*lifetime.Capture) []Grown) []Diagnosis {
	const (
		close = 0.95 // share of the limit
		late  = 0.9  // share of the recording
	)
	program, capacity := s.Axis == lifetime.ProgramOrder, s.Limit
	if capacity <= 0 {
		return nil
	}
	peak := s.Peak(lifetime.Occupied)
	d := Diagnosis{Space: s, Mark: &lifetime.Mark{Begin: peak.At, End: peak.At, Kind: lifetime.OOM}, Inferred: true}
	needed := max(region.Planned(s), peak.Bytes)
	switch {
	case program && needed > capacity:
		said := failure.Unknown(failure.FromCompiler)
		said.Needed, said.Capacity, said.Exceeded = needed, capacity, needed-capacity
		d.Mark.Failure = &said
		space := *s
		space.Marks = append(slices.Clone(s.Marks), *d.Mark)
		d.Space = &space
		d.judge(t)
	case !program && float64(peak.Bytes) >= close*float64(capacity) && float64(peak.At-s.Begin) >= late*float64(s.End-s.Begin):
		d.State = stateAt(s, d.Mark)
		d.State.Survived = false
		d.because(t, Exhausted)
		judgeRecording(t, &d, leaks)
		d.Words = fmt.Sprintf("no failed request was recorded, but the peak is %s below the capacity", units.Bytes(max(capacity-peak.Bytes, 0)))
	default:
		return nil
	}
	return []Diagnosis{d}
}
