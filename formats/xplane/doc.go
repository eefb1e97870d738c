// Package xplane reads XSpace files (*.xplane.pb), the profiles that
// TensorFlow and JAX write for XProf.
//
// Its place in the pipeline: bytes become facts. The package looks twice over
// the file: the names of events and of their figures come after the events, so
// the first look finds where things are and what they are called, the second
// one reads the events of the allocators. It holds a window of each thread's
// line and no more, whatever the size of the file.
//
// What becomes of it: every allocator of the host is a space, its
// MemoryAllocation and MemoryDeallocation events are merged over all lines by
// time; iterations are marks; the compiled modules go to package hlo. Wire
// format and field numbers are those of xplane.proto of the XProf project.
//
// It refuses files that are no XSpace, and says so where a file went through a
// conversion of text, which destroys it. A file that ends early is read as far
// as it goes.
package xplane
