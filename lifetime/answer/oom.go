package answer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// OOMs describes the failed allocations of captures.
type OOMs struct {
	Schema string    `json:"schema"` // "memlane/1"
	Next   string    `json:"next"`   // that of the first; empty if there is none
	OOMs   []Failure `json:"ooms"`   // one for each failure: the first that the program did not survive comes first, those that it survived last
	Fits   []Fit     `json:"fits"`   // compiled programs that --capacity has room for, largest first; empty if a program or an allocation failed
}

// Failure describes a failed allocation: who asked, what was there, who held it, why it failed, and what to do.
type Failure struct {
	File   string `json:"file"`   // capture
	Space  string `json:"space"`  // memory ID
	Source string `json:"source"` // kind of text: torch, torch-library, tensorflow, xla-compile, xla-run, host, oom-killer, or the program that printed it (docs/manual/formats.md#oom-text); recording for a recorded event
	Line   *int64 `json:"line"`   // line of the file on which the text begins; null for a recorded event
	Times  int64  `json:"times"`  // how often the same failure was printed
	At     int64  `json:"at"`     // instant
	Rank   *int64 `json:"rank"`   // rank of the process; null if unknown
	First  bool   `json:"first"`  // its process was the first that failed, by the launcher's words or by the clock of several recordings
	Device string `json:"device"` // cuda:0, tpu, cpu; empty if unknown

	RequestedBytes    *int64 `json:"requested_bytes"`            // size of the request; in texts of PyTorch rounded up to a segment
	CapacityBytes     *int64 `json:"capacity_bytes"`             // of the device; of a recording at least this: what was reserved and what was free
	FreeBytes         *int64 `json:"free_bytes"`                 // free on the device, after the allocator gave back what it could
	LimitBytes        *int64 `json:"limit_bytes"`                // limit that the program or the pool has
	LiveBytes         *int64 `json:"live_bytes"`                 // in live buffers
	ReservedBytes     *int64 `json:"reserved_bytes"`             // reserved from the device
	UnallocatedBytes  *int64 `json:"reserved_unallocated_bytes"` // reserved, but in no buffer
	PrivatePoolsBytes *int64 `json:"private_pools_bytes"`        // idle in private pools
	OutsideBytes      *int64 `json:"outside_bytes"`              // used outside of the allocator: by the process, or by anyone if the text does not list it
	OthersBytes       *int64 `json:"other_processes_bytes"`      // used by other processes, as the text lists them
	NeededBytes       *int64 `json:"needed_bytes"`               // by the compiled program as a whole
	ExceededBytes     *int64 `json:"exceeded_bytes"`             // bytes by which it exceeds the capacity
	LargestFreeBytes  *int64 `json:"largest_free_bytes"`         // largest free block of the allocator
	RoundingBytes     int64  `json:"rounding_bytes"`             // largest rounding error of these figures
	ReleasedBytes     int64  `json:"released_bytes"`             // given back to the device right before the failure, to make room
	Retries           int64  `json:"retries"`                    // earlier requests for which the allocator gave back memory, and that then fitted

	Account *Account `json:"account"` // who has the memory of the device; null if its capacity is unknown

	Requester *Site           `json:"requester"` // who asked; null if unknown
	Holders   []Holder        `json:"holders"`   // who held memory at that instant, largest first
	HeldBy    []Part          `json:"held_by"`   // what held it, by name, largest first: a model, a list, a graph; empty if the recorder wrote no names
	Buffers   []FailureBuffer `json:"buffers"`   // buffers that the text lists, in its order
	Beside    []DeviceBytes   `json:"beside"`    // what other devices of the program had in use then; empty if none was recorded, or if it survived

	Reason     string   `json:"reason"`            // why it failed: see "Reasons" below
	Confidence float64  `json:"confidence"`        // of the reason, 0 to 1
	How        string   `json:"how"`               // how it is known: recorded, derived from recorded facts by arithmetic or an exact replay, or inferred
	Advice     string   `json:"advice"`            // one thing to do
	Proof      *string  `json:"proof"`             // how it is known that the advice helps; null if it is not
	Sure       *float64 `json:"advice_confidence"` // of the peak that a compiled program has with the advice, 0 to 1; null if it was not measured
	Next       string   `json:"next"`              // command that shows more, or how to record more

	Past       *WhatIfScenario `json:"past"`       // cheapest change with which the last request fits when the recording is replayed; null if none is known
	Unfinished bool            `json:"unfinished"` // past is until the recording ends, in the middle of a pass: the rest may need more

	// For texts, beside the JSON.
	Of      *lifetime.SpaceInfo `json:"-"` // memory ID in the model
	Words   string              `json:"-"` // the reason in words
	Unfit   string              `json:"-"` // why what is free does not serve the request
	Leak    *failureLeak        `json:"-"` // largest leak below it; nil = none found
	AtLeast bool                `json:"-"` // CapacityBytes is what is known of a recording
	Absurd  bool                `json:"-"` // the request was for more than 2^60 bytes
	Opaque  bool                `json:"-"` // memlane reads no recordings of the program
	Tuned   bool                `json:"-"` // Advice are settings with which a replay fits

	// Of the request. Callers are those of the requester, innermost first.
	Callers  []string      `json:"-"`
	Operator string        `json:"-"` // "" if it is the requester
	Printed  string        `json:"-"` // what the text of the error says about it
	Stream   int64         `json:"-"`
	Step     int           `json:"-"` // its number among the marked steps, from 1; 0 = no step was marked
	StepName string        `json:"-"` // of its mark, "" if it ended before
	Within   string        `json:"-"` // innermost annotation of the program around it
	Phase    purpose.Phase `json:"-"`

	Categories []Part     `json:"-"` // live bytes by category, largest first; empty if the capture has none
	Sizes      []SizeHeld `json:"-"` // the held buffers by size, most bytes first, if their origin was not recorded
}

