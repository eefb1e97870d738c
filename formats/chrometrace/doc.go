// Package chrometrace reads Chrome trace JSON: traces of the PyTorch profiler
// (export_chrome_trace) with their [memory] events, memory counters, and the
// two JSON forms of export_memory_timeline.
//
// Its place in the pipeline: package scan turns bytes into events, this package
// events into facts. Events of allocators become buffers, by the address and the
// sign of the bytes; who allocated is what encloses the event on its thread:
// the innermost operator and the chain of Python calls. What backward threads
// allocate is led back to the forward operator with the same sequence number.
//
// Memory does not grow with the file: of the calls, which may enclose events
// that stand before them or behind, 16 MiB are kept in memory and the others in
// a temporary file, about 14 bytes each.
//
// It refuses nothing that is a trace: one without memory events is a capture
// without spaces, and says what to switch on.
package chrometrace
