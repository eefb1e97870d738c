package lifetime

import (
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime/internal/chunked"
	"github.com/memlane/memlane/lifetime/loss"
)

// IDs are indexes into Tables; 0 means none.
type (
	SiteID  uint32
	StackID uint32
	FrameID uint32
	NoteID  uint32
)

// Tables are what the spaces of a capture refer to by number. Entry 0 of Sites,
// Stacks, Frames and Notes stands for "none".
type Tables struct {
	Sources []Source
	Sites   []Site
	Stacks  []Stack
	Frames  []Frame
	Notes   []string
	Losses  []loss.Loss // by class, worst first, then by reason
}

// Capture is everything read from one capture. Package build makes it; it is not
// changed afterwards.
type Capture struct {
	Tables
	Spaces []*Space

	Runs       []Run       // in the order of the file; kept with Space.Reports only
	Operations []Operation // by kind and name; where the producer records calls

	// Calls and samples of profilers that measure around calls, in the order of
	// the file.
	Calls   []Call
	Samples []Sample
}

// Source is one input file.
type Source struct {
	File     string // as the user named it
	Format   string // name of the reader, as in formats.All
	Producer string // what wrote the file, as far as the file says
	Traits   Traits
}

// Traits are what is true of all captures of a format. formats.Open fills them in.
type Traits struct {
	Advice string // how to record a history of allocations and frees, as an imperative; "" where captures cannot hold one
	Stacks bool   // call stacks say who allocated, not operations
	Calls  bool   // they may hold calls of functions and no memory at all
}

// SpaceInfo says which memory a space is, and what is known of it as a whole.
type SpaceInfo struct {
	Source    int    // index into Tables.Sources
	Host      string // machine, when captures name one
	Process   string // process or rank
	Device    string // "cuda:0", "cpu", "tpu:3"
	Memory    string // a kind of memory of the device ("pinned"), else ""
	Allocator string // allocator or pool implementation, when named
	Module    string // compiled program, for static spaces
	Entry     string // the program's entry computation, which ID does not name

	Axis  Axis
	Begin int64 // first instant of the window, in units of Axis
	End   int64 // first instant after the window
	Facts Facts
	Limit int64 // bytes the space may hold; 0 = not known
	Base  int64 // bytes alive through the whole window that were never seen one by one

	// LifetimePeak is the allocator's own peak of occupied bytes since the
	// program began, perhaps before the window; 0 = not known.
	LifetimePeak int64

	// The allocations and frees recorded in the window (inferred ones excluded).
	Allocations, Frees int
}

