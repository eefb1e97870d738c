package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// OOMs describes the failed allocations of captures.
type OOMs struct {
	Schema string    `json:"schema"` // "memlane/1"
	OOMs   []Failure `json:"ooms"`   // one for each failure, in the order of the capture; those of a process that a launcher names as the first come first
}

// Failure describes a failed allocation: who asked, what was there, who held it, why it failed, and what to do.
type Failure struct {
	File   string `json:"file"`   // capture
	Space  string `json:"space"`  // memory ID
	Source string `json:"source"` // kind of text: torch, torch-library, tensorflow, xla-compile, xla-run, host; recording for a recorded event
	Line   *int64 `json:"line"`   // line of the file on which the text begins; null for a recorded event
	Times  int64  `json:"times"`  // how often the same failure was printed
	At     int64  `json:"at"`     // instant
	Rank   *int64 `json:"rank"`   // rank of the process; null if unknown
	First  bool   `json:"first"`  // the launcher names its process as the first that failed
	Device string `json:"device"` // cuda:0, tpu, cpu; empty if unknown

	RequestedBytes    *int64 `json:"requested_bytes"`            // size of the request; in texts of PyTorch rounded up to a segment
	CapacityBytes     *int64 `json:"capacity_bytes"`             // of the device
	FreeBytes         *int64 `json:"free_bytes"`                 // free on the device, after the allocator gave back what it could
	LimitBytes        *int64 `json:"limit_bytes"`                // limit that the program or the pool has
	LiveBytes         *int64 `json:"live_bytes"`                 // in live buffers
	ReservedBytes     *int64 `json:"reserved_bytes"`             // reserved from the device
	UnallocatedBytes  *int64 `json:"reserved_unallocated_bytes"` // reserved, but in no buffer
	PrivatePoolsBytes *int64 `json:"private_pools_bytes"`        // idle in private pools
	OutsideBytes      *int64 `json:"outside_bytes"`              // used by the process outside of the allocator
	OthersBytes       *int64 `json:"other_processes_bytes"`      // used by other processes
	NeededBytes       *int64 `json:"needed_bytes"`               // by the compiled program as a whole
	ExceededBytes     *int64 `json:"exceeded_bytes"`             // bytes by which it exceeds the capacity
	LargestFreeBytes  *int64 `json:"largest_free_bytes"`         // largest free block of the allocator
	RoundingBytes     int64  `json:"rounding_bytes"`             // largest rounding error of these figures

	Requester *Site           `json:"requester"` // who asked; null if unknown
	Holders   []Holder        `json:"holders"`   // who held memory at that instant, largest first
	Buffers   []FailureBuffer `json:"buffers"`   // buffers that the text lists, in its order

	Reason     string  `json:"reason"`     // why it failed: see "Reasons" below
	Confidence float64 `json:"confidence"` // of the reason, 0 to 1
	Advice     string  `json:"advice"`     // one thing to do
	Proof      *string `json:"proof"`      // how it is known that the advice helps; null if it is not
	Next       string  `json:"next"`       // command that shows more, or how to record more

	When    string `json:"-"`
	Program string `json:"-"` // compiled program, "" for others
	Asked   string `json:"-"` // name of the requester
	Why     string `json:"-"` // the reason in words
	BySize  string `json:"-"` // the held buffers by size, if their origin was not recorded
	Absurd  bool   `json:"-"` // the request was for more than 2^60 bytes
}

// Holder is the memory that one call site or operation held.
type Holder struct {
	Site     Site   `json:"site"`     // call site or operation
	Category string `json:"category"` // as in memlane peak
	Bytes    int64  `json:"bytes"`    // occupied
	Buffers  int64  `json:"buffers"`  // number of buffers

	Name string `json:"-"`
}

// FailureBuffer is a buffer that a text lists.
type FailureBuffer struct {
	Bytes        int64  `json:"bytes"`         // occupied
	Shape        string `json:"shape"`         // in the producer's notation
	Op           string `json:"op"`            // operation
	PaddingBytes *int64 `json:"padding_bytes"` // padding in a compiled program; null for others
}

// maxHeld limits the holders and buffers of a failure.
const maxHeld = 20

