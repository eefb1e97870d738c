// Package scan reads Chrome trace JSON as a stream: bytes of JSON become
// events, and it knows nothing of memory.
//
// Its place in the pipeline: formats/chrometrace hands it a byte stream and a
// [Handler]; the handler makes facts of the events. A trace of gigabytes passes
// through a window of a quarter of a megabyte, whatever the layout: indented or
// on one line, keys in any order, an object with traceEvents anywhere or a bare
// array, and the bare arrays of numbers of PyTorch's export_memory_timeline.
//
// Traces are written by hand-made printers and by programs that die while they
// write. What no JSON parser would take is taken here where its meaning is
// plain, and counted ([Tolerated]); where it is not, the event is left out,
// counted, and reading goes on at the next event. Every event that is complete
// before the end of a cut file is kept.
//
// Values that nobody uses are checked for their structure and skipped. Nesting
// does not recurse, and no event costs an allocation.
package scan
