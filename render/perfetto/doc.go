// Package perfetto writes captures as Chrome JSON traces for ui.perfetto.dev, Perfetto's trace_processor and
// chrome://tracing.
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
//   - each buffer as an asynchronous slice, a pair of events "b" and "e" with a unique id, because lifetimes overlap
//     without nesting. Its name is its call site, so that the viewer groups buffers by call site. Its arguments are
//     sizes, address, operation, shape and the stack, innermost call first. The slice of a buffer older than the
//     window begins with the window; that of a buffer alive at the end ends with it. The argument "edges" marks both;
//   - steps and annotations as asynchronous slices, failed allocations and other points as instants. The schedule of
//     compiled programs is omitted.
//
// # Time
//
// Timestamps are microseconds with three decimals. Times on a clock count from the first window of the capture,
// because JSON numbers cannot hold exact nanoseconds since 1970; otherData.origin_ns is that beginning. On other axes
// one unit (an event or an instruction) is one microsecond, counted from the window of its space.
package perfetto
