/*
Memlane shows which buffers held an accelerator's memory, which code allocated them,
and which of them leak.

	memlane COMMAND [flags] CAPTURE...

A CAPTURE is a PyTorch memory snapshot, a Chrome trace of the PyTorch profiler, an
XProf profile of TensorFlow or JAX (a *.xplane.pb file, or the folder that the
profiler wrote into), a device memory profile of JAX, a program that XLA compiled,
a result of gpumemprof, or a log with the error that a program printed when memory
ran out, plain or compressed with gzip or zstd. "-" is standard input.

	info     summarize a capture: counts, peaks, fragmentation, warnings
	leaks    find leaks and other problems, most severe first
	report   report everything: what to do first, findings, figures, peak
	diff     compare two captures by call site: new, gone, grew, shrank
	peak     break down the memory at the peak by call site
	oom      explain why an allocation failed, from a recording or a log
	ops      list the memory that operators of a trace allocated and freed
	tune     find settings of PyTorch's allocator that need less memory
	whatif   predict the peak of a program that is changed
	svg      draw buffers over time, usage, or the peak by buffer
	serve    show the interactive page in a browser on this machine
	pprof    write a heap profile for go tool pprof, with leaks as labels
	export   convert a capture for other programs: JSON, tables, stacks
	man      print the manual
	version  print the version, commit and date of this program

"memlane COMMAND --help" prints examples of each command. The manual is in
docs/manual of the repository, one page per question. "memlane man" prints it as
manual pages: memlane man | man -l -.

Exit status: 0 success, 1 --fail-on is met, 2 wrong command line, 3 a capture cannot
be read (or is damaged, with --strict), 4 a capture does not contain the requested
data, 5 the output cannot be written, 130 interrupted.
*/
package main
