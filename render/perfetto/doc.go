// Package perfetto writes captures as Chrome JSON traces for ui.perfetto.dev,
// Perfetto's trace_processor and chrome://tracing.
//
// Its place in the pipeline: the last step. Nothing is left out or thinned: events
// are written one at a time, and what a viewer can hold is its limit (about 2 GB in
// a browser; trace_processor opens more).
//
// # What is in it
//
// Each space is a process of the trace:
//
//   - a counter "in use" of occupied bytes, what no buffer stands for included, and
//     a counter "reserved" where the allocator's reserved memory is known;
//   - each buffer as an asynchronous slice, a pair of events "b" and "e" with an id
//     of its own, since lifetimes overlap without nesting. It is named after who
//     allocated, so that the viewer gathers the buffers of one place; sizes, address,
//     operation, shape and the stack, innermost call first, are its arguments.
//     A slice of what is older than the window begins with it, and one of what is
//     alive at the end ends with it: "edges" tells;
//   - steps and annotations as asynchronous slices, failed allocations and other
//     points as instants. The schedule of compiled programs is left out.
//
// # Time
//
// Timestamps are microseconds with three decimals. What is on a clock counts from
// the first window of the capture, since numbers of JSON are no exact nanoseconds
// since 1970: otherData.origin_ns is that beginning. On other axes a unit, an
// event or an instruction, is a microsecond, counted from the window of its space.
package perfetto
