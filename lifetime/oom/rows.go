package oom

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/region"
)

// The kinds of evidence for a reason: the kinds of texts (failure.Failure.Source), and these.
const (
	fromRecording = "recording"  // a recorded event, whose state is exact
	fromPeak      = "near_limit" // the peak at the end of a recording without a failed request
)

// The thresholds of the reasons. Those of texts are also in docs/manual/oom.md.
const (
	absurd        = 1 << 44  // bytes of a request that no device has
	absurdOnHost  = 1 << 40  // the same, of host memory
	clearlyFree   = 64 << 20 // free bytes beyond the request that show a refusal
	othersShare   = 0.1      // of the device, that others hold
	outsideAtOnce = 1 << 30  // bytes that no listed process explains
	littleProgram = 1 << 30  // bytes of a program that fills no device
	freeShare     = 0.1      // of the reserved bytes, that are free
	littleShare   = 0.01     // the same, if it is twice the request
	oftenFree     = 0.25     // the same, if the request is not known
	ownAtOnce     = 2 << 30  // bytes of the process itself that its allocator does not have
	paddedShare   = 0.6      // of the listed buffers, that are not padding
)

// facts are what the rows of the table look at. Figures that are not known are -1, unless a comment says else.
type facts struct {
	failure.Failure
	requested, free int64 // of the mark
	cpu             bool

	size, padding, exceeded int64 // of a program that did not compile
	onChip                  bool

	usable        region.Holes // of a recording: reserved, free and of the stream and pool of the request
	privatePools  int64        // of a recording: free in private pools
	reachable     int64        // of a recording: what the allocator could have if it were empty
	pool          int64        // of TensorFlow: what its pool could use if it split small rests
	held          int64        // of a text of PyTorch: reserved, also if only its parts are known
	idle, unalloc int64        // of a text of PyTorch, 0 if not known
	unexplained   int64        // used, but by neither the allocator nor a listed process
}

// factsOf returns the facts about a failure.
func factsOf(s *lifetime.Space, m *lifetime.Mark, state *failure.Failure) *facts {
	f := &facts{Failure: *state, requested: m.Requested, free: m.Free.Or(-1), cpu: s.Device == "cpu", onChip: onChip(s)}
	f.idle, f.unalloc, f.held = max(f.Idle, 0), max(f.Unallocated, 0), f.Reserved
	switch f.Source {
	case failure.FromCompiler:
		for i := range s.Buffers {
			if b := &s.Buffers[i]; isBuffer(s, i) {
				f.size, f.padding = units.AddSat(f.size, b.Size), units.AddSat(f.padding, b.Size-b.Requested)
			}
		}
		for i := range s.Marks {
			if said := s.Marks[i].Failure; said != nil {
				f.exceeded = max(f.exceeded, said.Exceeded)
			}
		}
	case "":
		f.usable, f.privatePools = freeFor(s, m)
		f.reachable = units.AddSat(max(f.Reserved, f.Live), m.Free.Or(0))
	}
	if f.pool = f.Unallocated; f.Requested >= 0 && f.Live >= f.Requested {
		f.pool = units.AddSat(f.pool, f.Live-f.Requested) // the allocator rounds up, and does not split small rests
	}
	if f.held < 0 {
		f.held = max(f.Live, 0) + f.idle
	}
	f.unexplained = f.Unlisted(f.free)
	return f
}

func onChip(s *lifetime.Space) bool { return s.Memory == "vmem" || s.Memory == "smem" }

func share(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }

// row is one way to recognize a reason. from is the kind of evidence, "" for all.
type row struct {
	from   string
	reason Reason
	fits   func(f *facts) bool
}

