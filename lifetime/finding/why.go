package finding

import (
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Reason is why an allocation failed, as JSON names it. The list is closed.
type Reason string

// Reasons.
const (
	ReasonExhausted    Reason = "exhausted"          // the program needs more than is available
	ReasonLeak         Reason = "leak"               // exhausted by a leak
	ReasonFragmented   Reason = "fragmented"         // enough was free, but in smaller pieces
	ReasonLarger       Reason = "larger_than_device" // the request or the program is larger than the memory
	ReasonLimit        Reason = "limit"              // a limit that the program set for itself
	ReasonOther        Reason = "other_process"      // other processes hold the memory
	ReasonOutside      Reason = "outside"            // held outside the allocator: contexts, libraries, unlisted processes
	ReasonPrivatePools Reason = "private_pools"      // idle in the private pools of CUDA graphs
	ReasonPadding      Reason = "padding"            // most of it is padding of layouts
	ReasonNotGranted   Reason = "not_granted"        // refused although enough was free
	ReasonHost         Reason = "host"               // host memory, not the device's
	ReasonSurvived     Reason = "survived"           // the program went on without it
	ReasonUnknown      Reason = "unknown"
)

// Why is the reason of a failed allocation, with a confidence of 0 to 1.
type Why struct {
	Reason     Reason
	Confidence float64
}

// StateAt returns what is known about a failed allocation: what a text says, and else the state of the space at that
// instant, whatever was freed later. Figures that are not known are -1.
func StateAt(s *lifetime.Space, m *lifetime.Mark) lifetime.Failure {
	if m.Failure != nil {
		return *m.Failure
	}
	f := lifetime.UnknownFailure("")
	f.Survived, f.Absurd = wentOn(s, m), m.Requested >= absurd
	f.Live = s.LevelAt(m.Begin, lifetime.Occupied)
	if s.Limit > 0 {
		f.Capacity = s.Limit
	}
	reserved := int64(0)
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Begin <= m.Begin && (r.End > m.Begin || r.Edge&lifetime.EndOpen != 0) {
			reserved = units.AddSat(reserved, r.Size)
		}
	}
	if len(s.Regions) > 0 {
		f.Reserved = reserved
	}
	if len(s.Regions) > 0 && s.Facts&lifetime.Addresses != 0 {
		holes := s.FreeAt(m.Begin)
		f.Unallocated, f.LargestFree = holes.Total, holes.Largest
		if _, idle := freeFor(s, m); idle > 0 {
			f.Idle, f.Unallocated = idle, max(holes.Total-idle, 0)
		}
	}
	return f
}

// The thresholds of the reasons. Those of texts are also in docs/manual/oom.md.
const (
	absurd        = 1 << 44  // bytes of a request that no device has
	clearlyFree   = 64 << 20 // free bytes beyond the request that show a refusal
	othersShare   = 0.1      // of the device, that others hold
	outsideAtOnce = 1 << 30  // bytes that no listed process explains
	freeShare     = 0.1      // of the reserved bytes, that are free
	littleShare   = 0.01     // the same, if it is twice the request
	paddedShare   = 0.6      // of the listed buffers, that are not padding
)

// WhyFailed returns why an allocation failed. Texts are judged with care: PyTorch rounds the request to a segment, reads the
// free bytes after it gave back its cache, counts idle blocks of private pools as allocated, and always prints the hint
// about fragmentation.
func WhyFailed(s *lifetime.Space, m *lifetime.Mark) Why {
	f := StateAt(s, m)
	switch {
	case f.Survived && m.Failure == nil: // inferred
		return Why{ReasonSurvived, 0.9}
	case f.Survived:
		return Why{ReasonSurvived, 1}
	case m.Failure == nil:
		return ofRecording(s, &f, m)
	case f.Source == lifetime.FromHost:
		return Why{ReasonHost, 0.95}
	case f.Source == lifetime.FromLibrary:
		return Why{ReasonOutside, 0.7}
	case f.Source == lifetime.FromCompiler:
		return ofProgram(s)
	case f.Source == lifetime.FromXLA && m.Free >= 0:
		return ofRuntime(&f, m)
	case f.Absurd:
		return Why{ReasonLarger, 0.95}
	case m.Requested == 0:
		return ofState(&f)
	case f.Source == lifetime.FromTensorFlow:
		return ofPool(&f, m)
	case f.Source == lifetime.FromXLA && f.Needed >= 0:
		return Why{ReasonExhausted, 0.5}
	}
	return ofTorch(&f, m)
}

