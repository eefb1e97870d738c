package lifetime

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/chunked"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/internal/flags"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// IDs are indexes into Tables; 0 = none.
type (
	SiteID  uint32
	StackID uint32
	FrameID uint32
	NoteID  uint32
)

// Tables holds the sources, sites, stacks, frames, notes, holders and losses that all spaces of
// a capture share. Entry 0 of Sites, Stacks, Frames, Notes and Holders means "none".
type Tables struct {
	Sources []Source
	Sites   []Site
	Stacks  []Stack
	Depth   int // most calls of a stack that Innermost returns; package build sets it
	Frames  []frame.Frame
	Notes   []string
	Holders []holder.Holder
	// Purposes has the zero purpose first. Package category adds those of programs whose buffers it can judge.
	Purposes []purpose.Purpose
	Losses   []loss.Loss // by class, worst first, then by reason

	// Read holds what one reader of package program found in the stacks until the next reader takes it. Its capacity is
	// 1; nil keeps nothing.
	Read chan any
}

// Name returns the name of the capture: its file, or the folder of its files.
func (t *Tables) Name() string {
	file := t.Sources[0].File
	if len(t.Sources) > 1 {
		return filepath.Dir(file)
	}
	return file
}

// Capture is the model of one capture. Package build makes it. Afterwards only package
// category and finding.Mark change it: they set the purposes of buffers.
type Capture struct {
	Tables
	Spaces []*Space

	Runs       []Run       // in file order; only kept together with Space.Reports
	Operations []Operation // by kind and name

	// Calls and samples of profilers that measure before and after each call, in file order.
	Calls   []Call
	Samples []Sample
}

// Source is one input file.
type Source struct {
	File     string // as the user named it
	Format   string // name of the reader, as in formats.All
	Producer string // program that wrote the file; "" = not recorded
	Traits   Traits
	Settings []Setting // of the allocator; by key
	Groups   []Group   // process groups of the program that the process is in, as recorded
}

// Group is a process group of a parallel program.
type Group struct {
	Name   string // as the program describes it: "mesh_tp"
	Number int    // of the process in the group, from 0
	Of     int    // how many processes the group has
}

// Setting is a setting of the program's allocator, in the producer's notation: "expandable_segments", "false".
type Setting struct{ Key, Value string }

// SettingsByKey returns the settings as a map. If a key repeats, the last one counts.
func (s *Source) SettingsByKey() map[string]string {
	byKey := map[string]string{}
	for _, setting := range s.Settings {
		byKey[setting.Key] = setting.Value
	}
	return byKey
}

// Traits describes all captures of a format. formats.Open sets them.
type Traits struct {
	Advice string // how to record a history of allocations and frees, as an imperative; "" if captures cannot have one
	OnCPU  string // the same for memory of a CPU, if that has none; "" if Advice holds there too
	Names  string // what records the names of memory that a program allocated before the recording; "" if nothing does
	Stacks bool   // allocations are attributed to call stacks, not to operations
	Calls  bool   // captures may have function calls and no memory events
	Fails  bool   // requests that fail are recorded
	Partly bool   // some programs of the format record them
	Folded bool   // outlines have only what is alive at the peak and at the end, also of a history
}

// AdviceFor returns how to record a history of the memory of a device, or what to record instead.
func (t *Traits) AdviceFor(device string) string {
	if kind, _, _ := strings.Cut(device, ":"); kind == "cpu" && t.OnCPU != "" {
		return t.OnCPU
	}
	return t.Advice
}

// SpaceInfo names the memory of a space and describes it as a whole. Fields that do not apply are "".
type SpaceInfo struct {
	Source    int    // index into Tables.Sources
	Host      string // machine
	Process   string // process or rank
	Device    string // "cuda:0", "cpu", "tpu:3"
	Memory    string // a kind of memory of the device: "pinned"
	Allocator string // allocator or pool implementation
	Module    string // compiled program
	Entry     string // its entry computation, which is not part of ID

	Axis  Axis
	Begin int64 // first instant of the window, in units of Axis
	End   int64 // first instant after the window
	Facts Facts
	Limit int64 // capacity in bytes; 0 = not known
	Base  int64 // bytes in use throughout the window that belong to no recorded buffer

	// LifetimePeak is the allocator's own peak of occupied bytes since the program began, perhaps before the window; 0 = not known.
	LifetimePeak int64

	// OnlyOccupied: the sizes that the program requested were not recorded. The requested bytes of buffers are their
	// occupied ones.
	OnlyOccupied bool

	Target      string            // kind of device that a compiled program is for: "gpu"; "" = not known
	Remedies    []compiled.Change // of a compiled program, whose peak is known
	ScopedBytes int64             // the most memory that one instruction has for itself, beside what is assigned; 0 without build.XProf
	ScopedInstr string            // that instruction

	// Allocations and frees recorded in the window, without inferred ones.
	Allocations, Frees int
}