// Account divides a capacity among who has it at a failure. The parts add up to it, but for more live bytes than the device has.
type Account struct {
	CapacityBytes    int64  `json:"capacity_bytes"`    // of the device; of its allocator if only that is known: its limit, or of a recording what was reserved and free
	LiveBytes        *int64 `json:"live_bytes"`        // in live buffers
	IdleBytes        *int64 `json:"idle_bytes"`        // reserved by the allocator, but in no live buffer
	OutsideBytes     *int64 `json:"outside_bytes"`     // used by the process, outside of the allocator
	OthersBytes      *int64 `json:"others_bytes"`      // used by other processes, as the text lists them
	FreeBytes        *int64 `json:"free_bytes"`        // free
	UnaccountedBytes int64  `json:"unaccounted_bytes"` // of nobody that the text names, with the parts that are null
}

// failureLeak is a leak below a failed allocation.
type failureLeak struct {
	Name    string // of the call site
	PerStep int64  // bytes; 0 if steps are unknown
	lifetime.Amount
}

// SizeHeld sums up the held buffers of one size.
type SizeHeld struct{ Bytes, Count int64 } // Bytes of each

func (f *Failure) timed() bool {
	return f.Line == nil && f.Of != nil && f.Of.Axis == lifetime.Time
}

// Holder is the memory that one call site or operation held.
type Holder struct {
	Site     Site   `json:"site"`     // call site or operation
	Category string `json:"category"` // as in memlane peak
	How      string `json:"how"`      // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not
	Bytes    int64  `json:"bytes"`    // occupied
	Buffers  int64  `json:"buffers"`  // number of buffers

	Name string `json:"-"`

	site lifetime.SiteID // its first
	how  purpose.How
}

// DeviceBytes is what a device had in use.
type DeviceBytes struct {
	ID    string `json:"id"`    // memory ID
	Bytes int64  `json:"bytes"` // in live buffers
}

// FailureBuffer is a buffer that a text lists.
type FailureBuffer struct {
	Bytes        int64  `json:"bytes"`         // occupied
	Shape        string `json:"shape"`         // in the producer's notation
	Op           string `json:"op"`            // operation
	PaddingBytes *int64 `json:"padding_bytes"` // padding in a compiled program; null for others
}

const maxHeld = 20

// OOMsOf describes the failed allocations of some spaces of a capture, and the compiled programs that are larger than
// the device. near are the spaces whose recording ends close to the limit, for profilers that do not record a request
// that fails: the failure is inferred, and so named.
func OOMsOf(c *judge.Capture, spaces []*lifetime.Space) (all, near []Failure) {
	all = []Failure{}
	for _, s := range spaces {
		diagnoses := c.Failures(s)
		for i := range diagnoses {
			if f := failureOf(c, &diagnoses[i]); diagnoses[i].Inferred && !static(&s.SpaceInfo) {
				near = append(near, f)
			} else {
				if i == len(diagnoses)-1 && f.Source == "recording" && f.Reason != string(oom.Survived) {
					if f.Reason != string(oom.Leak) { // which fills any room
						if f.Past = pastOf(c, s); f.Past != nil {
							f.Unfinished = autoEngine(c, s).Unfinished
						}
					}
					f.Beside = append(f.Beside, beside(c.Capture, s, f.At)...)
				}
				all = append(all, f)
			}
		}
	}
	sortFailures(all)
	return all, near
}