// ofProgram judges a program that did not compile.
func ofProgram(s *lifetime.Space) Why {
	size, padding := int64(0), int64(0)
	for i := range s.Buffers {
		if b := &s.Buffers[i]; s.BufNotes == nil || s.BufNotes[i] == 0 { // not a sum
			size, padding = units.AddSat(size, b.Size), units.AddSat(padding, b.Size-b.Requested)
		}
	}
	exceeded := int64(0)
	for i := range s.Marks {
		if f := s.Marks[i].Failure; f != nil {
			exceeded = max(exceeded, f.Exceeded)
		}
	}
	if padding > 0 && (exceeded > 0 && padding >= exceeded || float64(size-padding) < paddedShare*float64(size)) && s.Memory != "vmem" && s.Memory != "smem" {
		return Why{ReasonPadding, 0.8}
	}
	return Why{ReasonLarger, 0.95}
}

// ofRuntime judges a request on TPU, whose text has the free bytes.
func ofRuntime(f *lifetime.Failure, m *lifetime.Mark) Why {
	if m.Free >= m.Requested {
		return Why{ReasonFragmented, 0.8}
	}
	return Why{ReasonExhausted, 0.9}
}

// ofState judges by the state alone: the request is not known, and the state may be that after the failure.
func ofState(f *lifetime.Failure) Why {
	const often = 0.25 // share of free bytes in the reserved ones
	switch {
	case f.Source != lifetime.FromTorch || f.Reserved <= 0 || f.Unallocated < 0:
		return Why{ReasonUnknown, 0}
	case float64(f.Unallocated) >= often*float64(f.Reserved):
		return Why{ReasonFragmented, 0.5}
	}
	return Why{ReasonExhausted, 0.5}
}

// ofPool judges TensorFlow's pool, which has a limit and grows by requests to the driver.
func ofPool(f *lifetime.Failure, m *lifetime.Mark) Why {
	free := f.Unallocated
	if f.Requested >= 0 && f.Live >= f.Requested {
		free = units.AddSat(free, f.Live-f.Requested) // the allocator rounds up, and does not split small rests
	}
	switch {
	case f.Allowed < 0 && f.Live < 0 && f.Reserved < 0 && f.Growth:
		return Why{ReasonNotGranted, 0.6}
	case f.Allowed < 0 && f.Live < 0 && f.Reserved < 0:
		return Why{ReasonUnknown, 0}
	case f.Allowed >= 0 && m.Requested > f.Allowed:
		return Why{ReasonLarger, 0.95}
	case f.Allowed >= 0 && f.Reserved < 0 && f.Allowed-f.Live >= m.Requested, f.Allowed-f.Reserved >= m.Requested && f.Reserved >= 0:
		return Why{ReasonNotGranted, 0.6}
	case free >= m.Requested && float64(f.Unallocated) >= freeShare*float64(f.Reserved),
		f.Unallocated/2 >= m.Requested && float64(f.Unallocated) >= littleShare*float64(f.Reserved):
		return Why{ReasonFragmented, 0.9}
	}
	return Why{ReasonExhausted, 0.9}
}

// ofRecording judges a failure in a recorded history, whose state is exact.
func ofRecording(s *lifetime.Space, f *lifetime.Failure, m *lifetime.Mark) Why {
	usable, idle := freeFor(s, m)
	reachable := units.AddSat(max(f.Reserved, f.Live), max(m.Free, 0)) // what the allocator could have, if it were empty
	share := float64(f.Unallocated) / float64(max(f.Reserved, 1))
	switch {
	case m.Requested == 0:
		return Why{ReasonUnknown, 0}
	case m.Requested >= absurd, f.Capacity > 0 && m.Requested > f.Capacity:
		return Why{ReasonLarger, 0.95}
	case s.Device == "cpu":
		return Why{ReasonHost, 0.8}
	case m.Free >= 0 && m.Requested > reachable:
		if f.Capacity > 0 && f.Capacity-reachable >= m.Requested {
			return Why{ReasonOutside, 0.8}
		}
		return Why{ReasonLarger, 0.9}
	case idle >= m.Requested && idle > usable.Total && float64(idle) >= freeShare*float64(f.Reserved):
		return Why{ReasonPrivatePools, 0.85}
	case usable.Total >= m.Requested && usable.Largest < m.Requested && share >= freeShare:
		return Why{ReasonFragmented, 0.95}
	case m.Free >= segmentFor(m.Requested): // refused, although the device had it
		return Why{ReasonLimit, 0.8}
	case usable.Total >= m.Requested && usable.Largest < m.Requested:
		return Why{ReasonFragmented, 0.9}
	case f.Unallocated >= m.Requested && usable.Largest < m.Requested && share >= freeShare: // of other streams or of the other size class
		return Why{ReasonFragmented, 0.7}
	case f.Unallocated+max(m.Free, 0) >= m.Requested && f.LargestFree < m.Requested && float64(f.Unallocated) >= freeShare*float64(f.Reserved):
		return Why{ReasonFragmented, 0.8} // with what the device has free
	case f.Capacity > 0 && m.Free >= 0 && f.Reserved > 0 && float64(f.Capacity-reachable) >= outsideShare*float64(f.Capacity):
		return Why{ReasonOutside, 0.8}
	}
	return Why{ReasonExhausted, 0.8}
}