// ID returns the name of the space for people and for --space: its parts that are not "", joined by "/".
func (s *SpaceInfo) ID() string {
	var parts []string
	for _, p := range []string{s.Host, s.Process, s.Module, s.Allocator, s.Device, s.Memory} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

// MemorySpace returns the number of a compiled program's memory space. ok is false for other spaces.
func (s *SpaceInfo) MemorySpace() (n int64, ok bool) {
	number, ok := strings.CutPrefix(s.Memory, "space")
	if !ok || s.Axis != ProgramOrder {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil
}

// IsMain reports whether a space is in the main memory of its device. A compiled program also has spaces on the chip
// and of the host.
func (s *SpaceInfo) IsMain() bool {
	n, ok := s.MemorySpace()
	return !ok || n == 0
}

// AtEnd returns the last instant of the window.
func (s *SpaceInfo) AtEnd() int64 { return s.End - 1 }

// Space is one heap on one axis.
type Space struct {
	SpaceInfo

	Buffers []Buffer // by Begin
	Regions []Region // by Begin, then Addr
	Totals  []Total  // by T
	Marks   []Mark   // by Begin

	// EndOrder lists the indexes of Buffers by End. Buffers that are alive at the end
	// of the window come last. See SortEnds.
	EndOrder []uint32

	// Stack is the memory reserved outside the heap for the stack of compiled programs (TPU), as a step function by At.
	// Its first level holds from the beginning of the window. It adds to every level of the space.
	Stack []Level

	// Values are the logical buffers of a compiled program, in order of allocation.
	Values []Value

	// Optional columns of Buffers; nil = unused.
	FreeSites []SiteID    // site of the free
	BufNotes  []NoteID    // the program's text about the buffer
	Holders   []HolderID  // its name and what holds it, of those alive at the end
	ValueIDs  []int64     // ID of its Value
	Purposes  []PurposeID // what it is for; package category sets it

	// FreeRequests has the instant at which the program freed a buffer. It is before End
	// if other events came in between, because other streams still used the memory.
	FreeRequests []int64

	// Reports are the reports of the allocator in file order. Readers record them
	// instead of buffers if the Builder keeps build.Reports.
	Reports chunked.List[AllocatorEvent]

	Ungrouped *Space // the space with its call sites, if it is one of selection.GroupBy; else nil
}

// Axis is the unit of Begin and End.
type Axis uint8

const (
	Time         Axis = iota // nanoseconds on the producer's clock
	Event                    // number of the event, in a history without a clock
	ProgramOrder             // positions in a compiled program's schedule
)

// String returns the name used in JSON and native text.
func (a Axis) String() string { return axisNames[a] }

// Unit returns the unit as JSON names it.
func (a Axis) Unit() string { return [...]string{"ns", "event", "instruction"}[a] }

var axisNames = [...]string{"time", "event", "program order"}

// Facts is the set of data that a capture has about a space. Renderers fail if a fact that they need is missing.
type Facts uint8

const (
	History   Facts = 1 << iota // single allocations and frees
	EndState                    // all buffers that were alive at the end
	Addresses                   // of buffers
	Totals                      // reported by the producer
	Regions                     // reserved memory
	Stacks                      // call stacks of sites
	Clock                       // the axis is time
)

var factNames = [...]string{"history", "end state", "addresses", "totals", "regions", "stacks", "clock"}

// Names returns the names of the facts in a fixed order, as in JSON.
func (f Facts) Names() []string { return flags.Names(factNames[:], f) }

// Buffer is one block of memory from its allocation to its free: the rectangle
// [Begin, End) x [Addr, Addr+Size). Sizes are bytes.
type Buffer struct {
	Begin, End int64
	Addr       uint64
	Size       int64 // occupied
	Requested  int64
	Site       SiteID
	Edge       Edge
	Kind       Kind
}

// Edge is a set of flags: which data of a buffer was not recorded.
type Edge uint8

const (
	BeginUnseen  Edge = 1 << iota // its allocation was before the window, or was lost; it begins with the window, or when the last one there ended
	EndOpen                       // alive at the end of the window
	EndInferred                   // its free was lost; it ends where its address was used again
	SizeInferred                  // Size was computed from Requested
	Pending                       // its free was requested but not completed by the end
	SiteFromFree                  // Site is the site of the free
	PoolUnknown                   // of a region: its Pool was not recorded
)

var edgeNames = [...]string{"begin-unseen", "end-open", "end-inferred", "size-inferred", "pending", "site-from-free", "pool-unknown"}

// Kind is the role of a buffer in its program, as in XLA's buffer assignment.
type Kind uint8

const (
	Plain       Kind = iota // not recorded
	Parameter               // an argument of the program
	Output                  // a result, which outlives the program's run
	Temporary               // lives between two instructions
	Constant                // part of the program
	ThreadLocal             // on the stack of a thread: never in the heap

	// Kinds of a Row that is not made of buffers.
	FromBase  // SpaceInfo.Base
	FromStack // Space.Stack
	FromUsage // all bytes of a space that has only totals
)

var kindNames = [...]string{"plain", "parameter", "output", "temporary", "constant", "thread-local",
	"before the recording", "stack", "usage"}

// OfBuffers reports whether a row of kind k is made of buffers.
func (k Kind) OfBuffers() bool { return k < FromBase }

// String returns the name used in JSON and native text.
func (k Kind) String() string { return kindNames[k] }

// Value is a logical buffer of a compiled program: a result of an instruction, or a part of one. Values may share the memory of one
// Buffer. For example, a result may overwrite an operand, or values may reuse one allocation one after the other.
type Value struct {
	ID   int64 // the compiler's own number
	Root int64 // ID of the value whose buffer it uses; ID if it has its own buffer

	// Positions at which the schedule allocates and frees it. End < Begin if the
	// schedule does neither: it uses the memory of Root, or lives throughout the run.
	Begin, End int64

	Allocation int64 // Index of its Region
	Offset     int64 // bytes from the beginning of the region
	Size       int64 // occupied: padded to the layout
	Requested  int64 // its elements, without padding
	Site       SiteID
}

// Region is memory that the allocator reserved from the device. Buffers lie in it.
type Region struct {
	Begin, End int64
	Addr       uint64
	Size       int64
	Site       SiteID
	Edge       Edge
	Kind       string        // the producer's name: "small", "large", "expandable"
	Small      bool          // for PyTorch's requests up to 1 MiB; tells the two kinds of expandable regions apart
	Stream     int64         // index of the stream, in order of first appearance; 0 = the default stream
	Pool       string        // private pool; "" = the default pool, unless PoolUnknown
	Index      int64         // of a compiled program: the compiler's number of the allocation
	Uses       compiled.Uses // of a compiled program
}

// Measure is the kind of bytes that a level or total counts.
type Measure uint8

const (
	Requested           Measure = iota // by the program
	Occupied                           // in the allocator, padding included
	OccupiedLessPending                // occupied, without blocks whose free was requested
	Reserved                           // from the device: buffers and holes
)

var measureNames = [...]string{"requested", "occupied", "occupied-less-pending", "reserved"}

// Total is a total that the producer reported at T.
type Total struct {
	T       int64
	Bytes   int64
	Measure Measure

	// Fragmentation is reported by the allocator: the share of its free bytes outside
	// the largest hole, 0 to 1; NaN without free bytes.
	Fragmentation    float32
	HasFragmentation bool
}

// MarkKind is the kind of a Mark.
type MarkKind uint8

const (
	Step        MarkKind = iota // one iteration of the program's loop
	Annotation                  // a range or point that the program named
	OOM                         // a failed allocation
	Snapshot                    // the producer's state was recorded
	Instruction                 // an entry of a compiled program's schedule
)

var markNames = [...]string{"step", "annotation", "oom", "snapshot", "instruction"}

// String returns the name used in native text.
func (k MarkKind) String() string { return markNames[k] }

// Mark is a point (Begin == End) or a range on the axis.
type Mark struct {
	Begin, End int64
	Kind       MarkKind
	Site       SiteID
	Text       string
	Requested  int64         // OOM: requested bytes; 0 = not known
	Free       failure.Bytes // OOM: free on the device
	Stream     int64         // OOM: the stream of the request, as in Region

	Failure *failure.Failure // OOM: what the program printed about it; nil = nothing
}

// Site is the origin of an allocation: a stack, an operation, or both. Sites are interned: equal sites have equal IDs.
type Site struct {
	Stack  StackID
	Op     string
	Module string // compiled graph or program that allocated
	Region string // purpose given to the allocator ("temp", "output"), or category of the tensor ("gradient")
	Shape  string // of the tensor, in the producer's notation
	DType  string // type of its elements, in the producer's notation

	// Of an instruction of a compiled program. Source is also set on sites of a backward pass: the stack of the
	// forward pass that made the node, as package build infers it.
	Instr  string // its name, and in braces the position of the value in its result
	Opcode string
	Source StackID // call stack in the source code; set if Stack has scopes
	compiled.Sharding
	Role compiled.Role

	// Unseen: the allocation was before the window. Stack is then that of the free, 0 if it was not recorded.
	Unseen bool
}

// TypeAndShape returns the type of the elements and the shape of the tensor, "" if neither was recorded. Shapes of XLA
// begin with their type.
func (s *Site) TypeAndShape() string {
	if strings.HasPrefix(s.Shape, s.DType) {
		return s.Shape
	}
	return strings.TrimSpace(s.DType + " " + s.Shape)
}

// Operation sums up the calls of one operation.
type Operation struct {
	Name  string
	Kind  string // "operator" of the framework, "range" named by the program, "function" of Python, or "runtime" of the device
	Calls int64

	// Duration of all calls in nanoseconds. SelfTime excludes the operations that
	// they called. Functions have only Time.
	Time, SelfTime int64

	// Memory that any thread allocated and freed during the calls.
	Host, Device OperationBytes
}

// OperationBytes is the memory that an operation allocated and freed, in bytes.
type OperationBytes struct {
	Allocated, Freed int64
	SelfBytes        int64 // allocated less freed, without the operations that it called
}

// Bytes returns the allocated bytes less the freed bytes.
func (o OperationBytes) Bytes() int64 { return units.AddSat(o.Allocated, -o.Freed) }

// Call is one call of a function and its effect on the memory of a device. Its fields
// are those of gpumemprof's ProfileResult. Times are seconds on the producer's clock.
type Call struct {
	Site  SiteID // the function
	Space int    // index into Capture.Spaces

	Begin, End float64
	Seconds    float64 // duration

	// Bytes allocated on the device before and after the call, and the peak during it (0 = not known).
	Before, After, Peak int64
	// Bytes reserved from the device after the call. Inactive is the part of them in unused split blocks.
	Reserved, Inactive int64

	Allocated, Freed int64 // bytes, by the call
}

// Change returns After less Before. It computes -b as ^b+1, because the lowest int64 has no negation.
func (c *Call) Change() int64 { return units.AddSat(units.AddSat(c.After, ^c.Before), 1) }

// Sample is one measurement of a device: the totals of the allocator and those of the
// whole device, other programs and libraries included. Bytes that are not known are -1.
type Sample struct {
	Space   int   // index into Capture.Spaces
	T       int64 // nanoseconds
	Regular bool  // part of a periodic series, not triggered by an event

	Allocated, Reserved int64 // by the allocator
	Inactive            int64 // part of Reserved in unused split blocks
	DeviceUsed          int64 // by all programs
	DeviceTotal         int64 // capacity of the device
}

// AllocatorEvent is an allocator's report of one allocation or free, and of its state
// afterwards. Bytes that are not known are -1.
type AllocatorEvent struct {
	Free      bool
	Addr      uint64
	Requested int64
	Occupied  int64
	Site      SiteID

	Allocated        int64   // occupied bytes in use
	Stack            int64   // bytes reserved outside the heap
	Available        int64   // bytes that can still be allocated
	Reserved         int64   // bytes taken from the device; 0 = not known
	Peak             int64   // highest Allocated since the program began
	Fragmentation    float64 // as Total.Fragmentation
	HasFragmentation bool

	// For a replay of the producer's own analysis; set only if the Builder keeps build.Reports.
	RawTime int64 // the producer's own time, in picoseconds
	Step    int32 // index of its step; -1 = none
}

// Run is one execution of a compiled program on a device.
type Run struct {
	Name       string // "jit_f(5)"
	Plane      string // the producer's name of the device: "TPU:0"
	ID         int64  // number on that device
	Begin, End int64  // the producer's own times, in picoseconds
}
