// Package hlo reads compiled XLA programs with their buffer assignment. It accepts the HloProto messages that
//
//   - XProf stores beside a capture (*.hlo_proto.pb),
//   - XLA dumps (*.hlo.pb, --xla_dump_hlo_as_proto), also for a program that failed to compile because its memory
//     does not fit,
//   - profiles contain (package xplane passes those to [Add]).
//
// Its place in the pipeline: formats.Open recognizes a file with [Sniff]; [Read] and [Add] scan the wire format, keep
// what buffers need, and pass facts to a build.Builder. They build no tree of the program.
//
// Mapping to the model: each memory space of a program becomes a space whose axis is program order, with one position
// per event of the heap trace that XProf would use. Buffer allocations are regions, stacked in order of their index.
// An allocation that lives through the whole program is one buffer. Allocations of the heap simulator are buffers
// with a begin and an end. SHARE_WITH creates a buffer only if it revives freed memory. Every logical buffer is a
// value. The scope names of a site are its stack, the Python calls its source.
//
// [ReadText] reads the same as text, as XLA dumps it without --xla_dump_hlo_as_proto: buffer assignments with live
// ranges, and memory usage reports. It makes the same program of it.
//
// The reader refuses files without a program or without a buffer assignment, truncated messages, files over 1 GiB,
// and programs with more than 64 memory spaces. References to buffers, instructions and allocations that do not exist
// are counted and skipped.
package hlo
