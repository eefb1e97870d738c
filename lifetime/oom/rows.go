package oom

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/region"
)

// The kinds of evidence for a reason: the kinds of texts (failure.Failure.Source), and these.
const (
	fromRecording = "recording"  // a recorded event, whose state is exact
	fromPeak      = "near_limit" // the peak at the end of a recording without a failed request
	fromPlan      = "plan"       // a plan that a program refused
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
	fullShare     = 0.8      // of the device, that are live, and no small request fits
	ownAtOnce     = 2 << 30  // bytes of the process itself that its allocator does not have
	paddedShare   = 0.6      // of the listed buffers, that are not padding
)

// row is one way to recognize a reason. Words in braces stand for figures and tools: see (*Diagnosis).fill.
type row struct {
	from   string // the kind of evidence, "" for all
	reason Reason
	words  string // the reason as a clause; "" = those of the reason
	advice string // "" = that of the program or the reason
	fits   func(d *Diagnosis) bool
}

const (
	wrongSize      = "Look for a wrong size: a negative or overflowed shape, or ranks that are out of step."
	littleInPieces = "the memory is full of live buffers, and the little that is free is in pieces"
	withRests      = "{idle} are free in pieces, and blocks in use are {rests} larger than requested (rounding): {pool} together"
	notFull        = "the request does not fit beside what is in use"
	cutOff         = "the text is cut off before the figures that decide"
)

