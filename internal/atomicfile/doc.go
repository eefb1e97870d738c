// Package atomicfile writes files that are complete or not there, and that stay to others what they were: an existing file
// keeps its mode, owner, access list and links.
//
// Its place in the pipeline: below everything that programs write. [Write] writes files; a program that ends without returning
// from it, as after a signal, calls [Abandon] first.
package atomicfile