// Fit is a compiled program that the capacity has room for.
type Fit struct {
	File          string `json:"file"`           // capture
	Space         string `json:"space"`          // memory ID
	NeededBytes   int64  `json:"needed_bytes"`   // reserved for the whole run, with fragmentation
	CapacityBytes int64  `json:"capacity_bytes"` // of the device
}

// FitsOf returns the compiled programs that the capacity has room for.
func FitsOf(c *judge.Capture) (all []Fit) {
	for _, s := range c.Spaces {
		capacity := oom.CapacityFor(s, c.Spaces, c.Settings.Limit)
		if needed := oom.Needed(s); static(&s.SpaceInfo) && 0 < needed && needed <= capacity {
			all = append(all, Fit{c.Sources[s.Source].File, s.ID(), needed, capacity})
		}
	}
	return all
}

// beside returns what other devices of the program of a space had in use at an instant.
func beside(c *lifetime.Capture, s *lifetime.Space, at int64) (all []DeviceBytes) {
	kind, _, _ := strings.Cut(s.Device, ":")
	for _, o := range c.Spaces {
		other, _, _ := strings.Cut(o.Device, ":")
		if o != s && other == kind && o.Source == s.Source && o.Process == s.Process && o.Memory == s.Memory &&
			o.Axis == lifetime.Time && s.Axis == o.Axis {
			all = append(all, DeviceBytes{o.ID(), o.LevelAt(at, lifetime.Occupied)})
		}
	}
	return all
}

// sortFailures puts the failure that answers why a program died first: what a launcher names as the first, then what
// the program did not survive, by time. Failures of several captures keep the order of the captures, unless all have a
// clock.
func sortFailures(all []Failure) {
	clock := !slices.ContainsFunc(all, func(f Failure) bool { return !f.timed() })
	files := map[string]int{} // in order of appearance
	for i := range all {
		if _, ok := files[all[i].File]; !ok {
			files[all[i].File] = len(files)
		}
	}
	slices.SortStableFunc(all, func(x, y Failure) int {
		order := cmp.Or(last(!x.First, !y.First), last(x.Reason == string(oom.Survived), y.Reason == string(oom.Survived)))
		switch {
		case order != 0:
			return order
		case !clock && x.File != y.File:
			return cmp.Compare(files[x.File], files[y.File])
		case x.Line != nil && y.Line != nil:
			return cmp.Compare(*x.Line, *y.Line)
		}
		return cmp.Compare(x.At, y.At)
	})
}

// NewOOMs returns the answer for the failures of all captures, or without any for the programs that fit. Of several recordings with a
// clock, the first failure that was not survived is marked.
func NewOOMs(all []Failure, fits []Fit) *OOMs {
	sortFailures(all)
	clock := len(all) > 1 && !slices.ContainsFunc(all, func(f Failure) bool { return !f.timed() })
	if clock && all[0].Reason != string(oom.Survived) &&
		slices.ContainsFunc(all, func(f Failure) bool { return f.File != all[0].File }) {
		all[0].First = true
	}
	out := &OOMs{Schema: schema, Fits: []Fit{}, OOMs: all}
	switch {
	case len(all) > 0:
		out.Next = all[0].Next
	case len(fits) > 0:
		slices.SortStableFunc(fits, func(x, y Fit) int { return cmp.Compare(y.NeededBytes, x.NeededBytes) })
		out.Fits, out.Next = fits, commandLine("peak", fits[0].File)
	}
	return out
}

