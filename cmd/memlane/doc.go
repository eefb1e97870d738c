/*
Memlane shows which buffers held an accelerator's memory, who allocated them,
and which of them should be gone.

	memlane COMMAND [flags] CAPTURE...

A CAPTURE is a PyTorch memory snapshot, plain or compressed with gzip or zstd;
"-" is standard input. Flags may stand before and after the captures.

# Taking a capture

	torch.cuda.memory._record_memory_history(max_entries=1_000_000)
	... a few dozen iterations of the program ...
	torch.cuda.memory._dump_snapshot("snapshot.pickle")

Start recording before the allocations in question: what was alive before is
shown, but where it came from is known only if its block carries a stack. When
max_entries is too small the oldest events are gone; memlane finds that out and
says "ring-overflow". To look at an out-of-memory error, dump in an observer:

	def on_oom(device, alloc, device_alloc, device_free):
	    torch.cuda.memory._dump_snapshot("oom.pickle")
	torch._C._cuda_attach_out_of_memory_observer(on_oom)

# What is in it

	$ memlane info testdata/torchsnap/frag_oom.pickle
	testdata/torchsnap/frag_oom.pickle: torch-snapshot, PyTorch
	...

A memory ID (cuda:0, cpu/pinned) is one heap on one axis. The axis is time, or
the number of the event where the capture has no times (PyTorch before 2.4).
Two sizes are kept apart: requested is what the program asked for, occupied (no
word beside it) what the allocator set aside. A buffer that was freed before the
end has no recorded occupied size; it counts as requested rounded up to 512.
Reserved memory is what the allocator took from the device; buffers lie in it.
"fragmented" is the share of its free bytes outside the largest hole.

"worth knowing" lists what the capture lacks and what of it could not be used.

# What should be gone

	$ memlane leaks testdata/torchsnap/twodev.pickle
	testdata/torchsnap/twodev.pickle: 1 finding
	...

A leak is a call site whose live buffers grow in number to the end of the
window. Not leaks: what was allocated once (weights, optimizer state, cuBLAS
workspaces), caches that have filled up, buffers whose frees merely lag
(reference cycles, work in flight). The site is the innermost function of the
program itself; files in site-packages and the standard library are skipped.
Three survivors are not enough for a verdict, and a window in which nothing was
freed has no iterations to compare. What piles up during one forward pass is no
leak: where stacks show nn.Module calls memlane tells a loop over layers from a
loop over steps; else record several iterations.

# What makes up the peak

	$ memlane peak testdata/torchsnap/pair_before.pickle
	testdata/torchsnap/pair_before.pickle cuda:0
	68.0 MiB (71,303,168 B) in 13 buffers at +90.0 µs
	     bytes   share  buffers  allocated by
	  32.0 MiB  47.1 %        4  <listcomp> (pair.py:9)
	  24.0 MiB  35.3 %        8  <listcomp> (pair.py:6)
	  12.0 MiB  17.6 %        1  duplicate (pair.py:10)

--at end shows what is left, --at oom what was there when an allocation failed,
--at 20ms what was there 20 ms after the window began.

# Pictures

	$ memlane svg -o docs/leak.svg testdata/torchsnap/leak_4mib_20steps.pickle
	$ memlane svg --layout address -o docs/fragmentation.svg testdata/torchsnap/frag_oom.pickle

A block is one buffer: as wide as it lived, as high as the bytes it occupied. In
the stacked layout blocks slide down when one below them ends, so that the upper
edge is the memory in use; in the address layout a block stays where it lies, on
the grey regions that the allocator reserved, and grey that no block covers is
free. Hatched red blocks belong to findings. Small buffers are drawn together;
the footer says how many. The file needs nothing else: no script, no network.

# Profiles

	$ memlane pprof -o heap.pb.gz testdata/torchsnap/leak_4mib_20steps.pickle
	$ go tool pprof -top -tagfocus=leak=leak:warning heap.pb.gz
	...

inuse_space, the default, is what was alive at the peak of each memory ID (--at
end: at the end); its total is the peak. alloc_space is what was allocated in
the window. Labels: device, memory_id, kind, leak (RULE:SEVERITY), and the
numbers bytes and lifetime, which -tagfocus takes ranges of:

	go tool pprof -top -tagfocus=bytes=1mb: heap.pb.gz
	go tool pprof -top -tagfocus=lifetime=1s: heap.pb.gz
	go tool pprof -tagroot=device -http=: heap.pb.gz

-top adds functions of one name together, wherever they stand; -lines tells
"forward" of one file from that of another.

# For programs

info, leaks and peak write JSON with --json, and export writes the whole model:

	$ memlane export --to native testdata/torchsnap/segfree.pickle
	memlane native 1
	...

JSON begins with "schema": "memlane/1". Bytes are integers; times are integers
in the "unit" of their memory ID; what is not known is null. Nothing is cut to a
top N.

	info   captures[] file, format, producer, losses[], spaces[]: id, device, axis, unit, begin, end, limit_bytes, base_bytes,
	       facts[], allocations, frees, live {count, bytes, requested_bytes, pending_free_count, pending_free_bytes},
	       reserved_bytes, reserved_peak_bytes, peak {bytes, requested_bytes, at}, lifetime_peak_bytes, fragmentation,
	       free_bytes, largest_free_bytes, ooms[]
	leaks  findings[] rule, severity, confidence, file, space, site {function, file, line, op, stack[]}, bytes,
	       requested_bytes, count, bytes_per_step, description, evidence {}, suggestions[]
	peak   peaks[] file, space, at, bytes, rows[]: site, op, shape, dtype, category, bytes, requested_bytes, count, share

live is the state at the end of the window. Blocks whose free was asked for but
not completed count in live.bytes, and stand in live.pending_free_bytes too.
peak.bytes and peak.requested_bytes are each the maximum of their own series;
at belongs to peak.bytes.

# Exit status

	0  done
	2  the command line is wrong
	3  a capture cannot be read, or is damaged under --strict
	4  a capture can be read, but holds nothing of what was asked for
	5  the output cannot be written

Reports go to standard output; warnings and errors, one line each, to standard
error. A truncated capture is read as far as it goes: a warning, status 0.

# Safety

Snapshots are pickles, and unpickling a file that somebody else made runs it.
memlane does not unpickle: its decoder knows plain data only and refuses every
opcode that imports, calls or builds something, by name and offset. Nothing that
a capture names is opened or fetched, and its texts are escaped where they are
shown.
*/
package main
