// Package failure has what a text says about a failed allocation: who printed it, and with which figures.
//
// Its place in the pipeline: readers of logs and traces fill a [Failure] and put it on the mark of the failed
// allocation, native text writes [Failure.Figures], and package oom says why the allocation failed. It decides nothing
// and imports nothing of memlane.
package failure

import "slices"

// Failure is what the text of an out-of-memory error says about a failed allocation, besides the requested and the free
// bytes of its lifetime.Mark. Sizes are bytes; -1 = not known.
type Failure struct {
	Source string // kind of text, such as FromTorch, or the name of the program that prints it
	Line   int64  // line of the file on which the text begins, from 1
	Times  int64  // how often the same failure was printed
	First  bool   // the launcher names its process as the first that failed

	Survived bool   // the text says that the program went on
	Absurd   bool   // the request was for more than 2^60 bytes: a wrong size
	Cut      bool   // the end of the text is missing, and figures with it
	Growth   bool   // an allocator asked the driver for more, and did not get it
	Planned  bool   // the program refused a plan that needs more than is free, or than its own limit
	Opaque   bool   // memlane reads no recordings of the program
	Help     string // settings of the program that help, with the words in braces of package oom; "" = as for its framework
	Filled   string // the same if the memory is full of live buffers; "" = Help
	Setting  string // of the allocator against fragmentation, that the program can have and has not: VARIABLE=VALUE; "" = none is known
	Rounding int64  // largest rounding error of the figures: half a unit of their last digit

	Capacity    int64 // of the device
	Allowed     int64 // limit that the program set for itself
	Live        int64 // in live buffers, without Idle
	Requested   int64 // of Live, by the program: without rounding
	Idle        int64 // in blocks that private pools keep for their next use
	Reserved    int64 // by the allocator from the device, holes included
	InProcess   int64 // used by the process on the device, the allocator included
	Others      int64 // used by other processes on the device
	Unallocated int64 // reserved, but in no buffer
	InPieces    int64 // of Unallocated, in segments that are partly in use: they cannot be given back to the device
	LargestFree int64 // largest free block
	Needed      int64 // by a compiled program as a whole
	Scratch     int64 // of Needed, for temporaries: XLA requests them as one block
	Exceeded    int64 // bytes by which it exceeds the capacity
}

// Kinds of texts about failed allocations that are judged by rules of their own.
const (
	FromTorch      = "torch"         // PyTorch's allocator
	FromLibrary    = "torch-library" // NCCL, cuBLAS, cuDNN and the driver, outside of PyTorch's allocator
	FromTensorFlow = "tensorflow"    // TensorFlow's allocator, which JAX uses on GPU
	FromCompiler   = "xla-compile"   // XLA, at compile time
	FromXLA        = "xla-run"       // XLA, at run time
	FromHost       = "host"          // allocators of host memory
	FromOther      = "other"         // a program that memlane does not know
	FromKernel     = "oom-killer"    // an operating system or a scheduler, which killed a process for its host memory
)

// LoadProgram is the operation of a request for a program of XLA, not for an array.
const LoadProgram = "load the program"

// Unknown returns a Failure of a kind of text without figures.
func Unknown(source string) Failure {
	return Failure{Source: source, Times: 1, Capacity: -1, Allowed: -1, Live: -1, Requested: -1, Idle: -1, Reserved: -1,
		InProcess: -1, Others: -1,
		Unallocated: -1, InPieces: -1, LargestFree: -1, Needed: -1, Scratch: -1, Exceeded: -1}
}

// Account divides a capacity among who has it. Sizes are bytes; -1 = not known. The known parts and Rest add up to Capacity.
type Account struct {
	Capacity int64 // of the device; of its allocator if only that is known: its limit, or of a recording what was reserved and free
	Live     int64 // in live buffers
	Idle     int64 // reserved by the allocator, but in no live buffer
	Outside  int64 // of the process, outside of the allocator
	Others   int64 // of other processes, as the text lists them
	Free     int64
	Rest     int64 // of nobody that the text names, and the parts that are not known
}