// rows are tried in order; the first that fits is the reason. Texts are judged with care: PyTorch rounds the request to a
// segment, reads the free bytes after it gave back its cache, counts idle blocks of private pools as allocated, and always
// prints the hint about fragmentation.
var rows = []row{
	{"", Survived, "", wrongSize, func(d *Diagnosis) bool { return d.Survived && d.Absurd }},
	{"", Survived, "", "", func(d *Diagnosis) bool { return d.Survived }},

	{fromPlan, Other, "{rest} of the device are not free", "", (*Diagnosis).othersHold},
	{fromPlan, Limit, "", "", always}, // its own share of the device
	{failure.FromLibrary, Outside, "", "", always},

	{failure.FromCompiler, Larger, "", "Use smaller blocks in the kernel, or raise vmem_limit_bytes (on-chip memory).",
		func(d *Diagnosis) bool { return onChip(d.Space) }},
	{failure.FromCompiler, Padding, "", "", func(d *Diagnosis) bool { return d.padding > d.size/2 }},
	{failure.FromCompiler, Padding, "{padding} of it is padding", "", func(d *Diagnosis) bool {
		return d.padding > 0 && (d.exceeded > 0 && d.padding >= d.exceeded || float64(d.size-d.padding) < paddedShare*float64(d.size))
	}},
	{failure.FromCompiler, Larger, "one buffer is larger than the memory, so freeing does not help", "", (*Diagnosis).alone},
	{failure.FromCompiler, Larger, "", "", always},

	{failure.FromXLA, Fragmented, "", "Load the program before other arrays, or free arrays before it runs.",
		func(d *Diagnosis) bool { return d.loads && d.free >= 0 && d.free >= d.asked }}, // on TPU, whose text has the free bytes
	{failure.FromXLA, Fragmented, "", "", func(d *Diagnosis) bool { return d.free >= 0 && d.free >= d.asked }},
	{failure.FromXLA, Exhausted, "", "", func(d *Diagnosis) bool { return d.free >= 0 }},

	{"", Larger, "", wrongSize, func(d *Diagnosis) bool { return !d.saidHost() && (d.Absurd || d.asked >= absurd) }},
	{"", Larger, "", splitIt, func(d *Diagnosis) bool { return d.Capacity >= 0 && d.asked > d.Capacity }},
	{"", Host, "{requested} at once do not fit into host memory", "Look for a wrong size: a shape, a product of shapes, or a broadcast.",
		func(d *Diagnosis) bool { return d.onHost() && d.asked >= absurdOnHost }},
	{"", Host, "", "Reduce pinned host memory, or add memory.", func(d *Diagnosis) bool {
		return d.onHost() && (d.Space.Memory == "pinned" || d.Space.Device == "host")
	}},
	{"", Host, "", "", (*Diagnosis).onHost},

	{failure.FromTorch, Unknown, "the figures are of a later moment: an allocator that fails keeps no whole free segments", "",
		func(d *Diagnosis) bool { // an allocator gives whole free segments back before it fails
			return d.asked == 0 && d.Reserved > 0 && d.InPieces >= 0 && float64(d.Unallocated-d.InPieces) >= oftenFree*float64(d.Reserved)
		}},
	{failure.FromTorch, Fragmented, "{pieces} of {reserved} reserved are free, but in pieces", "", func(d *Diagnosis) bool { // whatever the request was
		return d.asked == 0 && d.Reserved > 0 && float64(d.InPieces) >= oftenFree*float64(d.Reserved)
	}},
	{failure.FromTorch, Exhausted, "", "", func(d *Diagnosis) bool {
		return d.asked == 0 && d.Reserved > 0 && d.Unallocated >= 0 && float64(d.Unallocated) < oftenFree*float64(d.Reserved) &&
			share(max(d.Others, 0), d.Capacity) <= othersShare && !d.othersHold() && d.account.Outside < ownAtOnce
	}},
	{"", Outside, "", "", func(d *Diagnosis) bool { return d.ofMPS() && d.account.Outside > d.InProcess/2 }},
	{"", Limit, "", "", (*Diagnosis).ofMPS},
	{"", Unknown, cutOff, "", func(d *Diagnosis) bool { return d.Cut && (d.asked == 0 || d.undecided()) }},
	{"", Unknown, "", "", func(d *Diagnosis) bool { return d.asked == 0 }},

	// A recording without a capacity does not show what others hold.
	{fromRecording, Larger, "", "", func(d *Diagnosis) bool { return d.Capacity < 0 && d.free >= 0 && d.asked > d.reachable }},
	{fromRecording, PrivatePools, "", "", func(d *Diagnosis) bool {
		return d.privatePools >= d.asked && d.privatePools > d.usable.Total && share(d.privatePools, d.Reserved) >= freeShare
	}},
	{fromRecording, Limit, "", "", func(d *Diagnosis) bool { // refused, although the device had it
		return d.free >= segmentFor(d.asked) && !(d.inPieces() && share(d.Unallocated, d.Reserved) >= freeShare)
	}},
	{fromRecording, Fragmented, "", "", func(d *Diagnosis) bool { // also of other streams or of the other size class, or with what the device has free
		return d.inPieces() || share(d.Unallocated, d.Reserved) >= freeShare &&
			(d.Unallocated >= d.asked && d.usable.Largest < d.asked || d.Unallocated+max(d.free, 0) >= d.asked && d.LargestFree < d.asked)
	}},

	// TensorFlow's pool has a limit and grows by requests to the driver.
	{failure.FromTensorFlow, NotGranted, "the driver refused to enlarge the pool", "", func(d *Diagnosis) bool { return d.noFigures() && d.Growth }},
	{failure.FromTensorFlow, Unknown, "", "", func(d *Diagnosis) bool { return d.noFigures() && d.Unallocated < d.asked }},
	{failure.FromTensorFlow, NotGranted, "", "", func(d *Diagnosis) bool {
		return d.Allowed >= 0 && d.Reserved < 0 && d.Allowed-d.Live >= d.asked || d.Allowed-d.Reserved >= d.asked && d.Reserved >= 0
	}},
	{failure.FromTensorFlow, Fragmented, "", "", func(d *Diagnosis) bool {
		return d.pool >= d.asked && float64(d.Unallocated) >= freeShare*float64(d.Reserved) ||
			d.Unallocated/2 >= d.asked && float64(d.Unallocated) >= littleShare*float64(d.Reserved)
	}},

	{failure.FromXLA, Outside, "the program is small: other arrays or another process hold the memory", "", // it fills no device
		func(d *Diagnosis) bool { return d.Needed >= 0 && d.Needed < littleProgram }},
	{failure.FromXLA, Exhausted, "the temporaries of the program do not fit: it needs {scratch} for them in one block",
		"Use a smaller batch, recompute (jax.checkpoint), or compute the largest in blocks.", func(d *Diagnosis) bool {
			return d.Scratch > 0 && max(d.asked-d.Scratch, d.Scratch-d.asked) <= 2*d.Rounding
		}},

	{"", Exhausted, "", "", func(d *Diagnosis) bool {
		return d.Capacity < 0 && d.Live >= d.asked && d.free >= 0 && d.free < d.asked && !d.exact()
	}},
	{"", Limit, "", "Allocate smaller blocks: the platform limits the size of one.", func(d *Diagnosis) bool {
		return d.Allowed > 0 && d.free < 0 && d.asked > d.Allowed && !d.exact()
	}},
	{"", Unknown, "", "", (*Diagnosis).undecided},
	{failure.FromTorch, Limit, "", "", func(d *Diagnosis) bool {
		return d.Allowed >= 0 && d.held+d.asked > d.Allowed-2*d.Rounding && d.free >= d.asked
	}},
	{"", Exhausted, "the program holds more than the device has: the driver moves it to host memory", "", // on Windows
		func(d *Diagnosis) bool { return d.Capacity > 0 && d.Live > d.Capacity }},
	{failure.FromTorch, NotGranted, "", "", func(d *Diagnosis) bool { return d.free >= d.asked+max(clearlyFree, 2*d.Rounding) }},
	{"", Other, "", "", func(d *Diagnosis) bool { return share(d.Others, d.Capacity) > othersShare }},
	{"", Outside, "", "", (*Diagnosis).othersHold},
	{"", Unknown, cutOff, "", func(d *Diagnosis) bool { return d.Cut && d.account.Rest > outsideAtOnce }},
	{"", Outside, "the process itself holds {own} outside of this allocator",
		"Find what else allocates in this process: NCCL, cuDNN, RMM, another framework.", (*Diagnosis).processHolds},
	{failure.FromTorch, PrivatePools, "", "", func(d *Diagnosis) bool {
		of := share(d.idle, d.held)
		return d.idle > 0 && d.idle >= d.unalloc && (of > freeShare || d.idle >= d.asked && of >= littleShare)
	}},
	{failure.FromTorch, Exhausted, littleInPieces, "", func(d *Diagnosis) bool {
		return d.saidPieces() && d.asked <= 20*mib && share(d.Live, d.Capacity) >= fullShare
	}},
	{failure.FromTorch, Fragmented, "", "", (*Diagnosis).saidPieces},

	{"", Exhausted, "this one request is larger than all live buffers together", splitIt, (*Diagnosis).single},
	{failure.FromTensorFlow, Exhausted, littleInPieces, "", func(d *Diagnosis) bool {
		return d.Unallocated >= d.asked && d.LargestFree >= 0 && d.LargestFree < d.asked
	}},
	{"", Exhausted, "", "", always},
}

