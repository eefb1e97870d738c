// Package pprof writes captures as pprof heap profiles, so that `go tool pprof`, its web interface and every viewer of
// that format can show which call sites hold device memory.
//
// Its place in the pipeline: a reader made a [lifetime.Capture]; [Write] turns the buffers of its spaces into samples.
// Findings come from the caller as labels by site ([Options.Marks]) and as text ([Options.Comments]).
//
// # Contract
//
// The sample types are those of a Go heap profile, in the same order. alloc_objects and alloc_space count the buffers
// allocated in the window. inuse_objects and inuse_space count those alive at one instant: each space's own peak of
// occupied bytes unless [Options.At] sets another. A fifth type, leaked_space, counts the buffers of [Options.Marks].
// All bytes are occupied bytes. Per space,
//
//   - inuse_space sums to the peak. Bytes that were alive all along and never recorded as buffers are a separate
//     sample, [before the window]; bytes outside the heap are another one, [stack];
//   - at the end, inuse_space sums to those bytes plus the live buffers;
//   - alloc_space sums to the bytes that the sites allocated in the window.
//
// Every sample has the labels device and memory_id, and rank if the process is a rank. Samples of buffers have the
// label kind ("buffer" as in JAX; "parameter", "output", "temporary", "constant" in a compiled program), and the
// numeric labels bytes and lifetime. They have region, shape and dtype if the capture has them, and leak if the site
// has a finding. The label file distinguishes two spaces with the same memory ID. lifetime covers only the time in the
// window, and is absent if the axis is not time. Labels without a known value are omitted.
//
// The stack of a buffer of a compiled program consists of the scopes of the model ("jit(step)", "layer_3", "mlp",
// "dot_general"). If a capture has no stacks, the operation is the only frame.
//
// Equal stacks are merged before writing. A site has at most a few samples, however many buffers it made: one per
// class of size and lifetime, with the mean of the class as the value of the label. One sample per buffer would make
// pprof itself slow: 12 s instead of 0.2 s for a million.
//
// The same captures and options give the same bytes.
//
// # Errors
//
// Write fails if no chosen space has a buffer ([ErrNoBuffers]), and if a fixed time is outside every window. Text from
// captures is cleaned, never refused: invalid UTF-8 and control characters become U+FFFD.
package pprof