// Account returns who has the memory of the device. free are its free bytes, -1 = not known. ok is false if nothing adds up to a capacity: also for
// host memory and for programs that are not loaded.
func (f *Failure) Account(free int64) (a Account, ok bool) {
	a = Account{f.Capacity, f.Live, unknown, unknown, f.Others, free, unknown}
	reserved := f.Reserved
	switch {
	case f.Live >= 0 && reserved >= 0:
		a.Idle = max(reserved-f.Live, 0)
	case f.Idle >= 0 || f.Unallocated >= 0:
		a.Idle = max(f.Idle, 0) + max(f.Unallocated, 0)
	}
	if reserved < 0 && f.Live >= 0 && !f.Cut { // its text has no other figure
		reserved = f.Live + max(a.Idle, 0)
	}
	if f.InProcess >= 0 && reserved >= 0 {
		a.Outside = max(f.InProcess-max(reserved, f.Live), 0)
	}
	switch used := max(f.InProcess, f.Reserved); {
	case a.Capacity >= 0:
	case f.Allowed >= 0 && max(used, f.Live) >= 0:
		if a.Capacity = f.Allowed; used >= 0 {
			a.Free = max(f.Allowed-used, 0)
		}
	case f.Source == "" && f.Reserved >= 0 && free >= 0:
		a.Capacity = max(f.Reserved, f.Live) + free
	}
	if a.Rest = a.Capacity; a.Capacity >= 0 {
		for _, part := range []int64{a.Live, a.Idle, a.Outside, a.Others, a.Free} {
			a.Rest = max(a.Rest-max(part, 0), 0)
		}
	}
	return a, max(a.Live, a.Free) >= 0 && a.Capacity >= 0 && f.Needed < 0 && f.Source != FromHost && f.Source != FromKernel
}

const unknown = -1

// Flag is one of the truths about a failure, by its name in native text.
type Flag struct {
	Name string
	Set  *bool
}

// Flags returns the truths about a failure.
func (f *Failure) Flags() []Flag {
	return []Flag{{"first", &f.First}, {"survived", &f.Survived}, {"cut", &f.Cut}, {"growth", &f.Growth},
		{"absurd", &f.Absurd}, {"planned", &f.Planned},
		{"opaque", &f.Opaque}}
}

// Words returns what a failure has in words, by its name in native text.
func (f *Failure) Words() map[string]*string {
	return map[string]*string{"help": &f.Help, "filled": &f.Filled, "setting": &f.Setting}
}

// Figures returns the figures of a failure by their names in native text.
func (f *Failure) Figures() map[string]*int64 {
	return map[string]*int64{"line": &f.Line, "times": &f.Times, "rounding": &f.Rounding, "capacity": &f.Capacity, "allowed": &f.Allowed,
		"live": &f.Live, "live_requested": &f.Requested, "idle": &f.Idle, "reserved": &f.Reserved,
		"in_process": &f.InProcess, "others": &f.Others,
		"unallocated": &f.Unallocated, "in_pieces": &f.InPieces, "largest_free": &f.LargestFree, "needed": &f.Needed,
		"scratch": &f.Scratch, "exceeded": &f.Exceeded}
}

// Bytes is a number of bytes that may be unknown. The zero value is unknown, so a field that nobody sets does not say 0.
type Bytes struct {
	inverse int64 // ^n: 0 stands for -1
}

// BytesOf returns n bytes; unknown if n is negative.
func BytesOf(n int64) Bytes { return Bytes{^max(n, -1)} }

// Known reports whether the number is known.
func (b Bytes) Known() bool { return b != Bytes{} }

// Or returns the number, and other if it is unknown.
func (b Bytes) Or(other int64) int64 {
	if !b.Known() {
		return other
	}
	return ^b.inverse
}

// Grows reports whether figures of one place, each larger than the one before, show memory that grows. Few must grow much. Of many the
// lowest of each slice counts, without the first third, in which programs warm up. Growth that slows down is that of a cache.
func Grows(bytes []int64) bool {
	const (
		many   = 12  // figures
		few    = 6   // figures, below which the last must be half as large again as the first
		steady = .25 // of the growth, that the later half has
	)
	n := len(bytes)
	floors, least := bytes, 1.1
	switch {
	case n >= many:
		floors, least = nil, 1.05
		for i := many / 3; i < many; i++ {
			floors = append(floors, slices.Min(bytes[i*n/many:(i+1)*n/many]))
		}
	case n < 3:
		return false
	case n < few:
		least = 1.5
	}
	if !Rises(floors) {
		return false
	}
	first, middle, last := float64(floors[0]), float64(floors[len(floors)/2]), float64(floors[len(floors)-1])
	return last >= least*first && last-middle >= steady*(last-first)
}

// Rises reports whether each number is larger than the one before.
func Rises(numbers []int64) bool {
	for i := 1; i < len(numbers); i++ {
		if numbers[i] <= numbers[i-1] {
			return false
		}
	}
	return true
}