// OOMsOf describes the failed allocations of some spaces of a capture.
func OOMsOf(c *lifetime.Capture, spaces []*lifetime.Space) []Failure {
	all := []Failure{}
	for _, s := range spaces {
		for i := range s.Marks {
			if m := &s.Marks[i]; m.Kind == lifetime.OOM {
				all = append(all, failureOf(&c.Tables, s, m))
			}
		}
	}
	place := func(f *Failure) int64 {
		if f.Line != nil {
			return *f.Line
		}
		return f.At
	}
	slices.SortStableFunc(all, func(x, y Failure) int {
		switch {
		case x.First != y.First && x.First:
			return -1
		case x.First != y.First:
			return 1
		}
		return cmp.Compare(place(&x), place(&y))
	})
	return all
}

// figureOf returns nil for -1, an unknown figure.
func figureOf(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func failureOf(t *lifetime.Tables, s *lifetime.Space, m *lifetime.Mark) Failure {
	state, why := leak.StateAt(s, m), leak.WhyFailed(s, m)
	out := Failure{
		File: t.Sources[s.Source].File, Space: s.ID(), Source: cmp.Or(state.Source, "recording"), Times: max(state.Times, 1), At: m.Begin,
		First: state.First, Device: s.Device, Absurd: state.Absurd, When: when(&s.SpaceInfo, m.Begin), Holders: []Holder{}, Buffers: []FailureBuffer{},
		RequestedBytes: known(m.Requested), CapacityBytes: figureOf(state.Capacity), FreeBytes: figureOf(m.Free), LimitBytes: figureOf(state.Allowed),
		LiveBytes: figureOf(state.Live), ReservedBytes: figureOf(state.Reserved), UnallocatedBytes: figureOf(state.Unallocated),
		PrivatePoolsBytes: figureOf(state.Idle), OthersBytes: figureOf(state.Others), NeededBytes: figureOf(state.Needed),
		ExceededBytes: figureOf(state.Exceeded), LargestFreeBytes: figureOf(state.LargestFree), RoundingBytes: state.Rounding,
		Reason: string(why.Reason), Confidence: why.Confidence, Advice: why.Reason.Advice(state.Source), Why: why.Reason.Words(),
	}
	if state.Absurd {
		out.Advice = "Look for a wrong size: a negative or overflowed shape, or ranks that are out of step."
	}
	if m.Failure != nil {
		out.Line = &state.Line
	}
	if rank, err := strconv.ParseInt(strings.TrimPrefix((leak.RankNames{}).Of(s.Process, out.File), "rank "), 10, 64); err == nil {
		out.Rank = &rank
	}
	if state.InProcess >= 0 && state.Live >= 0 {
		out.OutsideBytes = figureOf(max(state.InProcess-max(state.Reserved, state.Live), 0))
	}
	if m.Site != 0 {
		site := siteOf(t, &s.SpaceInfo, m.Site)
		out.Requester, out.Asked = &site, SiteName(t, &s.SpaceInfo, m.Site)
	}
	if static(&s.SpaceInfo) {
		out.Program = cmp.Or(s.Module, "a program without a name")
	}
	if padding := paddingOf(s); why.Reason == leak.ReasonPadding {
		proof := units.Bytes(padding) + " of the listed buffers are padding"
		out.Proof = &proof
	}
	out.held(t, s, m)
	out.Next = nextStep(&out, m.Failure == nil)
	return out
}

// paddingOf returns the bytes of padding in the buffers of a compiled program.
func paddingOf(s *lifetime.Space) (bytes int64) {
	for i := range s.Buffers {
		bytes = units.AddSat(bytes, s.Buffers[i].Size-s.Buffers[i].Requested)
	}
	return bytes
}

// held adds who held memory, and the buffers that a text lists.
func (f *Failure) held(t *lifetime.Tables, s *lifetime.Space, m *lifetime.Mark) {
	for _, r := range s.Breakdown(m.Begin) {
		if len(f.Holders) == maxHeld || s.UsageOnly() {
			break
		}
		name := cmp.Or(RowNames[r.Kind], holderName(t, s, r.Site))
		f.Holders = append(f.Holders, Holder{siteOf(t, &s.SpaceInfo, r.Site), t.Category(&s.SpaceInfo, r.Kind, r.Site, r.Purpose), r.Bytes, r.Count, name})
	}
	if m.Failure == nil {
		return
	}
	live := s.LiveAt(m.Begin)
	if len(f.Holders) == 1 && len(live) > 0 && s.Buffers[live[0]].Site == 0 {
		f.BySize = bySize(s, live)
	}
	live = slices.DeleteFunc(live, func(i int) bool { return s.BufNotes != nil && s.BufNotes[i] != 0 }) // sums
	if !static(&s.SpaceInfo) {
		slices.SortStableFunc(live, func(x, y int) int { return cmp.Compare(s.Buffers[y].Size, s.Buffers[x].Size) })
	}
	for _, i := range live[:min(len(live), maxHeld)] {
		b := &s.Buffers[i]
		site := &t.Sites[b.Site]
		buffer := FailureBuffer{Bytes: b.Size, Shape: site.Shape, Op: site.Op}
		if static(&s.SpaceInfo) {
			padding := b.Size - b.Requested
			buffer.PaddingBytes = &padding
		}
		f.Buffers = append(f.Buffers, buffer)
	}
}

// holderName returns the name of a holder. Of a compiled program's buffer it is the end of the operation, the line and the shape
// without its layout.
func holderName(t *lifetime.Tables, s *lifetime.Space, id lifetime.SiteID) string {
	site := &t.Sites[id]
	if !static(&s.SpaceInfo) || site.Shape == "" {
		return SiteName(t, &s.SpaceInfo, id)
	}
	op, _, _ := strings.Cut(site.Op, "[")
	name := cmp.Or(op[strings.LastIndex(op, "/")+1:], site.Instr)
	if place := sourcePlace(t, id); place != "" {
		name += " (" + place + ")"
	}
	shape, _, _ := strings.Cut(site.Shape, "{")
	return strings.TrimSpace(name + " " + shape)
}

// bySize returns the largest groups of buffers of one size, for one line of text.
func bySize(s *lifetime.Space, live []int) string {
	counts := map[int64]int64{}
	for _, i := range live {
		counts[s.Buffers[i].Size]++
	}
	sizes := slices.SortedFunc(maps.Keys(counts), func(x, y int64) int {
		return cmp.Or(cmp.Compare(float64(y)*float64(counts[y]), float64(x)*float64(counts[x])), cmp.Compare(y, x))
	})
	var parts []string
	for _, size := range sizes[:min(len(sizes), 4)] {
		parts = append(parts, fmt.Sprintf("%s of %s", units.Count(counts[size]), units.Bytes(size)))
	}
	if n := len(sizes) - len(parts); n > 0 {
		parts = append(parts, units.Plural(n, "smaller group"))
	}
	return strings.Join(parts, ", ")
}

// nextStep returns the command that shows more, or how to record more.
func nextStep(f *Failure, recorded bool) string {
	switch {
	case recorded:
		return "memlane peak --at oom " + f.File
	case f.Source == lifetime.FromCompiler, f.Source == lifetime.FromXLA && f.NeededBytes != nil:
		return `XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto", then memlane peak DIR/*.hlo.pb`
	case f.Source == lifetime.FromXLA:
		return "jax.profiler.save_device_memory_profile(FILE) before it fails, then memlane peak FILE"
	case f.Source == lifetime.FromTensorFlow:
		return "record a profile (tf.profiler.experimental.start), then memlane report -o report.html FOLDER"
	case f.Source == lifetime.FromHost:
		return "memlane reads accelerator memory; use memray or tracemalloc for host memory"
	}
	return "torch.cuda.memory._record_memory_history(), _dump_snapshot(FILE) when it fails, then memlane oom FILE"
}

// Largest returns the names and bytes of the largest holders, for one line of text.
func (f *Failure) Largest(n int) string {
	var parts []string
	const little = 100 // times less than the largest
	for i := range f.Holders[:min(n, len(f.Holders))] {
		h := &f.Holders[i]
		if h.Bytes < f.Holders[0].Bytes/little {
			break
		}
		text := h.Name + " " + units.Bytes(h.Bytes)
		if h.Buffers > 1 {
			text += " in " + units.Count(h.Buffers)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