// segmentFor returns what PyTorch asks of the driver for a request (get_allocation_size in c10/cuda/CUDACachingAllocator.cpp):
// a segment is larger than a small request.
func segmentFor(requested int64) int64 {
	const mib = 1 << 20
	switch {
	case requested <= mib:
		return 2 * mib
	case requested < 10*mib:
		return 20 * mib
	}
	return units.AddSat(requested, 2*mib-1) / (2 * mib) * (2 * mib)
}

// freeFor returns the reserved but free memory that a request could use, and the free memory of private pools, which it could
// not. Without recorded pools, all is usable.
func freeFor(s *lifetime.Space, m *lifetime.Mark) (usable lifetime.Holes, idle int64) {
	if len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0 {
		return usable, 0
	}
	for _, use := range s.PoolsAt(m.Begin) {
		switch {
		case use.Pool != "":
			idle = units.AddSat(idle, use.Free.Total)
		case use.Stream == m.Stream && use.Free.Total > 0:
			usable.Total = units.AddSat(usable.Total, use.Free.Total)
			usable.Largest = max(usable.Largest, use.Free.Largest)
		}
	}
	return usable, idle
}

// Survived reports whether the program went on after a failed allocation, as far as the text or the recording shows.
func Survived(s *lifetime.Space, m *lifetime.Mark) bool {
	if m.Failure != nil {
		return m.Failure.Survived
	}
	return wentOn(s, m)
}

// wentOn reports whether the program survived a recorded failure: it went on, or it went on after several failures of the same
// request at the same call site before.
func wentOn(s *lifetime.Space, m *lifetime.Mark) bool {
	if continued(s, m) {
		return true
	}
	before := 0
	for i := range s.Marks { // by Begin
		if o := &s.Marks[i]; o.Begin >= m.Begin || before == minRises {
			break
		} else if o.Kind == lifetime.OOM && m.Site != 0 && o.Site == m.Site && o.Requested == m.Requested && continued(s, o) {
			before++
		}
	}
	return before == minRises
}

// continued reports whether the program allocated again after a recorded failure: as much as it had requested, often, or at the same
// call site, or began another step. What exception handlers allocate is less.
func continued(s *lifetime.Space, m *lifetime.Mark) bool {
	const often = 4096 // allocations; it also bounds the search
	later := int64(0)
	first := sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin > m.Begin })
	for n, b := range s.Buffers[first:] {
		later = units.AddSat(later, b.Size)
		if m.Site != 0 && b.Site == m.Site || later >= max(m.Requested, 1) || n >= often {
			return true
		}
	}
	for n, mark := range slices.Backward(s.Marks) { // by Begin
		if mark.Begin <= m.Begin || mark.Kind == lifetime.Step || len(s.Marks)-n >= often {
			return mark.Begin > m.Begin && mark.Kind == lifetime.Step
		}
	}
	return false
}

// ofTorch judges a text of PyTorch by the first rule that holds.
func ofTorch(f *lifetime.Failure, m *lifetime.Mark) Why {
	request, free, capacity := m.Requested, m.Free, f.Capacity
	idle, unallocated, reserved := max(f.Idle, 0), max(f.Unallocated, 0), f.Reserved
	if reserved < 0 {
		reserved = max(f.Live, 0) + idle
	}
	share := func(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }
	switch {
	case capacity >= 0 && request > capacity:
		return Why{ReasonLarger, 0.95}
	case f.Allowed >= 0 && f.InProcess >= 0 && f.Reserved < 0: // MPS
		if f.InProcess-f.Live > f.InProcess/2 {
			return Why{ReasonOutside, 0.8}
		}
		return Why{ReasonLimit, 0.85}
	case f.Live < 0 || capacity < 0:
		return Why{ReasonUnknown, 0}
	case f.Allowed >= 0 && reserved+request > f.Allowed-2*f.Rounding && free >= request:
		return Why{ReasonLimit, 0.9}
	case f.Live+idle > capacity: // Windows moves memory to the host
		return Why{ReasonExhausted, 0.9}
	case free >= request+max(clearlyFree, 2*f.Rounding):
		return Why{ReasonNotGranted, 0.8}
	case share(f.Others, capacity) > othersShare:
		return Why{ReasonOther, 0.85}
	case free >= 0 && outside(f, reserved, capacity-free) > max(outsideAtOnce, int64(othersShare*float64(capacity))):
		return Why{ReasonOutside, 0.7}
	case idle > 0 && idle >= unallocated && (share(idle, reserved) > freeShare || idle >= request && share(idle, reserved) >= littleShare):
		return Why{ReasonPrivatePools, 0.8}
	case unallocated >= request && share(unallocated, reserved) >= freeShare:
		return Why{ReasonFragmented, 0.85}
	case unallocated/2 >= request && share(unallocated, reserved) >= littleShare:
		return Why{ReasonFragmented, 0.6}
	case unallocated >= request:
		return Why{ReasonExhausted, 0.7}
	}
	return Why{ReasonExhausted, 0.9}
}

