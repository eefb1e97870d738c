/*
Memlane shows which buffers held an accelerator's memory, who allocated them,
and which of them should be gone.

	memlane COMMAND [flags] CAPTURE...

A CAPTURE is a PyTorch memory snapshot, a Chrome trace of the PyTorch profiler, an
XProf profile of TensorFlow or JAX (a *.xplane.pb file, or the folder that the
profiler wrote into), a device memory profile of JAX, a program that XLA compiled
or a result of gpumemprof, plain or compressed with gzip or zstd; "-" is standard
input.

	info     what is in a capture: counts, peaks, fragmentation, losses
	leaks    which buffers should be gone: findings, most severe first
	report   what to do first, findings, figures and the peak; also as a page
	diff     two captures by call site: new, gone, grew, shrank
	peak     what makes up the memory at the peak, by call site
	ops      which operations changed the memory: the operators of a trace
	svg      a picture: buffers over time, usage, or what makes up the peak
	serve    the interactive page, in a browser on this machine
	pprof    a heap profile for go tool pprof, with leaks as labels
	export   a capture for other programs: model, tables, XProf's JSON
	man      the manual
	version  version, commit and date of this program

"memlane COMMAND --help" has examples of each. The manual is in docs/manual of the
repository, one page to a question, from how to take a capture to what is read from
each field; "memlane man" is the same as manual pages: memlane man | man -l -.

Exit status: 0 done, 1 --fail-on was met, 2 wrong command line, 3 a capture cannot
be read (or is damaged, with --strict), 4 a capture holds nothing of what was asked
for, 5 the output cannot be written, 130 interrupted.
*/
package main
