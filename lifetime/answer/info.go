package answer

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/selection"
)

// Info describes the contents of captures.
type Info struct {
	Schema   string    `json:"schema"`          // "memlane/1"
	Next     string    `json:"next"`            // command that tells more; empty if none does
	Captures []Capture `json:"captures"`        // in the order of the command line
	Ranks    []Rank    `json:"ranks,omitempty"` // one for each rank, if there are several and every capture names its rank
}

// Capture describes the contents of one capture.
type Capture struct {
	File     string            `json:"file"`     // name on the command line
	Format   string            `json:"format"`   // reader, a value of --input-format
	Producer string            `json:"producer"` // program that wrote the file
	Settings map[string]string `json:"settings"` // settings of the allocator, if the capture has them
	Damaged  bool              `json:"damaged"`  // the file was cut off, damaged or rewritten while it was read; see losses of severity error
	Spaces   []Space           `json:"spaces"`   // memory IDs
	Losses   []Loss            `json:"losses"`   // data that is missing or damaged

	Fails   bool    `json:"-"` // requests that fail are recorded
	Silent  bool    `json:"-"` // they are not in this kind of capture
	Failed  int     `json:"-"` // requests that failed
	Cut     bool    `json:"-"` // not all of the run is recorded: events were lost, or there are none
	Fullest *Space  `json:"-"` // memory ID of the run that used most of its capacity; nil if none is known
	Used    float64 `json:"-"` // the share of the capacity
}

// Loss is data that is missing or damaged, and the reason.
type Loss struct {
	Reason   string `json:"reason"`   // reason; the reference explains all
	Severity string `json:"severity"` // info, data loss or error
	Count    int64  `json:"count"`    // number of cases
	Bytes    int64  `json:"bytes"`    // size of the affected buffers; 0 if unknown
	First    string `json:"first"`    // first case
	Text     string `json:"text"`     // explanation in one sentence
}

// Space describes one memory ID.
type Space struct {
	ID                string   `json:"id"`                  // memory ID
	Device            string   `json:"device"`              // cuda:0, cpu, tpu:3
	Module            string   `json:"module"`              // compiled program; empty for the recording of a run
	MemorySpace       *int64   `json:"memory_space"`        // memory space of a compiled program; 0 is the main memory
	Axis              string   `json:"axis"`                // time, event or program order
	Unit              string   `json:"unit"`                // ns, event or instruction: the unit of all instants
	Begin             int64    `json:"begin"`               // first instant of the recording
	End               int64    `json:"end"`                 // first instant after the recording
	LimitBytes        *int64   `json:"limit_bytes"`         // capacity of the memory
	BaseBytes         int64    `json:"base_bytes"`          // allocated before the recording, in buffers that were not recorded
	Facts             []string `json:"facts"`               // recorded kinds of data: history, end state, addresses, totals, regions, stacks, clock
	Allocations       int      `json:"allocations"`         // in the recording
	Frees             int      `json:"frees"`               // in the recording
	UsageOnly         bool     `json:"usage_only"`          // true if only totals were recorded: live is then the level at the end, with a count of 0
	EndBytes          int64    `json:"end_bytes"`           // in use at the end: the live buffers, base_bytes and the stack
	Live              Live     `json:"live"`                // buffers alive at the end
	HeldBy            []Part   `json:"held_by"`             // buffers alive at the end by what holds them, largest first: a model, an optimizer, a list, a graph; empty if the recorder wrote no names
	ReservedBytes     *int64   `json:"reserved_bytes"`      // reserved from the device at the end; null if not recorded
	ReservedPeakBytes *int64   `json:"reserved_peak_bytes"` // highest reserved memory in the recording
	Peak              TopLevel `json:"peak"`                // highest level in the recording
	AtPeak            Parts    `json:"at_peak"`             // what the memory at the peak is for
	PaddingBytes      *int64   `json:"padding_bytes"`       // padding at the peak of a compiled program
	StackBytes        *int64   `json:"stack_bytes"`         // stack, outside the heap, at the peak (TPU)
	LifetimePeakBytes *int64   `json:"lifetime_peak_bytes"` // peak that the allocator reported, since the program started
	Fragmentation     *float64 `json:"fragmentation"`       // share of the free bytes outside the largest hole, at the end; null if nothing is free
	FragmentationMax  *float64 `json:"fragmentation_max"`   // highest fragmentation that the allocator reported
	FreeBytes         *int64   `json:"free_bytes"`          // reserved and free, at the end
	LargestFreeBytes  *int64   `json:"largest_free_bytes"`  // largest hole at the end
	Pools             []Pool   `json:"pools"`               // reserved memory by pool and stream, largest first; empty if there is only one
	OOMs              []OOM    `json:"ooms"`                // allocations that failed
	Replay            *Replay  `json:"replay"`              // how much of the recording the rules of PyTorch's allocator predict; null for other allocators, parts of a recording and more than 2 million buffers

	Steps *Steps `json:"steps"` // iterations of the program's loop; null if none is known

	File    string   `json:"-"`
	Totals  int      `json:"-"`       // number of recorded totals, with UsageOnly
	Program *Program `json:"program"` // memory of a compiled program at its peak; null for the recording of a run

	Of *lifetime.SpaceInfo `json:"-"` // in the model
}

