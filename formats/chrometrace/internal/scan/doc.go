// Package scan reads Chrome trace JSON as a stream of events. It does not depend on memlane's model.
//
// formats/chrometrace gives it a byte stream and a [Handler] for the events. The window is 256 KiB for traces of any
// size and layout: indented or on one line, keys in any order, an object with traceEvents anywhere or a bare array, and
// the bare arrays of numbers of PyTorch's export_memory_timeline.
//
// Custom printers write traces, and programs die while they write them. Scan accepts invalid JSON if its meaning is
// clear, and counts it ([Tolerated]). Otherwise it skips and counts the event, and continues at the next event. It
// keeps every event that is complete before the end of a truncated file.
//
// Scan checks the structure of unused values and skips them. Nesting does not recurse, and events cost no allocations.
package scan
