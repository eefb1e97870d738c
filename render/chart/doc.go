// Package chart draws curves of one space as static pictures: its usage over
// time, and what makes up its peak.
//
// Its place in the pipeline: it takes a [lifetime.Capture] and one of its
// spaces, which may be one of which only the usage is known. go-chart lays out
// axes and curves; it draws on a [canvas.Canvas] through [renderer], so that
// themes, PNG and texts are those of the other pictures.
//
// However many events there are, a curve has the lowest and the highest value of
// every pixel column: no peak is lost, and the picture stays small.
package chart
