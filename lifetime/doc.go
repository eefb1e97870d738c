// Package lifetime is the buffer-lifetime model: which buffer lived when, how big, where, and who allocated it.
//
// Its place in the pipeline:
//
//  1. A reader (package formats) reads events and states from a file.
//  2. Package [github.com/memlane/memlane/lifetime/build] turns them into a [Capture].
//  3. Package category judges what its buffers are for, package selection takes the part
//     of it that was selected.
//  4. Methods of [Space], packages region and outline and the rules of package finding
//     answer questions. Package answer turns the answers into text and numbers.
//  5. Renderers (package render) write them.
//
// A [Space] is one heap on one axis: the memory of a device while a program ran, or
// the heap of a compiled program. It has its own buffers, regions, totals and marks.
// All spaces of a capture share the sites, call stacks and frames in [Tables].
//
// Three packages have words that the model is made of and import none of it: frame (the
// levels of call stacks), purpose (what buffers are for) and failure (what a text says
// about a failed allocation). Package outline has only the peak and the end of each space.
//
// A capture tells when buffers were allocated and freed, not when the program read or wrote them. Times are strictly
// increasing inside a space. Buffers are half open: [Begin, End). Sizes are bytes and of two kinds, which are never
// mixed: requested by the program, and occupied in the allocator, padding included.
package lifetime
