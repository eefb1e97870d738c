// Package xprofjson writes the JSON that XProf 2.24.2 serves, so that its front
// end and the scripts of its users can work on what memlane reads:
// [WriteMemoryProfile] of the allocators of a host while a program ran,
// [WriteMemoryViewer] of the memory that a compiled program was given.
//
// Its place in the pipeline: a lifetime.Capture in, JSON out. Names, defaults
// and rules are XProf's own also where they are not those of the model. What a
// capture lacks for it is an error that says what to do.
package xprofjson
