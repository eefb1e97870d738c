// Package jaxprof reads the device memory profiles of JAX, which
// jax.profiler.save_device_memory_profile writes: what was alive on each device
// at one instant, by the Python stack that made it. They are pprof profiles
// (profile.proto of github.com/google/pprof) with the sample types
// allocations/count and space/bytes.
//
// Its place in the pipeline: formats.Open finds a file by [Sniff] and undoes its
// gzip; [Read] hands what the samples say to a build.Builder.
//
// What becomes of it: each device is a space that is an instant, of which the
// end state is known, and no addresses. A sample of n allocations is n buffers
// of the n-th part of its bytes; what remains goes to the first of them, so that
// they sum to the sample. Of several buffers of one sample the size is inferred:
// they need not be equal. Where a file has more than 262,144 buffers the samples
// beyond are one buffer each, with a note of how many it stands for. Compiled programs (label kind=executable) belong to no
// device and are the space "executables"; where JAX does not know their size (on
// CPU) there is nothing to show of them. The label kind, where it is not
// "buffer", is the region of the site. Old versions of JAX number the devices:
// "device:0".
//
// Refused: profiles of other sample types (those of Go programs, say), and what
// is cut short, since the names stand at the end of a file. Samples that name
// what there is not, or less than nothing, are counted and skipped. A file is held in memory as a whole, up to 1 GiB of it.
package jaxprof
