// Package xprofjson writes the JSON that XProf 2.24.2 serves, so that XProf's front end and its users' scripts
// work with memlane's captures. [WriteMemoryProfile] covers the allocators of a host while a program ran;
// [WriteMemoryViewer] covers the memory assignment of a compiled program.
//
// Its place in the pipeline: a lifetime.Capture in, JSON out. Names, defaults and rules follow XProf, even if
// they differ from the model's. If a capture lacks the required data, the error names a remedy.
package xprofjson