// last compares values so that those with true come last.
func last(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// figureOf returns nil for -1, an unknown figure.
func figureOf(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func failureOf(c *judge.Capture, d *oom.Diagnosis) Failure {
	t, s, m := &c.Tables, d.Space, d.Mark
	out := figuresOf(t, s, m, &d.Failure)
	out.Reason, out.Confidence, out.Advice = string(d.Reason), math.Round(d.Confidence*1000)/1000, d.Advice
	out.Words, out.Unfit, out.How = d.Words, d.Unfit(), d.How().String()
	out.ReleasedBytes, out.Retries = d.Released, d.Retries
	if d.Proof != "" {
		out.Proof = &d.Proof
	}
	if d.Sure > 0 {
		out.Sure = &d.Sure
	}
	if l := d.Leak; l != nil {
		out.Leak = &failureLeak{siteName(t, &s.SpaceInfo, l.Site), int64(l.PerStep), l.Amount}
	}
	switch {
	case d.Inferred:
		out.Source, out.Line, out.Next = "recording", nil, commandLine("peak", out.File)
	case d.Replayed != nil && d.Replayed.Conf != "" && d.Reason != oom.Leak:
		out.Next, out.Tuned = commandLine("tune", out.File), true
	default:
		out.Next = nextStep(&out, m.Failure == nil, t.Sources[s.Source].Producer)
	}
	if !d.Brief {
		out.request(c, s, m)
		out.held(t, s, m)
	}
	return out
}

func figuresOf(t *lifetime.Tables, s *lifetime.Space, m *lifetime.Mark, state *failure.Failure) Failure {
	out := Failure{
		File: t.Sources[s.Source].File, Space: s.ID(), Source: cmp.Or(state.Source, "recording"),
		Times: max(state.Times, 1), At: m.Begin,
		First: state.First, Device: s.Device, Holders: []Holder{}, HeldBy: []Part{}, Buffers: []FailureBuffer{}, Beside: []DeviceBytes{},
		RequestedBytes: known(m.Requested), CapacityBytes: figureOf(state.Capacity), FreeBytes: figureOf(m.Free.Or(-1)),
		LimitBytes: figureOf(state.Allowed),
		LiveBytes:  figureOf(state.Live), ReservedBytes: figureOf(state.Reserved), UnallocatedBytes: figureOf(state.Unallocated),
		PrivatePoolsBytes: figureOf(state.Idle), OthersBytes: figureOf(state.Others), NeededBytes: figureOf(state.Needed),
		ExceededBytes: figureOf(state.Exceeded), LargestFreeBytes: figureOf(state.LargestFree), RoundingBytes: state.Rounding,
		Of: &s.SpaceInfo, Absurd: state.Absurd, Opaque: state.Opaque,
	}
	a, divides := state.Account(m.Free.Or(-1))
	if out.OutsideBytes = figureOf(a.Outside); divides {
		out.Account = &Account{a.Capacity, figureOf(a.Live), figureOf(a.Idle), out.OutsideBytes, figureOf(a.Others), figureOf(a.Free), a.Rest}
	}
	if m.Failure == nil {
		out.CapacityBytes, out.AtLeast = figureOf(a.Capacity), state.Capacity < 0
	} else if out.Line = &state.Line; a.Rest > 4*state.Rounding && a.Live >= 0 && a.Free >= 0 && state.InProcess < 0 && !state.Cut {
		out.OutsideBytes = &a.Rest // of anyone
	}
	if rank, err := strconv.ParseInt(strings.TrimPrefix((finding.RankNames{}).Of(s.Process, out.File), "rank "), 10, 64); err == nil {
		out.Rank = &rank
	}
	if m.Site != 0 {
		out.Requester, out.Callers = new(siteOf(t, &s.SpaceInfo, m.Site)), callersOf(t, m.Site)
	}
	return out
}

// request adds the operator, the stream, the step and the phase of a request.
func (f *Failure) request(c *judge.Capture, s *lifetime.Space, m *lifetime.Mark) {
	t := &c.Tables
	if m.Failure != nil {
		f.Printed = m.Text
		if site := &t.Sites[m.Site]; m.Failure.Source == failure.FromTensorFlow && site.Stack != 0 && site.Op != "" { // beside the line
			f.Operator = strings.TrimSpace(site.Op + " " + tensorName(site))
		}
	} else if op := cmp.Or(t.OperatorOf(t.Sites[m.Site].Stack), t.Sites[m.Site].Op); op != siteName(t, &s.SpaceInfo, m.Site) {
		f.Operator = op
	}
	f.Stream, f.Phase = m.Stream, c.Program().PhaseOf(m.Site)
	f.stepOf(s, m.Begin)
}

// held adds who held memory, and the buffers that a text lists.
func (f *Failure) held(t *lifetime.Tables, s *lifetime.Space, m *lifetime.Mark) {
	if !s.UsageOnly() {
		f.holders(t, s, s.Breakdown(m.Begin))
		f.HeldBy = heldBy(t, s, m.Begin)
	}
	if m.Failure == nil {
		return
	}
	live := s.LiveAt(m.Begin)
	if len(f.Holders) == 1 && len(live) > 0 && s.Buffers[live[0]].Site == 0 {
		f.Sizes = bySize(s, live)
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
			buffer.PaddingBytes = new(b.Size - b.Requested)
		}
		f.Buffers = append(f.Buffers, buffer)
	}
}

// holders sums up rows by name and category. The buffers of a compiled program stay apart.
func (f *Failure) holders(t *lifetime.Tables, s *lifetime.Space, rows []lifetime.Row) {
	type key struct {
		name, category string
		row            int
	}
	index := map[key]int{}
	for i, r := range rows {
		k := key{name: cmp.Or(rowNames[r.Kind], holderName(t, s, r.Site)), category: t.Category(&s.SpaceInfo, r.Kind, r.Site, r.Purpose)}
		if static(&s.SpaceInfo) {
			k.row = i
		}
		h := keyed.At(index, &f.Holders, k, Holder{Category: k.category, Name: k.name, site: r.Site, how: purpose.Recorded})
		h.Bytes, h.Buffers = units.AddSat(h.Bytes, r.Bytes), h.Buffers+r.Count
		h.how = min(h.how, t.Purpose(r.Purpose).HowNamed())
	}
	slices.SortStableFunc(f.Holders, func(x, y Holder) int { return cmp.Compare(y.Bytes, x.Bytes) })
	f.sumCategories()
	f.Holders = f.Holders[:min(len(f.Holders), maxHeld)]
	for i := range f.Holders {
		h := &f.Holders[i]
		h.Site, h.How = siteOf(t, &s.SpaceInfo, h.site), howOf(h.Category, h.how)
	}
}

func (f *Failure) sumCategories() {
	const most = 4
	var all sums
	for _, h := range f.Holders {
		if h.Category != "" {
			all.add(h.Category, h.how, lifetime.Amount{Bytes: h.Bytes})
		}
	}
	f.Categories = all.parts()
	f.Categories = f.Categories[:min(len(f.Categories), most)]
}

func holderName(t *lifetime.Tables, s *lifetime.Space, id lifetime.SiteID) string {
	if !static(&s.SpaceInfo) || t.Sites[id].Shape == "" {
		return siteName(t, &s.SpaceInfo, id)
	}
	return oom.BufferName(t, id)
}

func bySize(s *lifetime.Space, live []int) (all []SizeHeld) {
	counts := map[int64]int64{}
	for _, i := range live {
		counts[s.Buffers[i].Size]++
	}
	for _, size := range slices.SortedFunc(maps.Keys(counts), func(x, y int64) int {
		return cmp.Or(cmp.Compare(float64(y)*float64(counts[y]), float64(x)*float64(counts[x])), cmp.Compare(y, x))
	}) {
		all = append(all, SizeHeld{size, counts[size]})
	}
	return all
}

// nextStep returns the command that shows more, or how to record more.
func nextStep(f *Failure, recorded bool, producer string) string {
	switch {
	case recorded:
		return commandLine("peak", "--at", selection.AtOOM.String(), f.File)
	case f.Source == failure.FromCompiler, f.Source == failure.FromXLA && f.NeededBytes != nil:
		return `XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto", then memlane peak DIR`
	case f.Source == failure.FromXLA, f.Source == failure.FromTensorFlow && producer == "JAX":
		return "jax.profiler.save_device_memory_profile(FILE) before it fails, then memlane peak FILE"
	case f.Source == failure.FromTensorFlow:
		return "record a profile (tf.profiler.experimental.start), then memlane report -o report.html FOLDER"
	case f.Source == failure.FromHost, f.Source == failure.FromKernel:
		return "memlane reads accelerator memory; use memray or tracemalloc for host memory"
	}
	module := f.RecordedBy()
	switch {
	case module == "" && f.Device != "mps":
		who := f.Source
		if who == failure.FromOther {
			who = "this program"
		}
		return fmt.Sprintf("memlane reads no captures of %s; log the free memory of the device while it runs", who)
	case module == "":
		return "PyTorch does not record this memory: print torch.mps.current_allocated_memory() between the parts of a step"
	}
	return fmt.Sprintf("call torch.%s.memory._record_memory_history() first, _dump_snapshot(FILE) when it fails, then run memlane oom FILE", module)
}

// RecordedBy returns the part of torch that records the memory of the device; "" if none does.
func (f *Failure) RecordedBy() string {
	if f.Opaque || f.Source == failure.FromHost || f.Source == failure.FromKernel {
		return ""
	}
	switch device, _, _ := strings.Cut(f.Device, ":"); device {
	case "xpu", "npu":
		return device
	case "mps":
		return ""
	}
	return "cuda"
}

// stepOf sets the step of a failure and what the program named around it.
func (f *Failure) stepOf(s *lifetime.Space, instant int64) {
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Begin > instant {
			break
		}
		switch {
		case m.Kind == lifetime.Step && (m.End > instant || m.End == m.Begin):
			f.StepName = m.Text
			fallthrough
		case m.Kind == lifetime.Step:
			f.Step++
		case m.Kind == lifetime.Annotation && m.End > instant:
			f.Within = m.Text
		}
	}
}
