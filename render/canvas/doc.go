// Package canvas is what pictures are drawn on: lines, shapes and texts on one
// page, from back to front, as SVG or as PNG.
//
// Its place in the pipeline: packages plot, blocks and chart say what lies
// where, in tenths of a pixel; a [Canvas] writes it down. The same calls make
// both forms, so that a PNG shows what the SVG shows. It knows nothing of
// captures.
//
// An SVG needs nothing else: no script, no font, no second file. Texts pass
// through one gate that cleans and escapes ([appendText]). Colours of the page
// are roles, which one style sheet gives a light and a dark value; those of the
// data are the same on both, and their hatching is a pattern.
//
// A PNG has two dots per pixel of the page, and the Go fonts.
package canvas
