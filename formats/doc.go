// Package formats opens captures: it decompresses, finds out what a file is,
// and has the right reader turn it into a lifetime.Capture.
//
// Its place in the pipeline: the first step. Every reader is one folder below
// and one line in [All]; readers know lifetime and nothing of each other.
package formats
