// Package oomtext reads the text that a program printed when it ran out of accelerator memory: PyTorch's error in all its
// versions, its memory_summary() and memory_stats(), XLA's RESOURCE_EXHAUSTED on TPU and GPU, the dump of TensorFlow's
// allocator, errors of NCCL, cuBLAS and cuDNN, sentences of other programs (others.go), and phrases of programs that no
// table names (unnamed.go). The text may stand anywhere in a log of any size, among other lines.
//
// Its place in the pipeline: formats.Open recognizes the words of such a text with [Sniff], or takes a text file that is
// nothing else ([Text]); [Read] finds the texts and passes what they say to a build.Builder.
//
// How a log is read:
//
//   - Lines without a word of such a text are skipped. From a line with one, the lines of the same writer are collected.
//     Prefixes tell writers apart: ranks of torchrun and PyTorch, tasks of srun, processes of Ray and vLLM, and what a log teaches itself
//     (shape.go). Time stamps, log levels and colours are removed, and white space is collapsed, because terminals wrap lines anywhere.
//   - A message that people quote is none (quotation.go).
//   - The traceback before a text gives the call site of the request.
//   - Lines with the same words that print the memory in use are a series (series.go); servers print their settings (server.go).
//   - A failure that is printed several times is one: equal figures of one process, or of a process and its launcher.
//     Another failure in between makes it a new one.
//
// Mapping to the model:
//
//   - A failure is an OOM mark with a failure.Failure. A process, device and allocator is a space whose instants are its
//     failures. Without buffers, the space has totals.
//   - Chunks of a dump are buffers with addresses. Blocks that a text only counts are buffers without addresses.
//   - The buffers that XLA lists are a space of a compiled program, with what it does not list as sums.
//   - A series that grows is a space of totals, whose instants are the lines.
//   - Figures are as exact as the text: failure.Failure.Rounding is half a unit of the least exact one.
//
// The reader holds 2 MiB of the file. It fails with [ErrNone] if no text is found and no series grows.
package oomtext
