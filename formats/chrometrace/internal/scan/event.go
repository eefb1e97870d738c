package scan

// Handler gets the contents of a trace, in the order of the file. Functions may be
// nil. Their arguments, including byte slices, are valid until they return.
type Handler struct {
	// Event gets an object of the event array.
	Event func(e *Event)

	// Header gets a scalar of the top-level object outside the event array. A key in a nested object has dots
	// ("distributedInfo.rank"), a scalar in an array has the key "key[]". Arrays and objects inside arrays are skipped.
	// text is a string without escapes, or a number, true, false or null as written. n is the value of a whole number,
	// or of a string with one; else 0.
	Header func(key string, text []byte, n int64)

	// Row gets the numbers of an array inside a bare top-level array. whole is false if the array contains anything but
	// integers. Rows longer than 4096 numbers come in pieces.
	Row func(numbers []int64, whole bool)

	// RowEnd follows the last piece of a row.
	RowEnd func()
}

// Event is an object of the event array.
type Event struct {
	Phase     byte   // ph; 0 if absent
	Name, Cat []byte // valid UTF-8, no escapes
	PID, TID  []byte // a number as written, or a string
	TS, Dur   Time
	ID        []byte // of flows and objects: a number as written, or a string
	Args      Args
}

// Time is a time of an event. The file has decimal microseconds. More than three
// decimals are rounded, halves away from zero.
type Time struct {
	NS int64
	OK bool // false if absent, not a number, or beyond 64 bits
}

// Args are the used arguments of an event.
type Args struct {
	Has uint32 // HasBytes and so on: the numbers that are present

	Bytes          int64  // "Bytes"
	TotalAllocated int64  // "Total Allocated"
	TotalReserved  int64  // "Total Reserved"
	DeviceType     int64  // "Device Type"
	DeviceID       int64  // "Device Id"
	Sequence       int64  // "Sequence number"
	FwdThread      int64  // "Fwd thread id"
	PythonID       int64  // "Python id"
	PythonParent   int64  // "Python parent id"
	Addr           uint64 // "Addr": a number up to 2^64-1, or text: "0x7f.." or decimal
	Size           int64  // "size", "size_bytes", "bytes", or those in "snapshot"

	CallFrom []byte // "CallFrom"
	Dims     []byte // "Input Dims" or "Input dims": JSON as in the file, without line breaks; empty beyond 4 KiB
	Types    []byte // "Input type", in the same form
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
	HasAddr
	HasSize
)

// Counter is one series of a counter event.
type Counter struct {
	Name  []byte
	Value float64
}
