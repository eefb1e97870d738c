// Package native writes the model as text and reads it back.
//
// The tests of readers compare the native text of their captures. `memlane export --to
// native` writes the whole model: all buffers, regions, marks, sites and losses.
//
// Each line has a word, then fields. Times are relative to the beginning of their space.
// Stacks, frames, sites and notes are numbered in order of first use, so equal models
// have equal text. The text does not have the name of the capture's file.
package native
