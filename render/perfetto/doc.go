// Package perfetto writes captures as traces for ui.perfetto.dev and Perfetto's trace_processor: [Write] in Perfetto's own form,
// [WriteJSON] in the JSON of chrome://tracing.
//
// Its place in the pipeline: the last step. It writes every event, one at a time. Only the viewer limits the size
// (about 2 GB in a browser; trace_processor opens more).
//
// # Content
//
// Each space is a process of the trace, with
//
//   - a counter "in use" of occupied bytes, including bytes that no buffer represents, and a counter "reserved" if the
//     allocator's reserved memory is known;
//   - each buffer as a slice. Its name is its call site, so that the viewer groups buffers by call site. Its arguments are
//     sizes, address, operation and shape. The slice of a buffer older than the window begins with the window; that of a
//     buffer alive at the end ends with it. The argument "edges" marks both;
//   - steps and annotations as slices, failed allocations and other points as instants. The schedule of
//     compiled programs is omitted.
//
// Slices of a track must nest, but lifetimes overlap. A trace therefore has as many tracks of a call site as it has buffers
// alive at once, all of the same name; the viewer shows them as one. JSON has asynchronous slices, pairs of events
// "b" and "e" with a unique id.
//
// In a trace, a name, a frame or a stack is written once, before its first use (InternedData), and a stack is the callstack of
// its slices. In JSON it is an argument of each buffer, innermost call first.
//
// # Time
//
// Times on a clock count from the first window of the capture, because JSON numbers cannot hold exact nanoseconds since 1970.
// That beginning is the clock 128 of a trace, and otherData.origin_ns in JSON. On other axes one unit (an event or an
// instruction) is one microsecond, counted from the window of its space. Traces have nanoseconds, JSON has microseconds
// with three decimals.
package perfetto
