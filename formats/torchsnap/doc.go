// Package torchsnap reads PyTorch memory snapshots: the pickles that
// torch.cuda.memory._dump_snapshot and memory_snapshot write (PyTorch 2.0 to
// 2.15), and the HTML pages that torch.cuda._memory_viz wraps around them.
//
// Its place in the pipeline: formats.Open finds it by [Sniff]; [Read] streams
// the file through internal/pickle and hands facts to a build.Builder.
//
// A snapshot holds the state at its end (segments, cut into blocks) and, when
// recording was on, a history per device. Each device is a space; pinned host
// memory is one more. The axis is time, or the number of the record where the
// events carry no time (PyTorch before 2.4). Events hold requested sizes,
// blocks occupied ones.
//
// Refused: pickles that ask for more than plain data, and plain data that is
// no snapshot. Unknown keys and actions are skipped and counted.
package torchsnap
