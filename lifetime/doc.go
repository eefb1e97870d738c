// Package lifetime is the buffer-lifetime model: which buffer lived when, how big,
// where, and who allocated it.
//
// Its place in the pipeline:
//
//  1. A reader (package formats) finds facts in a capture.
//  2. Package [github.com/memlane/memlane/lifetime/build] makes a [Capture] of them.
//  3. Queries of [Space] and the rules of package leak answer questions, package
//     answer puts the answers into words and figures.
//  4. Renderers (package render) write them.
//
// A [Space] is one heap on one axis: of a device as a program ran, or of a compiled
// program. It holds its own buffers, reserved memory, totals and marks. Sites, call
// stacks and frames are shared by the capture: [Tables].
//
// An [Outline] is what is known of the peak and the end of each space, for those who
// ask for nothing else.
//
// Times are strictly increasing inside a space; buffers are half open, [Begin, End).
// Two sizes are never mixed: requested (what the program asked for) and occupied
// (what the allocator set aside).
package lifetime