// rows are tried in order; the first that fits is the reason. Texts are judged with care: PyTorch rounds the request to a
// segment, reads the free bytes after it gave back its cache, counts idle blocks of private pools as allocated, and always
// prints the hint about fragmentation.
var rows = []row{
	{"", Survived, func(f *facts) bool { return f.Survived }},

	{fromRecording, Unknown, func(f *facts) bool { return f.requested == 0 }},
	{fromRecording, Larger, func(f *facts) bool { return f.requested >= absurd || f.Capacity > 0 && f.requested > f.Capacity }},
	{fromRecording, Host, func(f *facts) bool { return f.cpu }},
	{fromRecording, Outside, func(f *facts) bool {
		return f.free >= 0 && f.requested > f.reachable && f.Capacity > 0 && f.Capacity-f.reachable >= f.requested
	}},
	{fromRecording, Larger, func(f *facts) bool { return f.free >= 0 && f.requested > f.reachable }},
	{fromRecording, PrivatePools, func(f *facts) bool {
		return f.privatePools >= f.requested && f.privatePools > f.usable.Total && share(f.privatePools, f.Reserved) >= freeShare
	}},
	{fromRecording, Fragmented, func(f *facts) bool { return f.inPieces() && share(f.Unallocated, f.Reserved) >= freeShare }},
	{fromRecording, Limit, func(f *facts) bool { return f.free >= segmentFor(f.requested) }}, // refused, although the device had it
	{fromRecording, Fragmented, (*facts).inPieces},
	{fromRecording, Fragmented, func(f *facts) bool { // of other streams or of the other size class
		return f.Unallocated >= f.requested && f.usable.Largest < f.requested && share(f.Unallocated, f.Reserved) >= freeShare
	}},
	{fromRecording, Fragmented, func(f *facts) bool { // with what the device has free
		return f.Unallocated+max(f.free, 0) >= f.requested && f.LargestFree < f.requested && float64(f.Unallocated) >= freeShare*float64(f.Reserved)
	}},
	{fromRecording, Outside, func(f *facts) bool {
		return f.Capacity > 0 && f.free >= 0 && f.Reserved > 0 && float64(f.Capacity-f.reachable) >= othersShare*float64(f.Capacity)
	}},
	{fromRecording, Exhausted, always},

	{failure.FromHost, Host, always},
	{failure.FromKernel, Host, always},
	{failure.FromLibrary, Outside, always},
	{failure.FromVLLM, Other, (*facts).othersHold},
	{failure.FromVLLM, Limit, always}, // gpu_memory_utilization
	{failure.FromSGLang, Limit, always},

	{failure.FromCompiler, Padding, func(f *facts) bool {
		return f.padding > 0 && !f.onChip && (f.exceeded > 0 && f.padding >= f.exceeded || float64(f.size-f.padding) < paddedShare*float64(f.size))
	}},
	{failure.FromCompiler, Larger, always},

	{failure.FromXLA, Fragmented, func(f *facts) bool { return f.free >= 0 && f.free >= f.requested }}, // on TPU, whose text has the free bytes
	{failure.FromXLA, Exhausted, func(f *facts) bool { return f.free >= 0 }},

	{"", Larger, func(f *facts) bool { return f.Absurd || f.requested >= absurd }},
	{"", Outside, func(f *facts) bool { return f.ofMPS() && f.InProcess-f.Live > f.InProcess/2 }},
	{"", Limit, (*facts).ofMPS},
	{failure.FromTorch, Unknown, func(f *facts) bool { return f.requested == 0 && f.isLater() }},
	{failure.FromTorch, Fragmented, func(f *facts) bool { // whatever the request was, a quarter is in pieces
		return f.requested == 0 && f.Reserved > 0 && float64(f.InPieces) >= oftenFree*float64(f.Reserved)
	}},
	{failure.FromTorch, Exhausted, func(f *facts) bool {
		return f.requested == 0 && f.Reserved > 0 && f.Unallocated >= 0 && float64(f.Unallocated) < oftenFree*float64(f.Reserved) &&
			share(max(f.Others, 0), f.Capacity) <= othersShare && !f.othersHold() && f.ownOutside() < ownAtOnce
	}},
	{"", Unknown, func(f *facts) bool { return f.requested == 0 }},

	{"", Larger, func(f *facts) bool { return f.Capacity >= 0 && f.requested > f.Capacity }},

	// TensorFlow's pool has a limit and grows by requests to the driver.
	{failure.FromTensorFlow, Fragmented, func(f *facts) bool { return f.noFigures() && f.freeInPieces() }},
	{failure.FromTensorFlow, NotGranted, func(f *facts) bool { return f.noFigures() && f.Growth }},
	{failure.FromTensorFlow, Unknown, (*facts).noFigures},
	{failure.FromTensorFlow, Larger, func(f *facts) bool { return f.Allowed >= 0 && f.requested > f.Allowed }},
	{failure.FromTensorFlow, NotGranted, func(f *facts) bool {
		return f.Allowed >= 0 && f.Reserved < 0 && f.Allowed-f.Live >= f.requested || f.Allowed-f.Reserved >= f.requested && f.Reserved >= 0
	}},
	{failure.FromTensorFlow, Fragmented, func(f *facts) bool {
		return f.pool >= f.requested && float64(f.Unallocated) >= freeShare*float64(f.Reserved) ||
			f.Unallocated/2 >= f.requested && float64(f.Unallocated) >= littleShare*float64(f.Reserved)
	}},
	{failure.FromTensorFlow, Exhausted, always},

	{failure.FromXLA, Outside, func(f *facts) bool { return f.Needed >= 0 && f.Needed < littleProgram }}, // it fills no device
	{failure.FromXLA, Exhausted, func(f *facts) bool { return f.Needed >= 0 }},

	{failure.FromPaddle, Exhausted, func(f *facts) bool { return f.Live >= f.requested && f.free >= 0 && f.free < f.requested }},
	{"", Unknown, func(f *facts) bool { return f.Live < 0 || f.Capacity < 0 }},
	{"", Limit, func(f *facts) bool { return f.Allowed >= 0 && f.free < 0 && f.requested > f.Allowed }}, // of one block
	{"", Unknown, func(f *facts) bool { return f.free < 0 && f.Capacity-f.held-f.requested > f.contexts() }},
	{"", Limit, func(f *facts) bool {
		return f.Allowed >= 0 && f.held+f.requested > f.Allowed-2*f.Rounding && f.free >= f.requested
	}},
	{"", Exhausted, func(f *facts) bool { return f.Live+f.idle > f.Capacity }}, // Windows moves memory to the host
	{"", NotGranted, func(f *facts) bool { return f.free >= f.requested+max(clearlyFree, 2*f.Rounding) }},
	{"", Other, func(f *facts) bool { return share(f.Others, f.Capacity) > othersShare }},
	{"", Outside, (*facts).othersHold},
	{"", Unknown, func(f *facts) bool { return f.Cut && f.unsaid() > outsideAtOnce }},
	{"", Outside, (*facts).processHolds},
	{"", PrivatePools, func(f *facts) bool {
		of := share(f.idle, f.held)
		return f.idle > 0 && f.idle >= f.unalloc && (of > freeShare || f.idle >= f.requested && of >= littleShare)
	}},
	{"", Fragmented, func(f *facts) bool {
		of := share(f.unalloc, f.held)
		return f.unalloc >= f.requested && of >= freeShare || f.unalloc/2 >= f.requested && of >= littleShare
	}},
	{"", Exhausted, always},
}

