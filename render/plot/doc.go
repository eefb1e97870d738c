// Package plot draws what pictures of a space have in common: the headline, the
// axes with their labels, the marks of steps and of failed allocations, the
// peak, the capacity and the legend. Its callers draw what lies inside.
//
// Its place in the pipeline: between package canvas, which knows nothing of
// captures, and packages blocks and chart.
package plot