func (d *Diagnosis) rowOf() *row {
	from := d.evidence()
	for i := range rows {
		if r := &rows[i]; (r.from == "" || r.from == from) && r.fits(d) {
			return r
		}
	}
	return nil // never: the last fits all
}

func (d *Diagnosis) look(t *lifetime.Tables) {
	s := d.Space
	d.asked, d.free, d.loads = d.Mark.Requested, d.Mark.Free.Or(-1), t.Sites[d.Mark.Site].Op == failure.LoadProgram
	d.idle, d.unalloc, d.held = max(d.Idle, 0), max(d.Unallocated, 0), d.Reserved
	switch d.Source {
	case failure.FromCompiler:
		d.exceeded = d.Exceeded
		for i := range s.Buffers {
			if b := &s.Buffers[i]; isBuffer(s, i) {
				d.size, d.padding = units.AddSat(d.size, b.Size), units.AddSat(d.padding, b.Size-b.Requested)
			}
		}
		for i := range s.Marks {
			if said := s.Marks[i].Failure; said != nil {
				d.exceeded = max(d.exceeded, said.Exceeded)
			}
		}
	case "":
		d.reachable = units.AddSat(max(d.Reserved, d.Live), d.Mark.Free.Or(0))
	}
	if d.pool = d.Unallocated; d.Requested >= 0 && d.Live >= d.Requested {
		d.pool = units.AddSat(d.pool, d.Live-d.Requested) // the allocator rounds up, and does not split small rests
	}
	if d.held < 0 {
		d.held = max(d.Live, 0) + d.idle
	}
	d.account, _ = d.Failure.Account(d.free)
	if a := &d.account; d.free < 0 || d.Cut && d.InProcess < 0 && d.Reserved < 0 {
		d.unexplained = -1
	} else { // a text that was cut off has more of the process
		d.unexplained = a.Rest - max(d.InProcess-max(a.Live, 0)-max(a.Idle, 0)-max(a.Outside, 0), 0)
	}
}

