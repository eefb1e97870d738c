// Package plot draws the parts that all pictures of a space share: headline, axes with labels, steps, failed
// allocations, peak, capacity and legend. Its callers draw the area between the axes.
//
// Its place in the pipeline: between package canvas, which knows nothing of captures, and packages blocks and chart.
package plot
