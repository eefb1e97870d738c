// Package blocks draws the buffers of one space as a static picture: one block per
// buffer. The width of a block is the lifetime of the buffer, its height is the size.
//
// Its place in the pipeline: it takes a [lifetime.Capture] of any format and one of
// its spaces, and draws on a [canvas.Canvas], which writes an SVG or a PNG.
//
// Two layouts:
//
//   - [Stacked] stacks the live buffers in order of their allocation, so that the
//     upper edge is the usage. When a buffer ends, those above it move down. With
//     [ByLeak], leaks are below all others. With [ByCategory], and if most blocks would
//     look like stripes, colours are stacked, with the buffers of each in that order.
//   - [Address] puts a buffer at its address, on the regions that the allocator
//     reserved. Holes between buffers are fragmentation.
//
// Each column of the stacked layout is a pixel wide. It shows the time of that column at which most bytes are alive, so
// the peak is never lost and the upper edge is exact to a tenth of a pixel. This also limits the work: the number of
// blocks in a column depends on the height of the picture, not on the number of buffers.
//
// The picture includes the limit of the device if the peak is at least half of it. A
// higher limit would leave little room for the buffers.
//
// Buffers that are too small for a shape, and those beyond the largest [Options].MaxBlocks, are drawn together by
// colour. In the stacked layout they are on top of the blocks, where they do not move these. Totals count every buffer,
// and the picture gives the number of buffers that were drawn together.
//
// [Write] fails for spaces and windows without buffers, for the address layout of a space without addresses, and for
// sizes that add up to more than 1 EiB, which only damaged captures have.
package blocks