// Steps are the iterations of the loop of a program.
type Steps struct {
	Count      int     `json:"count"`      // in the recording
	Inferred   bool    `json:"inferred"`   // true if memlane inferred them, because neither the program nor its framework marks them
	How        string  `json:"how"`        // how it is known: recorded, derived from recorded facts by arithmetic or an exact replay, or inferred
	Confidence float64 `json:"confidence"` // from 0 to 1, that the count is right; 1 if they are marked

	Annotated bool `json:"-"` // those that PyTorch annotates as steps of an optimizer
}

// stepsOf returns nil for steps that are not known.
func stepsOf(steps *program.Steps) *Steps {
	if len(steps.Begins) == 0 {
		return nil
	}
	return &Steps{len(steps.Begins), steps.Inferred(), howKnown(!steps.Inferred(), false), math.Round(steps.Confidence()*1000) / 1000, steps.Source == program.Annotated}
}

// Pool is memory that only one pool and stream of the allocator can use.
type Pool struct {
	Pool   string     `json:"pool"`   // default pool, graph pool (1,0), private pool (0,1) or pool not recorded
	Stream *int64     `json:"stream"` // number of the stream, in order of appearance; 0 is the default stream, null is not recorded
	Peak   PoolMemory `json:"peak"`   // at the peak of the memory ID
	End    PoolMemory `json:"end"`    // at the end
}

// PoolMemory is the memory of a pool and stream at one instant.
type PoolMemory struct {
	LiveBytes        int64 `json:"live_bytes"`         // occupied by live buffers
	ReservedBytes    int64 `json:"reserved_bytes"`     // reserved from the device
	FreeBytes        int64 `json:"free_bytes"`         // reserved and free: no other pool or stream can use it
	LargestFreeBytes int64 `json:"largest_free_bytes"` // largest hole
}

// Live sums up the buffers that are alive at the end.
type Live struct {
	Count            int64 `json:"count"`              // buffers
	Bytes            int64 `json:"bytes"`              // occupied, including buffers with a pending free
	RequestedBytes   int64 `json:"requested_bytes"`    // requested by the program; the occupied bytes if that was not recorded
	PendingFreeCount int64 `json:"pending_free_count"` // buffers whose free was requested but not completed
	PendingFreeBytes int64 `json:"pending_free_bytes"` // occupied bytes of these buffers
}

// TopLevel is the peak of the memory in use.
type TopLevel struct {
	Bytes          int64    `json:"bytes"`           // occupied
	RequestedBytes int64    `json:"requested_bytes"` // peak of the requested bytes, possibly at another instant; of the occupied bytes if they were not recorded
	At             int64    `json:"at"`              // instant of bytes
	Fragmentation  *float64 `json:"fragmentation"`   // fragmentation that the allocator reported at that instant
}

// OOM is a failed allocation.
type OOM struct {
	At              int64  `json:"at"`                // instant
	RequestedBytes  int64  `json:"requested_bytes"`   // size of the allocation; 0 if unknown
	DeviceFreeBytes *int64 `json:"device_free_bytes"` // free on the device; null if unknown
}

