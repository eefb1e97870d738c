// Package native writes the model as text and reads it back.
//
// Its place in the pipeline: it stands beside the model. Every reader is tested
// by the native text of what it read, and `memlane export --to native` shows
// the model as it is: all buffers, regions, marks, sites and losses.
//
// The text is made of lines: a word, then fields. Times are relative to the
// beginning of their space. Stacks, frames, sites and notes are numbered in
// order of first use, so equal models give equal text. The name of the file
// that the model was read from is not part of it.
package native
