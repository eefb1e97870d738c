// Package chrometrace reads Chrome trace JSON: traces of the PyTorch profiler (export_chrome_trace) with their [memory]
// events, memory counters, and the two JSON forms of export_memory_timeline.
//
// Package scan turns bytes into events, and this package turns events into buffers, by the address and the sign of the
// bytes. The call site of an allocation is what encloses the event on its thread: the innermost operator and the Python
// stack. Allocations of backward threads are attributed to the forward operator with the same sequence number.
//
// Memory does not grow with the file. Calls may enclose events before or after them in the file, so all calls are kept,
// about 11 bytes each: 16 MiB in memory and the others in a temporary file.
//
// Read accepts every trace. One without memory events becomes a capture without
// spaces, with a loss that names the missing profiler option.
package chrometrace