// Program is the memory of a compiled program at an instant, by purpose, in bytes.
type Program struct {
	Name        string `json:"-"`                 // without the memory space
	Memory      string `json:"-"`                 // number of the memory space
	Inputs      int64  `json:"inputs_bytes"`      // arguments, with the donated ones
	Donated     int64  `json:"donated_bytes"`     // arguments that outputs overwrite: alias_size_in_bytes of JAX's memory_analysis()
	Outputs     int64  `json:"outputs_bytes"`     // outputs in memory of their own
	Temporaries int64  `json:"temporaries_bytes"` // results that the program needs for a while
	Constants   int64  `json:"constants_bytes"`   // constants
	Unsorted    int64  `json:"unknown_bytes"`     // of an unknown purpose
	Padding     int64  `json:"padding_bytes"`     // padding of layouts in all of these
	Planned     int64  `json:"reserved_bytes"`    // what the memory must have for the whole run, with fragmentation; 0 if unknown
	Replicated  int64  `json:"replicated_bytes"`  // inputs and outputs that several devices hold
	Parted      int64  `json:"sharded_bytes"`     // the same, each divided by the number of its copies
}

// InfoOf describes the contents of a capture. The answer does not refer to o, which has all buffers: there may be a
// thousand captures.
func InfoOf(o *judge.Outline) Capture {
	damage, _ := loss.Worst(o.Losses, loss.Damage)
	source := &o.Sources[0]
	info := Capture{
		File: o.Name(), Format: source.Format, Producer: source.Producer, Settings: source.SettingsByKey(),
		Damaged: damage.Count > 0, Losses: lossesOf(&o.Tables), Fails: source.Traits.Fails, Silent: !source.Traits.Fails && !source.Traits.Partly,
	}
	info.Cut = info.Damaged || slices.ContainsFunc(o.Losses, func(l loss.Loss) bool { return l.Reason == loss.RingOverflow })
	layers := layer.Of(&o.Tables)
	for i, s := range o.Spaces {
		space := spaceOf(&o.Tables, s)
		space.File = o.Sources[s.Source].File
		if s.Recording != nil {
			if h := o.Kept.Replay(s.Recording); h != nil {
				space.Replay = new(replayOf(h))
			}
		}
		space.HeldBy = heldBy(&o.Tables, s.Recording, s.AtEnd())
		space.AtPeak = partsOf(layers, &o.Tables, &s.SpaceInfo, s.PeakRows)
		if !static(&s.SpaceInfo) {
			space.Steps = stepsOf(o.Kept.Program().Steps(o.Kept.Spaces[i]))
			none := s.Facts&lifetime.History == 0
			info.Failed, info.Cut = info.Failed+len(space.OOMs), info.Cut || none
			info.Silent = info.Silent || none && s.Allocations+s.Frees == 0 && (!info.Fails || !space.UsageOnly)
			if used := share(space.Peak.Bytes, max(s.Limit, 0)); space.LimitBytes != nil && used >= info.Used {
				info.Fullest, info.Used = &space, used
			}
		}
		info.Spaces = append(info.Spaces, space)
	}
	return info
}

func lossesOf(t *lifetime.Tables) []Loss {
	all := []Loss{}
	for _, l := range t.Losses {
		all = append(all, Loss{l.Reason.String(), l.Reason.Class().String(), l.Count, l.Bytes, l.First, l.Reason.Doc()})
	}
	return all
}

