package lifetime

// What profilers record beside buffers, kept as they say it.

// Operation sums up the calls of one operation.
type Operation struct {
	Name  string
	Kind  OperationKind
	Calls int64

	// Time that the calls took, in nanoseconds; self is without the operations
	// that they called. Functions have only Time.
	Time, SelfTime int64

	// What changed while they ran, by whatever thread.
	Host, Device OperationBytes
}

// OperationBytes is what operations changed in one kind of memory.
type OperationBytes struct {
	Allocated, Freed int64
	SelfBytes        int64 // allocated less freed, without the operations that they called
}

// Bytes returns what was allocated less what was freed.
func (o OperationBytes) Bytes() int64 { return AddSat(o.Allocated, -o.Freed) }

// OperationKind is the kind of an Operation.
type OperationKind uint8

const (
	Operator OperationKind = iota // of the framework
	Range                         // that the program named
	Function                      // of Python
)

var operationNames = [...]string{"operator", "range", "function"}

// String returns the name used in JSON and native text.
func (k OperationKind) String() string { return operationNames[k] }

// Call is one call of a function and what it did to the memory of a device, as
// gpumemprof's ProfileResult has it. Times are seconds on the producer's clock.
type Call struct {
	Site  SiteID // the function
	Space int    // index into Capture.Spaces

	Begin, End float64
	Seconds    float64 // how long it ran

	// Bytes allocated on the device before and after the call, and at most
	// while it ran (0 = not known).
	Before, After, Peak int64
	// Bytes that the allocator had from the device after the call, and of them
	// those in split blocks that were not in use.
	Reserved, Inactive int64

	Allocated, Freed int64 // bytes, by the call
}

// Change returns by how many bytes the memory grew from before the call to
// after it. The lowest int64 cannot be negated, but ^b+1 is -b for the others.
func (c *Call) Change() int64 { return AddSat(AddSat(c.After, ^c.Before), 1) }

// Sample is what one look at a device found: the allocator's own totals beside
// those of the device, which hold what other programs and libraries have. Bytes
// that are not known are -1.
type Sample struct {
	Space   int   // index into Capture.Spaces
	T       int64 // nanoseconds
	Regular bool  // one of a series at equal distances, not the mark of an event

	Allocated, Reserved int64 // by the allocator
	Inactive            int64 // of Reserved, in split blocks that were not in use
	DeviceUsed          int64 // by anybody
	DeviceTotal         int64 // what the device has
}

// Report is what an allocator reports when it allocates or frees: what it did, and
// the state that it was in afterwards. Bytes that it does not tell are -1.
type Report struct {
	Free      bool
	Addr      uint64
	Requested int64
	Occupied  int64
	Site      SiteID

	Allocated     int64   // occupied bytes in use
	Stack         int64   // bytes set aside beside the heap
	Available     int64   // bytes that may still be allocated
	Reserved      int64   // bytes taken from the device; 0 = not known
	Peak          int64   // highest Allocated since the program began
	Fragmentation float64 // as Total.Fragmentation; HasFragmentation says whether there is one

	HasFragmentation bool

	// What only a producer's own replay needs, and only kept reports have.
	RawTime int64 // the producer's own time, in picoseconds
	Step    int32 // index of the step that it belongs to; -1 = none
}

// Run is one execution of a compiled program on a device.
type Run struct {
	Name       string // "jit_f(5)"
	Plane      string // the producer's name of the device: "TPU:0"
	ID         int64  // its number on that device
	Begin, End int64  // the producer's own times, in picoseconds
}
