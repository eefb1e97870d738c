// Package xplane reads XSpace files (*.xplane.pb), the profiles that TensorFlow and JAX write for XProf.
//
// Its place in the pipeline: bytes become facts. The package reads the file in two passes, because the names of
// events and statistics follow the events. The first pass finds the parts of the file and their names; the second
// reads the allocator events. It holds one window of each thread's line in memory, whatever the size of the file.
//
// Mapping to the model: every allocator of the host becomes a space. Its MemoryAllocation and MemoryDeallocation events
// are merged over all lines by time. The events that enclose an allocation on its line, and those around the event that
// launched it from another line, become its call stack. Iterations become marks. Compiled modules go to package hlo.
// Wire format and field numbers are those of xplane.proto of the XProf project.
//
// The reader refuses files that are not an XSpace. If a text conversion destroyed the file, the error names it.
// A file that ends early is read up to its last whole field.
package xplane