func spaceOf(t *lifetime.Tables, s *outline.Space) Space {
	info := Space{
		ID: s.ID(), Device: s.Device, Axis: s.Axis.String(), Unit: s.Axis.Unit(), Begin: s.Begin, End: s.End,
		LimitBytes: known(s.Limit), BaseBytes: s.Base, Facts: s.Facts.Names(), Allocations: s.Allocations,
		Frees: s.Frees, UsageOnly: s.UsageOnly,
		Live:   Live{s.Live.Count, s.Live.Bytes, s.Live.Requested, s.Pending.Count, s.Pending.Bytes},
		Module: s.Module, LifetimePeakBytes: known(s.LifetimePeak), StackBytes: s.Stack,
		Peak:  TopLevel{s.Peak.Bytes, s.PeakRequested.Bytes, s.Peak.At, s.FragmentationAtPeak},
		Pools: []Pool{}, OOMs: []OOM{}, Totals: s.Totals, EndBytes: s.EndBytes, Fragmentation: s.FragmentationAtEnd,
		FragmentationMax: s.FragmentationMax, Of: new(s.SpaceInfo),
	}
	if s.UsageOnly {
		info.Live.Bytes, info.Live.RequestedBytes = s.EndBytes, s.EndBytes
	}
	if static(&s.SpaceInfo) {
		info.Program = compiledOf(t, s.Program, s.PeakRows)
		info.PaddingBytes = &info.Program.Padding
		if n, ok := s.MemorySpace(); ok {
			info.MemorySpace = &n
		}
	}
	if s.Facts&lifetime.Regions != 0 || s.ReservedPeak > 0 {
		info.ReservedBytes, info.ReservedPeakBytes = new(s.ReservedEnd), new(s.ReservedPeak)
	}
	// In a compiled program, holes between allocations are planned and not fragmentation.
	if s.Facts&lifetime.Regions != 0 && !static(&s.SpaceInfo) {
		info.Pools = poolsOf(s)
		info.FreeBytes, info.LargestFreeBytes = new(s.Free.Total), new(s.Free.Largest)
		if share, ok := s.Free.Fragmentation(); ok {
			info.Fragmentation = &share
		}
	}
	for _, m := range s.Marks {
		if m.Kind == lifetime.OOM {
			info.OOMs = append(info.OOMs, OOM{At: m.Begin, RequestedBytes: m.Requested, DeviceFreeBytes: figureOf(m.Free.Or(-1))})
		}
	}
	return info
}

// poolsOf returns the pools and streams of a space, none if it has only one.
func poolsOf(s *outline.Space) []Pool {
	all := map[region.PoolID]*Pool{}
	poolOf := func(u *region.PoolUse) *Pool {
		if all[u.PoolID] == nil {
			all[u.PoolID] = &Pool{Pool: u.PoolName()}
			if !u.NoRegion {
				all[u.PoolID].Stream = &u.Stream
			}
		}
		return all[u.PoolID]
	}
	for i := range s.PoolsAtPeak {
		poolOf(&s.PoolsAtPeak[i]).Peak = poolMemory(&s.PoolsAtPeak[i])
	}
	for i := range s.PoolsAtEnd {
		poolOf(&s.PoolsAtEnd[i]).End = poolMemory(&s.PoolsAtEnd[i])
	}
	if !several(maps.Keys(all)) {
		return []Pool{}
	}
	var pools []Pool
	for _, id := range slices.SortedFunc(maps.Keys(all), region.PoolID.Compare) {
		pools = append(pools, *all[id])
	}
	slices.SortStableFunc(pools, func(x, y Pool) int {
		return cmp.Compare(max(y.Peak.ReservedBytes, y.End.ReservedBytes), max(x.Peak.ReservedBytes, x.End.ReservedBytes))
	})
	return pools
}

// several reports whether there is more than one pool or more than one stream. What was not recorded may be the same.
func several(all iter.Seq[region.PoolID]) bool {
	pools, streams := map[string]bool{}, map[int64]bool{}
	for id := range all {
		if !id.NoRegion {
			streams[id.Stream] = true
			if !id.Unknown {
				pools[id.Pool] = true
			}
		}
	}
	return len(pools) > 1 || len(streams) > 1
}

func poolMemory(u *region.PoolUse) PoolMemory {
	return PoolMemory{u.Live, u.Reserved, u.Free.Total, u.Free.Largest}
}

// compiledOf sums up the rows of an instant of a compiled program by purpose.
func compiledOf(t *lifetime.Tables, s *lifetime.Space, rows []lifetime.Row) *Program {
	p := &Program{Name: strings.TrimSuffix(strings.TrimSuffix(s.ID(), s.Memory), "/"),
		Memory: strings.TrimPrefix(s.Memory, "space"), Planned: region.Planned(s)}
	for i := range s.Regions {
		if both := compiled.ForParameter | compiled.ForOutput; s.Regions[i].Uses&both == both {
			p.Donated = units.AddSat(p.Donated, s.Regions[i].Size)
		}
	}
	for _, r := range rows {
		purpose := &p.Temporaries
		switch r.Kind {
		case lifetime.Parameter:
			purpose = &p.Inputs
		case lifetime.Output:
			purpose = &p.Outputs
		case lifetime.Constant:
			purpose = &p.Constants
		case lifetime.Plain:
			purpose = &p.Unsorted
		}
		*purpose = units.AddSat(*purpose, r.Bytes)
		if copies := t.Sites[r.Site].Copies; copies > 1 {
			p.Replicated = units.AddSat(p.Replicated, r.Bytes)
			p.Parted = units.AddSat(p.Parted, r.Bytes/copies)
		}
		p.Padding = units.AddSat(p.Padding, r.Bytes-r.Requested)
	}
	return p
}