// fill returns words with figures and tools in the place of the words in braces.
func (d *Diagnosis) fill(words string) string {
	if !strings.Contains(words, "{") {
		return words
	}
	return strings.NewReplacer("{monitor}", monitorOf(d.Space.Device), "{setting}", cmp.Or(d.Setting, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), "{requested}", units.Bytes(d.asked),
		"{idle}", units.Bytes(d.Unallocated), "{rests}", units.Bytes(d.pool-d.Unallocated), "{pool}", units.Bytes(d.pool), "{reserved}", units.Bytes(d.Reserved), "{pieces}", units.Bytes(d.InPieces), "{own}", units.Bytes(d.account.Outside), "{rest}", units.Bytes(d.unexplained), "{scratch}", units.Bytes(d.Scratch), "{padding}", units.Bytes(d.padding),
		"{free share}", fmt.Sprintf("%.2f", math.Floor(100*float64(max(d.free, 0))/float64(max(d.Capacity, 1)))/100)).Replace(words)
}

func onChip(s *lifetime.Space) bool { return s.Memory == "vmem" || s.Memory == "smem" }

func share(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }

// alone reports whether a text is about one buffer that is larger than the memory.
func (d *Diagnosis) alone() bool { return d.Needed < 0 && d.Capacity >= 0 && d.asked > d.Capacity }

func always(*Diagnosis) bool { return true }

func (d *Diagnosis) saidHost() bool {
	return d.Source == failure.FromHost || d.Source == failure.FromKernel
}

// onHost reports whether the request was for host memory.
func (d *Diagnosis) onHost() bool { return d.saidHost() || d.Source == "" && d.Space.Device == "cpu" }

// exact reports whether rows of their own decide about the figures of a failure.
func (d *Diagnosis) exact() bool { return d.Source == "" || d.Source == failure.FromTensorFlow }

// undecided reports whether figures that decide are missing.
func (d *Diagnosis) undecided() bool {
	return !d.exact() && d.Needed < 0 && (d.Live < 0 || d.Capacity < 0 || d.free < 0 && d.Capacity-d.held-d.asked > d.contexts())
}

// single reports whether the request alone is larger than all that is live: the memory is not full of buffers.
func (d *Diagnosis) single() bool {
	return d.Live >= 0 && d.Mark.Requested > units.AddSat(d.Live, max(d.Idle, 0))
}

// inPieces reports whether the request would fit the free memory of its stream and pool if it were in one piece.
func (d *Diagnosis) inPieces() bool {
	return d.usable.Total >= d.asked && d.usable.Largest < d.asked
}

// saidPieces reports whether a text of PyTorch has so much that is reserved and free that the request did not fit because of its pieces.
func (d *Diagnosis) saidPieces() bool {
	of := share(d.unalloc, d.held)
	return d.unalloc >= d.asked && of >= freeShare || d.unalloc/2 >= d.asked && of >= littleShare
}