func always(*facts) bool { return true }

// inPieces reports whether the request would fit the free memory of its stream and pool if it were in one piece.
func (f *facts) inPieces() bool {
	return f.usable.Total >= f.requested && f.usable.Largest < f.requested
}

// freeInPieces reports whether the request would fit what is reserved and free if it were in one piece.
func (f *facts) freeInPieces() bool {
	return f.Unallocated >= f.requested && f.LargestFree >= 0 && f.LargestFree < f.requested
}

// othersHold reports whether what neither the allocator nor a listed process uses is more than contexts need.
func (f *facts) othersHold() bool {
	return f.unexplained > f.contexts()
}

// isLater reports whether a state is not that of a failure: an allocator gives whole free segments back before it fails.
func (f *facts) isLater() bool {
	return f.Reserved > 0 && f.InPieces >= 0 && float64(f.Unallocated-f.InPieces) >= oftenFree*float64(f.Reserved)
}

// ownOutside returns the bytes that the process itself uses outside of its allocator; -1 if they are not known.
func (f *facts) ownOutside() int64 {
	if f.InProcess < 0 || f.Reserved < 0 {
		return -1
	}
	return max(f.InProcess-f.Reserved, 0)
}

// processHolds reports whether the process itself uses that much outside of its allocator that the request would have fit without it. What
// the allocator has in pieces or in private pools is the reason if it is more.
func (f *facts) processHolds() bool {
	own := f.ownOutside()
	return own > max(ownAtOnce, f.contexts()) && own >= max(f.unalloc, f.idle) && units.AddSat(own, max(f.free, 0)) >= f.requested
}

// unsaid returns the bytes of the device of which a text that was cut off does not say whether they are free in pieces or used outside of
// the allocator.
func (f *facts) unsaid() int64 {
	return f.Capacity - max(f.free, 0) - max(f.Others, 0) - f.held
}

// contexts returns the bytes that contexts and libraries may take without anything unusual.
func (f *facts) contexts() int64 { return max(outsideAtOnce, int64(othersShare*float64(f.Capacity))) }

func (f *facts) noFigures() bool { return f.Allowed < 0 && f.Live < 0 && f.Reserved < 0 }

// ofMPS reports whether a text is of PyTorch on Apple's GPUs.
func (f *facts) ofMPS() bool { return f.Allowed >= 0 && f.InProcess >= 0 && f.Reserved < 0 }

// reason returns the reason of the first row that fits.
func (f *facts) reason(from string) Reason {
	for _, r := range rows {
		if (r.from == "" || r.from == from) && r.fits(f) {
			return r.reason
		}
	}
	return Unknown
}
