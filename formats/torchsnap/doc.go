// Package torchsnap reads PyTorch memory snapshots: the pickles that torch.cuda.memory._dump_snapshot and
// memory_snapshot write (PyTorch 2.0 to 2.15), and the HTML pages that torch.cuda._memory_viz wraps around them.
//
// formats.Open selects it by [Sniff]. [Read] streams the file through internal/pickle into a build.Builder.
//
// A snapshot contains the state at its end (segments, divided into blocks) and, if recording was on, a history per
// device. Each device is a space, and pinned host memory is one more. The axis is time, or the number of the event if
// the events have no time (PyTorch before 2.4). Events contain requested sizes, blocks contain occupied sizes.
//
// Read refuses pickles that are more than plain data, and plain data that is not
// a snapshot. It skips and counts unknown keys and actions.
package torchsnap
