package lifetime

import "github.com/memlane/memlane/internal/units"

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
