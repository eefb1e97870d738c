// Package perfetto writes captures as traces for ui.perfetto.dev and Perfetto's trace_processor, in Perfetto's own form.
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
// alive at once, all of the same name; the viewer shows them as one.
//
// A name, a frame or a stack is written once, before its first use (InternedData), and a stack is the callstack of its slices.
//
// # Time
//
// Times on a clock are nanoseconds since the first window of the capture. That beginning is the clock 128 of the trace. On other
// axes one unit (an event or an instruction) is one microsecond, counted from the window of its space.
package perfetto
