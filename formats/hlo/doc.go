// Package hlo reads compiled XLA programs with their buffer assignment: the
// HloProto messages that XProf stores beside a capture (*.hlo_proto.pb), that
// XLA dumps (*.hlo.pb, --xla_dump_hlo_as_proto), also of a program that the
// compiler refused because its memory does not fit, and that profiles carry
// inside (package xplane hands those to [Add]).
//
// Its place in the pipeline: formats.Open finds a file by [Sniff]; [Read] and
// [Add] walk the wire format, keep what buffers need of it, and hand facts to a
// build.Builder. No tree of the program is built.
//
// What becomes of it: each memory space of a program is a space whose axis is
// the program's order, one position per event of the heap trace that XProf
// would use. Buffer allocations are regions, stacked in order of their index.
// Allocations that live through the whole program are one buffer each; what
// the heap simulator allocated and freed are buffers with a begin and an end;
// SHARE_WITH makes no buffer, unless it revives memory that was freed. Every
// logical buffer is a value. Names of scopes are a site's stack, the Python
// calls its source.
//
// Refused: files without a program or without a buffer assignment, messages
// that are cut short, files over 1 GiB, programs with more memory spaces than
// any machine has. Numbers of buffers, instructions and allocations that do not
// exist are counted and skipped.
package hlo