// Ops lists the operations that changed the memory.
type Ops struct {
	Schema   string       `json:"schema"`   // "memlane/1"
	Next     string       `json:"next"`     // command that tells more
	Captures []CaptureOps `json:"captures"` // in the order of the command line
}

// CaptureOps are the operations of one capture.
type CaptureOps struct {
	File       string      `json:"file"`       // name on the command line
	Operations []Operation `json:"operations"` // sorted by --sort

	NoMemory string `json:"-"` // why the capture has no memory events; "" if it has
}

// Operation sums up the calls of one operation.
type Operation struct {
	Name       string         `json:"name"`         // name
	Kind       string         `json:"kind"`         // operator, range, function, or runtime: a call of the device's runtime or driver, or work of the profiler
	Calls      int64          `json:"calls"`        // number of calls
	TimeNS     int64          `json:"time_ns"`      // time in calls, in nanoseconds
	SelfTimeNS int64          `json:"self_time_ns"` // the same without operations called by it
	Host       OperationBytes `json:"host"`         // change of CPU memory
	Device     OperationBytes `json:"device"`       // change of GPU memory

	Function bool `json:"-"` // a Python function
}

// OperationBytes are the changes of one kind of memory by an operation.
type OperationBytes struct {
	Allocated int64 `json:"allocated_bytes"` // allocated while it ran
	Freed     int64 `json:"freed_bytes"`     // freed while it ran
	Bytes     int64 `json:"bytes"`           // allocated less freed
	SelfBytes int64 `json:"self_bytes"`      // the same without operations called by it
}

// Orders are the ways to sort operations, by the name that --sort has. "memory" is most bytes first.
var Orders = map[string]func(x, y Operation) int{
	"memory": func(x, y Operation) int {
		return cmp.Or(cmp.Compare(y.Host.SelfBytes+y.Device.SelfBytes, x.Host.SelfBytes+x.Device.SelfBytes),
			cmp.Compare(y.Host.Bytes+y.Device.Bytes, x.Host.Bytes+x.Device.Bytes), strings.Compare(x.Name, y.Name))
	},
	"time": func(x, y Operation) int {
		return cmp.Or(cmp.Compare(y.SelfTimeNS, x.SelfTimeNS), cmp.Compare(y.TimeNS, x.TimeNS), strings.Compare(x.Name, y.Name))
	},
	"calls": func(x, y Operation) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), strings.Compare(x.Name, y.Name))
	},
}

// OpsOf returns the operations of a capture, sorted by one of Orders, or by time if the capture has no memory events.
// It fails with a *selection.NothingError if there are no operations.
func OpsOf(c *lifetime.Capture, order string) (CaptureOps, error) {
	if len(c.Operations) == 0 {
		return CaptureOps{}, &selection.NothingError{File: c.Name(),
			Why: "no operations; only traces of the PyTorch profiler have them (export_chrome_trace)"}
	}
	out := CaptureOps{File: c.Name(), NoMemory: loss.NoEvents(c.Losses)}
	for _, o := range c.Operations {
		out.Operations = append(out.Operations, Operation{
			Name: o.Name, Kind: o.Kind, Calls: o.Calls, TimeNS: o.Time, SelfTimeNS: o.SelfTime,
			Host: bytesOf(o.Host), Device: bytesOf(o.Device), Function: o.Kind == "function",
		})
	}
	if order == "memory" && out.NoMemory != "" {
		order = "time"
	}
	slices.SortStableFunc(out.Operations, Orders[order])
	return out, nil
}

func bytesOf(b lifetime.OperationBytes) OperationBytes {
	return OperationBytes{b.Allocated, b.Freed, b.Bytes(), b.SelfBytes}
}