// ID names the space for people and for --space: the parts that are known,
// joined by "/".
func (s *SpaceInfo) ID() string {
	var parts []string
	for _, p := range []string{s.Host, s.Process, s.Module, s.Allocator, s.Device, s.Memory} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

// MemorySpace returns the number of the memory space of a compiled program.
func (s *SpaceInfo) MemorySpace() (n int64, ok bool) {
	number, ok := strings.CutPrefix(s.Memory, MemorySpacePrefix)
	if !ok || s.Axis != ProgramOrder {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil
}

// MemorySpacePrefix stands before the number of a memory space in SpaceInfo.Memory.
const MemorySpacePrefix = "space"

// AtEnd is the last instant of the window.
func (s *SpaceInfo) AtEnd() int64 { return s.End - 1 }

// Space is one heap on one axis.
type Space struct {
	SpaceInfo

	Buffers []Buffer // by Begin
	Regions []Region // by Begin, then Addr
	Totals  []Total  // by T
	Marks   []Mark   // by Begin

	// EndOrder lists the indexes of Buffers by End, those that are alive at the end
	// of the window last: see SortEnds.
	EndOrder []uint32

	// Stack is the memory set aside beside the heap for the stack of compiled
	// programs (TPU), as a step function by At; its first level holds from the
	// window's beginning. It adds to every level of the space.
	Stack []Level

	// Values are the logical buffers of a compiled program, in order of their
	// allocation.
	Values []Value

	// Optional columns beside Buffers; nil when unused.
	FreeSites []SiteID // who freed it
	BufNotes  []NoteID // what the program said of it
	ValueIDs  []int64  // ID of the Value that stands for it

	// Reports are what the allocator reported, in the order of the file, where the
	// reader was asked for them in place of buffers.
	Reports chunked.List[Report]
}

// Axis says what Begin and End count.
type Axis uint8

const (
	Time         Axis = iota // nanoseconds; the origin is the producer's clock
	Event                    // records of the history, which has no clock
	ProgramOrder             // positions in a compiled program's schedule
)

// String returns the name used in JSON and native text.
func (a Axis) String() string { return axisNames[a] }

// Unit returns the unit of the axis, as in JSON.
func (a Axis) Unit() string { return [...]string{"ns", "event", "instruction"}[a] }

var axisNames = [...]string{"time", "event", "program order"}

// Facts says which kinds of evidence a space was built from. Renderers state
// what they need and refuse what is not there.
type Facts uint8

const (
	History   Facts = 1 << iota // allocations and frees one by one
	EndState                    // what was alive at the end, complete
	Addresses                   // Buffer.Addr is real
	Totals                      // the producer's own totals
	Regions                     // reserved memory
	Stacks                      // call stacks on sites
	Clock                       // the axis is time
)

var factNames = [...]string{"history", "end state", "addresses", "totals", "regions", "stacks", "clock"}

// Names lists the facts in a fixed order, as in JSON.
func (f Facts) Names() []string { return setNames(factNames[:], f) }

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

// Edge says which sides and figures of a buffer were not seen as such.
type Edge uint8

const (
	BeginUnseen  Edge = 1 << iota // older than the window, or its allocation was lost
	EndOpen                       // alive at the end of the window
	EndInferred                   // its free was lost; closed where its address was used again
	SizeInferred                  // Size was computed from Requested
	Pending                       // its free was asked for but not completed by the end
	SiteFromFree                  // the site was taken from the free
)

var edgeNames = [...]string{"begin-unseen", "end-open", "end-inferred", "size-inferred", "pending", "site-from-free"}

// Kind is what a buffer is to its program, where the producer says so: the
// kinds are those of XLA's buffer assignment.
type Kind uint8

const (
	Plain       Kind = iota
	Parameter        // an argument of the program
	Output           // a result, which outlives the program's run
	Temporary        // lives between two instructions
	Constant         // part of the program
	ThreadLocal      // on the stack of a thread: never in the heap

	// Of a Row alone, whose bytes no buffer stands for.
	FromBase  // SpaceInfo.Base: never seen one by one
	FromStack // Space.Stack: beside the heap
	FromUsage // all bytes of a space that has only totals
)

var kindNames = [...]string{"plain", "parameter", "output", "temporary", "constant", "thread-local", "before the window", "stack", "usage"}

// OfBuffers reports whether buffers stand for the bytes of a row of kind k.
func (k Kind) OfBuffers() bool { return k < FromBase }

// String returns the name used in JSON and native text.
func (k Kind) String() string { return kindNames[k] }

// Value is a logical buffer of a compiled program: a result of an instruction,
// or a part of one. Several values may share the memory of one Buffer: a result
// that is written over an operand, and all that take turns in one allocation
// that lives through the whole program.
type Value struct {
	ID   int64 // the compiler's own number
	Root int64 // ID of the value whose buffer it lies in; its own when it has one

	// The positions at which the schedule allocates and frees it. End < Begin
	// when it does not: it came into the memory of its root, or lives throughout.
	Begin, End int64

	Allocation int64 // Index of the Region it lies in
	Offset     int64 // bytes from the region's beginning
	Size       int64 // occupied: padded to the layout
	Requested  int64 // the elements alone
	Site       SiteID
}

// Region is memory that the allocator reserved from the device: a rectangle
// that holds buffers.
type Region struct {
	Begin, End int64
	Addr       uint64
	Size       int64
	Site       SiteID
	Edge       Edge
	Kind       string // "small", "large", "expandable": the producer's word
	Stream     int64  // index of the stream, in order of first appearance
	Pool       string // private pool, "" for the default one
	Index      int64  // the compiler's number of a buffer allocation
	Uses       Uses   // what a buffer allocation is used for
}

// Uses says what the memory of a compiled program's buffer allocation is used
// for: the flags of XLA's BufferAllocationProto.
type Uses uint8

const (
	ForParameter   Uses = 1 << iota // an argument of the entry computation
	ForOutput                       // may be alive when the program has run
	ForConstant                     // part of the program
	ForThreadLocal                  // on the stack of a thread
	ForTuple                        // a table of pointers
)

var useNames = [...]string{"parameter", "output", "constant", "thread-local", "tuple"}

// Whole reports whether the allocation is set aside for the whole run of the
// program.
func (u Uses) Whole() bool {
	return u&(ForParameter|ForOutput|ForConstant) != 0 && u&ForThreadLocal == 0
}

// Measure says which bytes a producer's total counts.
type Measure uint8

const (
	Requested           Measure = iota // as asked for
	Occupied                           // as set aside
	OccupiedLessPending                // as set aside, without blocks whose free was asked for
	Reserved                           // as taken from the device, buffers and holes
)

var measureNames = [...]string{"requested", "occupied", "occupied-less-pending", "reserved"}

// Total is what the producer says: at T this many bytes were allocated.
type Total struct {
	T       int64
	Bytes   int64
	Measure Measure

	// Fragmentation is the allocator's own figure: the share of its free bytes
	// outside the largest free block, 0 to 1; NaN when it has no free byte.
	Fragmentation    float32
	HasFragmentation bool
}

// MarkKind is the kind of a Mark.
type MarkKind uint8

const (
	Step        MarkKind = iota // one iteration of the program's loop
	Annotation                  // a range or point the program named
	OOM                         // an allocation that failed
	Snapshot                    // the producer was asked for its state
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
	Requested  int64 // OOM: bytes that were asked for
	Free       int64 // OOM: bytes the device had free; -1 = not known
}

// Site is who allocated: a stack, an operation, or both. Sites are interned,
// so equal sites have equal IDs.
type Site struct {
	Stack  StackID
	Op     string
	Module string // compiled graph or program the allocation ran in
	Region string // what the allocator was told it is for ("temp", "output"), or the category of the tensor ("gradient")
	Shape  string // of the tensor, in the producer's notation
	DType  string // type of its elements, in the producer's notation

	// Of an instruction of a compiled program.
	Instr  string  // its name, and in braces the place of the value in its result
	Opcode string  // what it does
	Source StackID // the program's calls that it was compiled from, where Stack is of scopes
}

// FrameKind tells the program's own frames from those it calls.
type FrameKind uint8

const (
	User      FrameKind = iota
	Framework           // site-packages, the standard library, built-ins
	Native              // C and C++
	Scope               // a name scope of the model: "layer_3"
)

var frameKindNames = [...]string{"user", "framework", "native", "scope"}

// String returns the name used in native text.
func (k FrameKind) String() string { return frameKindNames[k] }

// Frame is one level of a call stack.
type Frame struct {
	Function string
	File     string
	Line     int // line of the call; 0 = not known
	Column   int // 0 = not known
	Kind     FrameKind
}
