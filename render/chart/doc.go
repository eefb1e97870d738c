// Package chart draws curves as static pictures: the usage of a space over time, the
// buffers at its peak, two captures one above the other, and many side by side.
//
// Its place in the pipeline: it takes a [lifetime.Capture] and one of its spaces, or
// the comparison of two captures. Package plot draws axes, marks and legends.
//
// A curve has the lowest and the highest value of every pixel column. No peak is lost,
// and the picture stays small, however many events there are.
//
// go-chart computes the ranges and draws every curve ([figure.draw]) with a [pen], in tenths of a pixel. Its ticks and
// axes are not used: sizes need ticks at powers of two, and all plots of [Diff] and [Multiples] must have the same size
// and the axes of package blocks.
package chart