// othersHold reports whether what neither the allocator nor a listed process uses is more than contexts need.
func (d *Diagnosis) othersHold() bool { return d.unexplained > d.contexts() }

// isFull reports whether live buffers fill the memory, as far as a text says how large it is, or says nothing of the request.
func (d *Diagnosis) isFull() bool {
	a := d.account
	if a.Capacity < 0 {
		a.Capacity = max(d.Reserved, d.Live) + max(d.free, 0)
	}
	return d.asked == 0 || d.Live >= 0 && share(d.Live, a.Capacity) >= fullShare
}

// processHolds reports whether the process itself uses that much outside of its allocator that the request would have fit without it. What
// the allocator has in pieces or in private pools is the reason if it is more.
func (d *Diagnosis) processHolds() bool {
	own := d.account.Outside
	return own > max(ownAtOnce, d.contexts()) && own >= max(d.unalloc, d.idle) && units.AddSat(own, max(d.free, 0)) >= d.asked
}

// contexts returns the bytes that contexts and libraries may take without anything unusual. A recording may be of a small device.
func (d *Diagnosis) contexts() int64 {
	if few := int64(othersShare * float64(d.Capacity)); d.Source == "" || few > outsideAtOnce {
		return few
	}
	return outsideAtOnce
}

func (d *Diagnosis) noFigures() bool { return d.Allowed < 0 && d.Live < 0 && d.Reserved < 0 }

// ofMPS reports whether a text is of PyTorch on Apple's GPUs.
func (d *Diagnosis) ofMPS() bool { return d.Allowed >= 0 && d.InProcess >= 0 && d.Reserved < 0 }

// manyCaught is the number of equal failures that a program survived, after which the program likely survives the next one, too.
const manyCaught = 4

// state sets what is known about a failed allocation: what a text says, and else the state of the space at that instant, whatever was freed
// later. now has what is alive then. Figures that are not known are -1. Without recorded pools, a request could use all free memory of its
// stream; never that of private pools.
func (d *Diagnosis) state(now *lifetime.Space, survived bool) {
	s, m := d.Space, d.Mark
	f, free, own := failure.Unknown(""), region.Holes{}, int64(0)
	if len(s.Regions) > 0 && s.Facts&lifetime.Addresses != 0 {
		for _, use := range region.PoolsAt(now, m.Begin) {
			free.Total, free.Largest = units.AddSat(free.Total, use.Free.Total), max(free.Largest, use.Free.Largest)
			switch {
			case use.Stream == m.Stream:
				own = units.AddSat(own, use.Free.Total)
			case use.Pool == "":
				d.elsewhere = units.AddSat(d.elsewhere, use.Free.Total)
			}
			switch {
			case use.Pool != "":
				d.privatePools = units.AddSat(d.privatePools, use.Free.Total)
			case use.Stream == m.Stream && use.Free.Total > 0:
				d.usable.Total, d.usable.Largest = units.AddSat(d.usable.Total, use.Free.Total), max(d.usable.Largest, use.Free.Largest)
			}
		}
		if own >= m.Requested {
			d.elsewhere = 0
		}
		f.LargestFree = free.Largest
		if f.Unallocated = free.Total; d.privatePools > 0 {
			f.Idle, f.Unallocated = d.privatePools, max(free.Total-d.privatePools, 0)
		}
	}
	if d.Failure = f; m.Failure != nil {
		d.Failure = *m.Failure
		return
	}
	d.Survived, d.Absurd = survived, m.Requested >= absurd
	d.Live = now.LevelAt(m.Begin, lifetime.Occupied)
	if s.Limit > 0 {
		d.Capacity = s.Limit
	}
	if len(s.Regions) > 0 {
		d.Reserved = region.ReservedAt(now, m.Begin)
	}
}

const mib = 1 << 20

// segmentFor returns what PyTorch asks of the driver for a request (get_allocation_size in c10/cuda/CUDACachingAllocator.cpp):
// a segment is larger than a small request.
func segmentFor(requested int64) int64 {
	switch {
	case requested <= mib:
		return 2 * mib
	case requested < 10*mib:
		return 20 * mib
	}
	return units.AddSat(requested, 2*mib-1) / (2 * mib) * (2 * mib)
}

