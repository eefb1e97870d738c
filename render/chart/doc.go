// Package chart draws curves as static pictures: the usage of a space over time,
// the buffers of its peak, two captures one above the other, and many side by side.
//
// Its place in the pipeline: it takes a [lifetime.Capture] and one of its spaces,
// which may be one whose usage alone is known; or the comparison of two captures.
// What all pictures share (axes, marks, legends) is package plot's.
//
// go-chart computes the ranges and draws the series of every curve ([figure.draw]).
// It counts in whole numbers, here tenths of a pixel, and draws with a [pen] that has
// the look of the series. The rest of go-chart is not used:
//
//   - Its ticks are equal parts of a range, with decimal labels. Sizes need powers of
//     two, times need a unit that fits, and both need round numbers.
//   - Its axes have margins and ticks of a fixed number of units, which fit whole
//     pixels. Curves need tenths: they would end up to a pixel beside their values.
//   - A Chart chooses its own place by the width of its labels. The plots of [Diff] and
//     of [Multiples] have to be of one size to share a scale.
//   - Its axes would differ from those of package blocks, which has no series.
//
// However many events there are, a curve has the lowest and the highest value of
// every pixel column: no peak is lost, and the picture stays small.
package chart
