// Package blocks draws the buffers of one space as a static picture: one block
// per buffer, as wide as it lived and as high as the memory it occupied.
//
// Its place in the pipeline: it takes a [lifetime.Capture] and one of its
// spaces, asks nothing of the format they were read from, and draws on a
// [canvas.Canvas], which makes an SVG or a PNG of it.
//
// Two layouts:
//
//   - [Stacked] piles the live buffers up in order of their allocation, so that
//     the upper edge of the pile is the usage. When a buffer ends, those above
//     it slide down. With [ByLeak] leaks lie below all others.
//   - [Address] puts a buffer where it lies in memory, on the regions that the
//     allocator reserved. Holes between buffers are fragmentation.
//
// The stacked layout shows one instant per half pixel of width: the one with
// the most bytes alive in it. The peak is therefore never lost, everything in
// a column existed at the same time, and the upper edge is exact to a tenth of
// a pixel. It also bounds the work: a column holds no more blocks than it has
// half pixels, however many buffers the space has.
//
// The limit of the device is in the picture where the peak reaches half of it;
// a limit far above would leave nothing to see of the buffers.
//
// Buffers that are too small for a shape, and those beyond the largest
// [Options].MaxBlocks, are drawn together by colour; in the stacked layout they
// lie on top, where they push nothing around. Totals count every buffer. The
// picture says how many were drawn together.
//
// The package refuses spaces without buffers, windows without buffers, the
// address layout of a space without addresses, and sizes that add up to more
// than an exbibyte, which only damaged captures have.
package blocks
