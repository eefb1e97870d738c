// Package canvas draws lines, shapes and texts on a page and writes it as SVG or PNG.
//
// Its place in the pipeline: packages plot, blocks and chart draw on a [Canvas], from back
// to front and in tenths of a pixel. The same calls make both formats, so that a PNG shows
// the same as the SVG. The package does not depend on captures.
//
// An SVG needs no script, font or second file. [appendText] cleans and escapes all texts. Colours of the page are roles
// with a light and a dark value in one style sheet. Colours of the data are the same in both themes.
//
// A PNG has two dots per pixel of the page, and uses the Go fonts.
package canvas
