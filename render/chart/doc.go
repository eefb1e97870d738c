// Package chart draws curves as static pictures: the usage of a space over time,
// what makes up its peak, two captures one above the other, and many side by side.
//
// Its place in the pipeline: it takes a [lifetime.Capture] and one of its
// spaces, which may be one of which only the usage is known, or the comparison of
// two. go-chart lays out the axes and curves of one space; it draws on a
// [canvas.Canvas] through [renderer], so that themes, PNG and texts are those of the
// other pictures. Plots that have a scale in common ([Diff], [Multiples]) are laid out
// here: go-chart knows only one, in whole pixels.
//
// However many events there are, a curve has the lowest and the highest value of
// every pixel column: no peak is lost, and the picture stays small.
package chart
