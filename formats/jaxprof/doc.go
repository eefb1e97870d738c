// Package jaxprof reads the device memory profiles of JAX, written by jax.profiler.save_device_memory_profile: what
// was alive on each device at one instant, by the Python stack that allocated it. They are pprof profiles
// (profile.proto of github.com/google/pprof) with the sample types allocations/count and space/bytes.
//
// Its place in the pipeline: formats.Open recognizes a file with [Sniff] and decompresses it; [Read] passes the
// samples to a build.Builder.
//
// Mapping to the model:
//
//   - Each device is a space at one instant. Only the end state is known, without addresses.
//   - A sample of n allocations becomes n buffers of equal size; the first also gets the remainder, so that they sum
//     to the sample. If a sample has several buffers, their sizes are inferred: they need not be equal.
//   - If a file has more than 262,144 buffers, each sample beyond becomes one buffer, with a note of its count.
//   - Compiled programs (label kind=executable) belong to no device. They are the space "executables". If JAX does not
//     know their size (on CPU), they are left out.
//   - A label kind other than "buffer" is the region of the site. Old versions of JAX number the devices: "device:0".
//   - Names that memlane's recorder added belong to buffers by device, size and stack: there are no addresses. If more arrays have
//     names than there are such buffers, none of them is used.
//
// The reader refuses profiles of other sample types (such as those of Go programs) and truncated files, because the
// names are stored at the end. Samples with missing references or negative values are counted and skipped. A file is
// read into memory as a whole, up to 1 GiB.
package jaxprof
