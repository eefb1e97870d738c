// Package pprof writes captures as pprof heap profiles, so that `go tool
// pprof`, its web interface and every viewer of that format can ask who holds
// device memory.
//
// Its place in the pipeline: a reader made a [lifetime.Capture]; [Write] turns
// the buffers of its spaces into samples. Opinions come from the caller as
// labels by site ([Options.Marks]) and as text ([Options.Comments]).
//
// # Contract
//
// The sample types are those of a Go heap profile, in its order: alloc_objects
// and alloc_space count the buffers whose allocation was recorded in the
// window, inuse_objects and inuse_space those alive at one instant, which is
// each space's own peak of occupied bytes unless [Options.At] says otherwise. A
// fifth, leaked_space, counts the buffers of [Options.Marks].
// Bytes are occupied bytes everywhere. Per space,
//
//   - inuse_space sums to the peak. Bytes that were alive all along without
//     being seen one by one are a sample of their own, [before the window], and
//     so are those that are set aside beside the heap, [stack];
//   - at the end, inuse_space sums to those bytes plus the live buffers;
//   - alloc_space sums to what the sites allocated in the window.
//
// Every sample has the labels device and memory_id, and rank where the process is one. Samples of buffers have
// kind ("buffer", JAX's word; "parameter", "output", "temporary", "constant" in a
// compiled program) and, in numbers, bytes and lifetime; region, shape and dtype
// where the capture tells them; leak where the site has a finding. file tells
// two spaces of one memory ID apart. lifetime is what the window shows of it,
// and absent where the axis is not time. Labels whose value is not known are
// left out.
//
// The stack of a buffer of a compiled program is that of the scopes of the
// model ("jit(step)", "layer_3", "mlp", "dot_general"); where a capture has no
// stacks it is the operation alone.
//
// Equal stacks are merged before anything is written: a site has at most a few
// samples however many buffers it made, one per class of size and lifetime,
// with the mean of the class as the value of the label. Samples per buffer
// would make pprof itself slow: 12 s instead of 0.2 s for a million.
//
// The same captures and options give the same bytes.
//
// # What it refuses
//
// Captures in which no chosen space has a buffer ([ErrNoBuffers]), and a fixed
// time that lies in the window of none. Text from captures is cleaned, never
// refused: what is not UTF-8 and control characters become U+FFFD.
package pprof
