package scan

// Handler takes what a trace holds, in the order of the file. Functions may be
// nil. What they are given, byte slices as well, is good until they return.
type Handler struct {
	// Event takes an object of the event array.
	Event func(e *Event)

	// Header takes a scalar of the top-level object outside the event array.
	// Nested objects come with dots ("distributedInfo.rank"), scalars in an
	// array as "key[]"; arrays and objects inside arrays are skipped.
	Header func(key string, v Value)

	// Row takes the numbers of an array inside a bare top-level array; whole
	// is false when something else than integers stands between them. Rows
	// longer than 4096 numbers come in pieces.
	Row func(numbers []int64, whole bool)

	// RowEnd tells that an array whose numbers Row was given ends.
	RowEnd func()
}

// Event is an object of the event array.
type Event struct {
	Phase     byte   // ph; 0 when there is none
	Name, Cat []byte // valid UTF-8, no escapes
	PID, TID  []byte // a number as it is written, or a string
	TS, Dur   Time
	ID        []byte // of flows and objects: a number as it is written, or a string
	Args      Args
	Empty     bool  // the object is {}
	Offset    int64 // of its first byte in the input
}

// Time is a time of an event, exactly: the file has decimal microseconds. More
// than three decimals are rounded, halves away from zero.
type Time struct {
	NS int64
	OK bool // false when absent, no number, or beyond 64 bits
}

// Args are those arguments of an event that readers use.
type Args struct {
	Has uint32 // HasBytes and so on: which of the numbers are there

	Bytes          int64  // "Bytes"
	TotalAllocated int64  // "Total Allocated"
	TotalReserved  int64  // "Total Reserved"
	DeviceType     int64  // "Device Type"
	DeviceID       int64  // "Device Id"
	Sequence       int64  // "Sequence number"
	FwdThread      int64  // "Fwd thread id"
	PythonID       int64  // "Python id"
	PythonParent   int64  // "Python parent id"
	PythonModule   int64  // "Python module id"
	EvIdx          int64  // "Ev Idx"
	Addr           uint64 // "Addr": a number up to 2^64-1, or text: "0x7f.." or decimal
	Size           int64  // "size", "size_bytes", "bytes", or those in "snapshot"

	CallFrom []byte // "CallFrom"
	Dims     []byte // "Input Dims" or "Input dims": JSON as in the file, without line breaks; empty beyond 4 KiB
	Types    []byte // "Input type", likewise
	Name     []byte // "name", of processes and threads

	Counters []Counter // numeric members, of events of phase C
}

// Bits of Args.Has, in the order of the numbers.
const (
	HasBytes = 1 << iota
	HasTotalAllocated
	HasTotalReserved
	HasDeviceType
	HasDeviceID
	HasSequence
	HasFwdThread
	HasPythonID
	HasPythonParent
	HasPythonModule
	HasEvIdx
	HasAddr
	HasSize
)

// Counter is one series of a counter event.
type Counter struct {
	Name  []byte
	Value float64
}

// ValueKind is the kind of a JSON scalar.
type ValueKind uint8

const (
	Null ValueKind = iota
	Bool
	Number
	String
)

// Value is a scalar of the header.
type Value struct {
	Kind  ValueKind
	Text  []byte // a string without escapes, or a number, true, false, null as written
	Int   int64  // of numbers, and of strings that hold an integer
	IsInt bool   // Int is exact
}