// outside returns the bytes of the used ones that neither the allocator nor a listed process explains.
func outside(f *lifetime.Failure, reserved, used int64) int64 {
	if f.InProcess >= 0 || f.Others >= 0 {
		return used - max(f.InProcess, 0) - max(f.Others, 0)
	}
	return used - reserved
}

// Cause returns the cause of findings that a reason belongs to.
func (r Reason) Cause() Cause {
	switch r {
	case ReasonFragmented:
		return Fragmented
	case ReasonOther, ReasonOutside:
		return HeldOutside
	case ReasonLarger:
		return LargerThanDevice
	case ReasonSurvived:
		return Recovered
	}
	return Exhausted
}

// reasons describe each reason in words, and what to do: for PyTorch, and for XLA and TensorFlow.
var reasons = map[Reason]struct{ words, torch, xla string }{
	ReasonExhausted: {"the memory is full of live buffers", "Use a smaller batch, activation checkpointing or a narrower type.",
		"Free arrays of earlier steps, donate arguments, or use a smaller batch."},
	ReasonLeak:       {"a leak filled the memory", "Fix the leak first; see memlane leaks.", "Fix the leak first; see memlane leaks."},
	ReasonFragmented: {"enough is reserved and free, but in smaller pieces", adviceFragmented, "Set TF_GPU_ALLOCATOR=cuda_malloc_async, or allocate large buffers first."},
	ReasonLarger: {"it is larger than the memory, so freeing does not help", "Split the operation: smaller chunks, a shorter sequence, no full matrix.",
		"Shard it, recompute (jax.checkpoint), donate arguments, or use narrower types."},
	ReasonLimit:        {"the program's own limit was reached", "Raise set_per_process_memory_fraction, or the watermark on MPS.", "Raise XLA_CLIENT_MEM_FRACTION or the memory limit."},
	ReasonOther:        {"other processes hold memory of the device", "End the other processes, or use another device; see nvidia-smi.", "End the other processes, or use another device; see nvidia-smi."},
	ReasonOutside:      {"memory outside of this allocator is missing", "Run nvidia-smi on the host; leave room for contexts, NCCL and cuBLAS.", "Run nvidia-smi on the host; leave room for other users."},
	ReasonPrivatePools: {"private pools keep idle memory that others cannot use", "Capture fewer sizes of CUDA graphs, or let them share one pool.", "Capture fewer sizes."},
	ReasonPadding:      {"most of it is padding", "Make the last two dimensions multiples of 8 x 128, or transpose.", "Make the last two dimensions multiples of 8 x 128, or transpose."},
	ReasonNotGranted: {"the request was refused although enough was free", "Check the page file, container limits and the driver; do not shrink the batch.",
		"See nvidia-smi: another process may hold what the pool needs to grow."},
	ReasonHost:     {"host memory ran out, not the device's", "Reduce workers and pinned memory, or add memory.", "Reduce pinned host memory, or add memory."},
	ReasonSurvived: {"the program went on without it", "Nothing must be done; more memory may make it faster.", "Nothing must be done; more memory may make it faster."},
	ReasonUnknown: {"the text does not say", "Record a snapshot with _record_memory_history and _dump_snapshot.",
		"Keep the allocator's dump above the error, or record a profile."},
}

// Words returns the reason as a clause.
func (r Reason) Words() string { return reasons[r].words }

// Advice returns what to do about a failure of a kind of text (lifetime.Failure.Source), in one line of at most 80 columns.
func (r Reason) Advice(source string) string {
	switch source {
	case lifetime.FromCompiler, lifetime.FromXLA, lifetime.FromTensorFlow:
		return reasons[r].xla
	}
	return reasons[r].torch
}