// Unfit says why a request of PyTorch did not fit although as much is free: how much more of the device would have been enough, unless a leak
// takes that, too, and why none of the allocator's free memory serves it. It returns "" if less is free, or if the reason says it.
func (d *Diagnosis) Unfit() string {
	idle, missing := max(d.Unallocated, 0), d.asked-d.free // a text has the size of the segment
	if d.Source == "" {
		missing = segmentFor(d.asked) - d.free
	}
	if d.Reason != Exhausted && d.Reason != Leak || d.by != torch || d.asked <= 0 || idle == 0 || d.free < 0 || units.AddSat(idle, d.free) < d.asked || missing <= 0 {
		return ""
	}
	words := fmt.Sprintf("the %s reserved but free are ", units.Bytes(idle))
	switch {
	case d.LargestFree < 0:
		words += "in smaller pieces or for other streams"
	case d.LargestFree < d.asked:
		words += "in pieces of at most " + units.Bytes(d.LargestFree)
	case d.usable.Largest >= d.asked && d.asked <= mib:
		words += "for requests of more than 1 MiB"
	default:
		words += "for other streams or pools"
	}
	if d.Reason == Leak {
		return words
	}
	return units.Bytes(missing) + " more would have been enough; " + words
}

// Survivors returns a function that reports whether the program survived a failure of a space: the text says so, or it went on, or it
// went on after several failures of the same request at the same call site before. It takes O(buffers + marks), the function O(1).
func Survivors(s *lifetime.Space) func(m *lifetime.Mark) bool {
	type request struct {
		site  lifetime.SiteID
		bytes int64
	}
	isFailure := func(m lifetime.Mark) bool { return m.Kind == lifetime.OOM }
	if !slices.ContainsFunc(s.Marks, isFailure) {
		return func(*lifetime.Mark) bool { return false }
	}
	goesOn := continued(s)
	caught := map[request][]int64{} // when it failed and the program went on
	for i := range s.Marks {
		if m := &s.Marks[i]; isFailure(*m) && m.Site != 0 && goesOn(m) {
			of := request{m.Site, m.Requested}
			caught[of] = append(caught[of], m.Begin)
		}
	}
	return func(m *lifetime.Mark) bool {
		if m.Failure != nil || goesOn(m) {
			return m.Failure == nil || m.Failure.Survived
		}
		before := caught[request{m.Site, m.Requested}]
		return len(before) >= manyCaught && before[manyCaught-1] < m.Begin
	}
}

// continued returns a function that reports whether the program allocated again after a recorded failure: as much as it had requested,
// often, or at the same call site, or began another step. What exception handlers allocate is less.
func continued(s *lifetime.Space) func(m *lifetime.Mark) bool {
	const often = 4096 // allocations
	last := s.Buffers[max(len(s.Buffers)-often, 0):]
	wentOn := s.Begin // up to here, more than the last or a step follow
	if before := len(s.Buffers) - len(last); before > 0 {
		wentOn = s.Buffers[before-1].Begin
	}
	for _, mark := range s.Marks[max(len(s.Marks)-often, 0):] {
		if mark.Kind == lifetime.Step {
			wentOn = max(wentOn, mark.Begin)
		}
	}
	rest := make([]int64, len(last)+1) // bytes of the buffers from each on
	for i, b := range slices.Backward(last) {
		rest[i] = units.AddSat(rest[i+1], b.Size)
	}
	latest := map[lifetime.SiteID]int64{} // when each site allocated last
	for i := range last {
		latest[last[i].Site] = last[i].Begin
	}
	delete(latest, 0)
	return func(m *lifetime.Mark) bool {
		first := sort.Search(len(last), func(i int) bool { return last[i].Begin > m.Begin })
		again, ok := latest[m.Site]
		return wentOn > m.Begin || ok && again > m.Begin || rest[first] >= max(m.Requested, 1)
	}
}
