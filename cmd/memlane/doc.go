/*
Memlane shows which buffers held an accelerator's memory, who allocated them,
and which of them should be gone.

	memlane COMMAND [flags] CAPTURE...

A CAPTURE is a PyTorch memory snapshot, a Chrome trace of the PyTorch profiler, an
XProf profile of TensorFlow or JAX (a *.xplane.pb file, or the folder that the
profiler wrote into), a device memory profile of JAX or a program that XLA compiled,
plain or compressed with gzip or zstd; "-" is standard input.
Flags may stand before and after the captures. A folder stands for the captures in
it, and so does a pattern in quotes: 'rank*.pickle'.

# Taking a capture

Of PyTorch:

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

The profiler of PyTorch records allocations too, and which operator made them. A
trace knows nothing of what was alive before, and names functions by the line of
their def (PyTorch before 2.15):

	with torch.profiler.profile(profile_memory=True, with_stack=True, record_shapes=True) as prof:
	    ... a few iterations, prof.step() after each ...
	prof.export_chrome_trace("trace.json")

Of JAX and of TensorFlow:

	jax.profiler.start_trace("logs")               tf.profiler.experimental.start("logs")
	... the first steps of the program ...
	jax.profiler.stop_trace()                      tf.profiler.experimental.stop()

and then "memlane info logs". Allocators report what they do while it happens:
start before the allocations in question. On CPU, TensorFlow's allocator reports
with TF_CPU_ALLOCATOR_USE_BFC=1, JAX's does not. The compiled programs are in the
profile in any case. So they are in what XLA dumps, also of a program that it
refused for want of memory:

	XLA_FLAGS="--xla_dump_to=dump --xla_dump_hlo_as_proto" python train.py
	memlane peak dump/*jit_step*.hlo.pb

JAX also writes what is alive at an instant, in pprof's format. Two of them tell what
was kept in between:

	jax.profiler.save_device_memory_profile("before.prof")
	... some steps ...
	jax.profiler.save_device_memory_profile("after.prof")

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

An XProf profile has a memory ID per allocator or device of the host, and one
per compiled program and memory space of it:

	$ memlane info testdata/xplane/tf_leak.xplane.pb
	testdata/xplane/tf_leak.xplane.pb: xplane, XProf profiler
	...

The peak is that of the window; "since the program began" is the allocator's own,
which may lie before it. What was allocated before the window was opened shows in
the allocator's totals: it is part of every level, as "before the window". On TPUs
memory is set aside beside the heap for the stack of programs; it counts too.
"fragmented" is the allocator's own figure there.

Counters, memory timelines (export_memory_timeline) and traces of PyTorch 1.8 and
1.9 tell how much was in use, not who held it: "usage only". info and peak show
the level; leaks, svg and pprof say why they cannot. Traces of several ranks are
given together; info, leaks and report end with the ranks of the highest and lowest peak, of four
or more with a table of them, their median, those that differ (rank_outlier), and how many of them have a leak:

	memlane info rank*.json
	memlane leaks --rank-from 'worker-([0-9]+)' worker-*.pickle

The rank is what a trace says (distributedInfo), or the number behind "rank" in the name of the
file, or what --rank-from finds. Captures are read one after the other; info and leaks keep none of them.

A compiled program is a plan: which buffer of one run lies where, from which
instruction to which. --module NAME and --memory-space N choose one; memory space
0 is the main memory. Padding is what a buffer takes beyond its elements, because
of the tiles of its layout.

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
loop over steps; else record several iterations. Where a profile has no stacks,
the site is the operation and the shape of its result.

Where Python was not recorded the stack is that of operators and named ranges.
What a backward thread allocates stands on the stack of the forward pass that made
it, as "backward: MulBackward0".

A finding says since which step a leak is there, what it takes a step, when the
limit of the device is reached where that is known (or given: --threshold
limit_bytes=80GiB), and what usually causes it. Steps are those that are marked, or else
inferred from how often sites allocate. Fewer than about 50 of them do not make sure that
a cache was not just filling: confidence is lower then, and the text says so.
Sites that keep something of the same steps name one cause: the graph of a loss
keeps several tensors.

Severities: critical is a failed allocation, a leak of 1 GiB or one that reaches
the limit soon; warning a confirmed leak of any size, or much waste; info is worth
knowing, and mostly no fault. "memlane leaks --list-rules" has every rule.

	$ memlane leaks --fail-on warning testdata/torchsnap/leak_loss_fixed.pickle
	testdata/torchsnap/leak_loss_fixed.pickle: no leak found

With --fail-on the exit status is 1 when there is a finding of that severity or
above, or by the rule of that name: a gate for CI.

In a compiled program nothing can leak. Two rules look at what it needs:
whole_program names what is set aside from its beginning to its end (arguments,
results, constants), padding the buffers of which much is padding. A third, oom,
speaks up where it needs more than --threshold limit_bytes=16GiB.

# Leak, cache or fragmentation?

Memory that grows is not always a leak. Record some 50 iterations, then:

1. Look. leaks tells the kinds apart. Here a list grows:

	$ memlane leaks testdata/labelled/d01_list_act.pickle.zst
	testdata/labelled/d01_list_act.pickle.zst: 1 finding

	warning  leak  project (train_mlp.py:33)  on cuda:0
	...

A cache that has filled is told, as no fault (rule cache), and so are buffers that
wait for the garbage collector or are flushed together (delayed_free). Neither goes on growing:

	$ memlane leaks testdata/labelled/d20_cycles.pickle.zst
	testdata/labelled/d20_cycles.pickle.zst: no leak found, 1 other finding

	info  delayed_free  embed (train_graph.py:34)  on cuda:0
	...

Nor does fragmentation: reserved memory grows until the allocator has what the
program needs, however badly it is cut, and stays. The rule says whether it has come to rest:

	$ memlane leaks testdata/labelled/d16_warm_cache.pickle.zst
	testdata/labelled/d16_warm_cache.pickle.zst: no leak found, 2 other findings

	info  fragmentation  all of it  on cuda:0
	  178 MiB (187,030,528 B) of the 326 MiB reserved are free at the end, in
	  pieces of at most 20.0 MiB; 240 MiB were reserved while as much was free,
	  but not in one piece; nothing more is reserved since +14.8 ms: it has come
	  to rest, and is no leak; confidence 89 %
	...

A buffer that is replaced by a larger one each time leaks without ever being two
(growing_buffer); it also leaves holes that no later one fits into:

	$ memlane leaks testdata/labelled/d06_cat_growth.pickle.zst
	testdata/labelled/d06_cat_growth.pickle.zst: 1 leak, 1 other finding

	warning  growing_buffer  make_features (train_hist.py:26)  on cuda:0
	...

2. Isolate. --function looks at some functions and what they call, and shows what
they changed in every step. A cache stops; a leak goes on:

	$ memlane leaks --function mask_for testdata/labelled/d16_warm_cache.pickle.zst
	...
	mask_for on cuda:0: +136 MiB in all, +3.39 MiB a step (40 steps)
	...

3. Read the stacks below each finding, the innermost call first: who allocated.
Who keeps it is for you to find; likely causes and their fixes stand behind ">".

4. Fix, capture again, compare. Of these two captures one sums losses, the other
sums loss.item():

	$ memlane diff testdata/torchsnap/leak_loss.pickle testdata/torchsnap/leak_loss_fixed.pickle
	peak 43.6 MiB -> 19.1 MiB; forward -16.0 MiB; step -8.00 MiB; forward -4.00
	MiB; 1 more; leak in forward fixed; leak in step fixed
	...

5. Where an allocation failed, oom says why: exhausted, fragmented (and which hole
was too small, and who pins it), or held by others than this allocator:

	$ memlane leaks testdata/torchsnap/frag_oom.pickle
	testdata/torchsnap/frag_oom.pickle: no leak found, 1 other finding

	critical  oom  <listcomp> (frag.py:12)  on cuda:0
	  60.0 MiB (62,914,560 B) were wanted at +254 µs: fragmented. 132 MiB of the
	...

# A report

	$ memlane report testdata/torchsnap/leak_loss.pickle
	B, 85 of 100: Good memory usage with minor issues; 3 warnings

	1. leak (warning): forward (leak_loss.py:9) keeps 16.0 MiB (16,777,216 B) in 8
	...

report puts up to three things to do first, then what info, leaks and peak show. -o report.md
writes Markdown for a pull request, -o report.json or --json JSON. A warning takes 15
off the score, what is critical 40; findings of one cause count once.

# Before and after

	$ memlane diff testdata/torchsnap/pair_before.pickle testdata/torchsnap/pair_after.pickle
	peak 68.0 MiB -> 45.0 MiB; <listcomp> -16.0 MiB; 12.0 MiB duplicate gone; 5.00
	MiB kv_cache new
	...

Call sites are compared by function, file and line; where code moved, without the
line, and files of another checkout by the end of their path. A snapshot and a trace
can be compared too: then without lines, as traces know those of the def. What is the
same is left out. --per-step divides what was allocated by the number of marked steps.

Of JAX's device memory profiles each is an instant, so that only a comparison tells
what is kept; compiled programs are a memory ID of their own there, executables:

	$ memlane diff testdata/jaxprof/leak_before.memory.prof testdata/jaxprof/leak_after.memory.prof
	peak 256 KiB -> 2.75 MiB; 2.50 MiB go new
	...

-o diff.svg and -o diff.png draw the memory in use, and reserved, of both captures, one above the
other on one scale of bytes and one of time, with the verdict above; of several memory IDs the one
with the highest peak, unless --space chooses another. Below, dashes are the peak before:

	$ memlane diff -o diff.svg testdata/torchsnap/pair_before.pickle testdata/torchsnap/pair_after.pickle

-o diff.pb.gz writes the change as a profile, -o diff.md as Markdown, -o diff.sarif as
SARIF with the state of each finding against the baseline.

# In CI

Let a job of the training repository record some 50 steps and keep the capture of
the main branch as an artifact. Then, in a step of a GitHub workflow,

	memlane diff --format github main.pickle this.pickle
	memlane diff -o "$GITHUB_STEP_SUMMARY" --format markdown --fail-on 'peak>+5%' --fail-on new-leak main.pickle this.pickle

annotates the lines that allocate, writes a summary, and fails with the reason when the
peak grew by more than 5 % or something leaks that did not. Gates look at peak, end,
reserved and allocated bytes, and take shares (+5%) or sizes (+64MiB); steps recorded alike give peaks
alike, so that small bounds hold. Other hosts read "report -o findings.sarif".

# The rules of other tools

--rules gpumemprof and --rules stormlog run the rules of those tools, exactly, with their
thresholds under their names (--threshold memory_leak_ratio=0.5). report --json then
is their report. They read those tools' own results; of captures, a call is one run of a
function (traces), what a function did in a step (where steps are marked), or one allocation.

	$ memlane report --rules gpumemprof testdata/gpumemprof/spike.json
	...

They misfire where ours do not: a warm-up counts as a leak, a random walk as a trend.

# What makes up the peak

	$ memlane peak testdata/torchsnap/pair_before.pickle
	testdata/torchsnap/pair_before.pickle cuda:0
	68.0 MiB (71,303,168 B) in 13 buffers at +90.0 µs
	     bytes   share  buffers  allocated by
	  32.0 MiB  47.1 %        4  <listcomp> (pair.py:9)
	  24.0 MiB  35.3 %        8  <listcomp> (pair.py:6)
	  12.0 MiB  17.6 %        1  duplicate (pair.py:10)

Of the compiled programs in a capture the one with the highest peak is shown
where nothing else was asked for; allocators come first. This one needs 300 GiB:

	$ memlane peak testdata/xplane/seed_oom.hlo.pb
	testdata/xplane/seed_oom.hlo.pb jit_seed_oom/space0
	300 GiB (322,122,547,200 B) in 2 buffers at instruction 0 of 2
	...

Every command but export takes --from and --to, which cut the window: durations from its beginning, or
instants as JSON has them. What is older than the cut counts as older than the window.
--min-size 1MiB, --category gradient and --function REGEXP (what such functions allocated, and
those that they called) leave only such buffers; levels are then theirs alone. In leaks and report
--function limits what is looked for, not what is counted as work.

	$ memlane info --from 1ms --to 2ms testdata/torchsnap/healthy.pickle
	...

--at end shows what is left, --at oom what was there when an allocation failed,
--at 20ms what was there 20 ms after the window began.

# Which operations

	$ memlane ops testdata/chrome/cpu_leak.json.gz
	testdata/chrome/cpu_leak.json.gz: 10 operations
	...

One row per operator or named range, as in PyTorch's Operator view: bytes
allocated less bytes freed while it ran, below zero where it freed more; self is
without the operations that it called; [memory] is what happened outside of all.
Columns of device memory stand only where one differs from 0. --functions shows
the Python functions instead.

# Pictures

	$ memlane svg -o docs/leak.svg testdata/torchsnap/leak_4mib_20steps.pickle
	$ memlane svg --layout address -o docs/fragmentation.svg testdata/torchsnap/frag_oom.pickle
	$ memlane svg --color leak --theme dark -o docs/leak-dark.svg testdata/torchsnap/leak_4mib_20steps.pickle
	$ memlane svg --view usage -o docs/usage.svg testdata/xplane/tf_leak.xplane.pb
	$ memlane svg --view peak --buffer copy.16 -o docs/peak.svg testdata/xplane/oom.hlo.pb

A block is one buffer: as wide as it lived, as high as the bytes it occupied. In
the stacked layout blocks slide down when one below them ends, so that the upper
edge is the memory in use; in the address layout a block stays where it lies, on
the grey regions that the allocator reserved, and grey that no block covers is
free. Hatched blocks leak, whatever --color says; --color leak puts them at the
bottom and lets all others recede, --color category tells apart what memory is for: the kinds of a compiled
program's buffers, or what the allocator was told. The line "capacity" is the
limit of the device, where a capture knows it and the peak reaches half of it.

More than 10,000 buffers (--max-blocks), those that are smaller than half a pixel
and those that would let the file outgrow 2 MB are drawn together: the largest
stay blocks, the footer says how many do not, and the outline and all sums count
them. The file needs nothing else: no script, no network. One style sheet has
colours for light and dark pages; --theme light and --theme dark have one of them.
A FILE that ends in .png gets the same picture in dots, on a light page unless
--theme is dark.

--view usage draws curves: the bytes in use, what of them was asked for, the stack
of programs, what the allocator reserved or the device has left, and, on an axis of
its own at the right, the fragmentation. It is the allocator's own figure, or is
computed at some hundred instants from the holes in reserved memory. Every column
of pixels has the lowest and the highest value of its part of the window: no peak
is lost. This view works where only the usage is known, too.

--view peak shows what makes up the peak: its split by what the memory is for, and a
bar per buffer, by size, by padding and in order of the program. The pale part of a
bar is padding, of running programs what the allocator rounded up. --buffer marks one
of them in the curves above: the largest one that is called so (an instruction,
operation, function or "file:line", or a part of one), or a value's number.

Of several captures svg draws the usage, in a panel each: all on one scale of bytes, each as wide as its
own window. Ranks that differ from the others (rank_outlier) are framed, and their panels say why where a
reader points at them. Beyond 64 panels a line says how many are left out:

	$ memlane svg -o ranks.svg testdata/chrome/cpu_rank0.json.gz testdata/chrome/cpu_rank1.json.gz

# In a browser

	$ memlane report -o report.html testdata/torchsnap/leak_4mib_20steps.pickle

The page shows what the commands above show, and more of it: the memory over time;
below, on the same time, every buffer; and what is alive at one instant, which a
click on the graph chooses: by site, each buffer, or as a flame graph of bytes by
stack. Wheel: zoom to the cursor (Alt: the bytes). Drag: zoom to what is marked.
Shift and drag: move. Hover over a block for its function, size, offset, lifetime,
shape and source line; click to pin it, which shows its stack and where on the curve
it was allocated and freed. A row, a call of the flame graph, an entry of the legend
or a search (text or /regexp/) lights the buffers of its sites, and so does the link
of a finding. "?" lists the keys. The address of the page keeps what it shows
(#space=cuda:0&t=...), so it can be sent along with the file.

	memlane report -o report.html before.pickle after.pickle

With several captures the page compares two of them: both curves on one scale, and
the sites that are new, gone, grew or shrank. The file needs nothing else and asks
for nothing: it opens from disk, and its Content-Security-Policy forbids requests.

	memlane serve snapshot.pickle

shows the same page without a file, and opens a browser. It tells how far the reading
of a large capture got, and shows it anew when it changes. It listens on 127.0.0.1,
on any free port, unless --http HOST:PORT says otherwise, and answers only who calls
it by an address, as localhost or by HOST; --no-browser leaves the browser alone,
Ctrl-C ends it. For scripts it answers JSON:

	/api/info              as memlane info --json
	/api/leaks             as memlane leaks --json
	/api/peak?at=WHEN      as memlane peak --json --at WHEN, of every memory ID
	/api/model?capture=N   as memlane export --to json, of capture N, from 0
	/api/status            state (reading, ready, failed), version (how often captures were read), file, read and size in bytes, error

# Profiles

	$ memlane pprof -o heap.pb.gz testdata/torchsnap/leak_4mib_20steps.pickle
	$ go tool pprof -top -tagfocus=leak=leak:warning heap.pb.gz
	...

inuse_space, the default, is what was alive at the peak of each memory ID (--at
end: at the end); its total is the peak. alloc_space is what was allocated in
the window, leaked_space what leaks and grows without end. Frames of libraries are
left out where there are others (--frames all keeps them), so that -top names the
program's own functions. Labels: device, memory_id, rank, kind (buffer, or of compiled programs
parameter, output, temporary, constant), op, region, shape, dtype, leak
(RULE:SEVERITY), and the numbers bytes and lifetime, which -tagfocus takes ranges of:

	go tool pprof -top -tagfocus=bytes=1mb: heap.pb.gz
	go tool pprof -top -tagfocus=lifetime=1s: heap.pb.gz
	go tool pprof -tagroot=device -http=: heap.pb.gz

--at 20ms,40ms and --every 10 write a file for each instant or tenth step (heap-1.pb.gz, ...),
and diff -o d.pb.gz the change from one capture to another:

	go tool pprof -top -diff_base heap-1.pb.gz heap-4.pb.gz

-top adds functions of one name together, wherever they stand; -lines tells
"forward" of one file from that of another.

# Tables

export --to csv and --to parquet write a table, one to a file: buffers, unless
--table says sites, stacks or usage.

	$ memlane export --to csv --table sites -o sites.csv testdata/torchsnap/leak_4mib_20steps.pickle

Columns:

	buffers  one row per buffer: space, unit (of times), begin_at, end_at, live (at the end), begin_unseen (older than the
	         window: no allocation was recorded), addr, size (occupied), requested, kind, edges, site, then who allocated: stack,
	         function, file, line, op, shape, dtype, region, module, instr, opcode; note
	sites    one row per space and site: space, site, who allocated, and count, bytes and requested of allocated (in the window),
	         freed, peak (alive at the peak) and live (at the end): allocated_count, allocated_bytes, allocated_requested, ...
	stacks   one row per frame: stack, depth (0: the innermost call), function, file, line, col (of the line), kind
	usage    one row per instant at which a level changed or was told: space, unit, measure (occupied, requested, reserved), t, bytes

DuckDB, pandas and Spark read Parquet. Who holds what is alive at the end; the peak and
when it was; the stack of the largest buffer:

	$ memlane export --to parquet -o buffers.parquet testdata/torchsnap/leak_loss.pickle
	$ memlane export --to parquet --table stacks -o stacks.parquet testdata/torchsnap/leak_loss.pickle
	$ memlane export --to parquet --table usage -o usage.parquet testdata/torchsnap/leak_loss.pickle

DuckDB's queries:

	duckdb -c "SELECT function, line, count(*), sum(size) FROM 'buffers.parquet' WHERE live GROUP BY ALL ORDER BY 4 DESC"
	duckdb -c "SELECT space, max(bytes), arg_max(t, bytes) FROM 'usage.parquet' WHERE measure = 'occupied' GROUP BY space"
	duckdb -c "SELECT s.function, s.line FROM (FROM 'buffers.parquet' ORDER BY size DESC LIMIT 1) b JOIN 'stacks.parquet' s USING (stack) ORDER BY depth"

Bytes and times are exact integers. 0 is no site, stack or line, and text that is not
known is empty. Text that a spreadsheet would run as a formula begins with an
apostrophe.

# Traces

	$ memlane export --to perfetto -o mem.json testdata/torchsnap/frag_oom.pickle

ui.perfetto.dev opens the file, trace_processor queries it: counters of the bytes in
use and reserved, and each buffer as a slice from its allocation to its free, with its
size, address, operation and stack. Buffers of one place lie together. Nothing is
thinned out: a million buffers whose stacks have 20 calls are some
700 MB. A browser holds about 2 GB;
"trace_processor server http mem.json" holds more. Where there is no clock an event
or instruction is a microsecond.

# Flame graphs

	$ memlane export --to collapsed testdata/torchsnap/twodev.pickle
	cuda:0;<module> (twodev.py:13);ok_step (twodev.py:8) 4194304
	...

Folded stacks of the peak in bytes, each memory ID a tower of its own: input for
flamegraph.pl, inferno and speedscope.

# Benchmarks

--to benchfmt writes the figures of each memory ID as a Go benchmark, so that
benchstat compares them. They are exact, so one capture of each side is enough:

	memlane export --to benchfmt -o main.bench main.pickle
	memlane export --to benchfmt -o this.bench this.pickle
	benchstat main.bench this.bench

	              │  main.bench  │         this.bench          │
	              │  peak-bytes  │  peak-bytes   vs base       │
	Memory/cuda:0   68.00Mi ± 0%   45.00Mi ± 0%  -33.82% (n=1)

# For programs

info, leaks, report, diff, peak and ops write JSON with --json, and export writes the whole model:

	$ memlane export --to native testdata/torchsnap/segfree.pickle
	memlane native 1
	...

The JSON Schema of --to json is render/model/schema.json.

--to xprof.memory_profile and --to xprof.memory_viewer write what XProf's own pages
are made from, for its front end and for scripts that read it:

	memlane export --to xprof.memory_profile host.xplane.pb
	memlane export --to xprof.memory_viewer --module 'jit_f(5)' --memory-space 0 host.xplane.pb

JSON begins with "schema": "memlane/1". Bytes are integers; times are integers
in the "unit" of their memory ID; what is not known is null. Nothing is cut to a
top N.

	info   captures[] file, format, producer, losses[], spaces[]: id, device, module, memory_space, axis, unit, begin, end,
	       limit_bytes, base_bytes, facts[], allocations, frees, usage_only, live {count, bytes, requested_bytes,
	       pending_free_count, pending_free_bytes}, reserved_bytes, reserved_peak_bytes, peak {bytes, requested_bytes, at, fragmentation},
	       stack_bytes, padding_bytes, lifetime_peak_bytes, fragmentation, fragmentation_max, free_bytes,
	       largest_free_bytes, ooms[]
	leaks  findings[] rule, severity, confidence, file, space, site {function, file, line, op, stack[], source[]}, bytes,
	       requested_bytes, count, bytes_per_step, description, evidence {}, suggestions[]; score {score, grade, description};
	       with --function functions[]: file, space, steps_inferred, steps[] {begin, allocated_bytes, freed_bytes, change_bytes}
	report rules, summary {}, critical_issues[], high_impact_insights[], all_patterns[], all_insights[], recommendations[],
	       optimization_score {score, grade, description, issues_found}, the names of gpumemprof; findings[] as in leaks
	peak   peaks[] file, space, at, bytes, rows[]: site, op, shape, dtype, category, instr, bytes, requested_bytes,
	       padding_bytes, count, share
	diff   before, after: as captures[] of info; rows[] space, status (new, gone, grew, shrank), site, site_before,
	       before_the_window, before and after {peak_bytes, peak_requested_bytes, end_bytes, end_requested_bytes,
	       allocated_bytes, count, allocations}, delta_peak_bytes, delta_end_bytes, delta_allocated_bytes; findings {new[],
	       fixed[], still[]}; lines_compared, places_unknown, per_step, verdict
	ops    captures[] file, operations[]: name, kind, calls, time_ns, self_time_ns, host and device {allocated_bytes,
	       freed_bytes, bytes, self_bytes}

info, leaks and report have ranks[] {rank, peak_bytes, end_bytes, leaked_bytes} where several captures tell their ranks.
live is the state at the end of the window. Blocks whose free was asked for but
not completed count in live.bytes, and stand in live.pending_free_bytes too.
peak.bytes and peak.requested_bytes are each the maximum of their own series;
at belongs to peak.bytes. fragmentation is that at the end of the window. The
category of a row is the kind of a compiled program's buffers, what the allocator
was told they are for, "stack", "usage" or "before the window". Where usage_only is
true, live is the level at the end, with a count of 0. A finding about a whole memory ID
has a site without a function. Of its evidence, steps and began_step count from
0, began_after is the time since the window began, steps_inferred is 1 where nothing
marks them, cause is the same for findings that one change may fix.

# Large captures

A file is read in pieces, whatever its size, and never loaded as a whole. What
takes memory is the model: about 60 bytes for every buffer, and as much again
while a command sorts, judges or draws them. info and peak need the buffers of the
peak and the end alone, unless flags cut the window or choose buffers; of an XProf
profile they keep nothing else, so that one of many gigabytes takes some tens of
megabytes.

Where memory is short, --max-memory names what there is. A capture that does not
fit is then refused while it is read, with status 3, before the system kills the
program:

	$ memlane info --max-memory 2GiB testdata/torchsnap/frag_oom.pickle
	testdata/torchsnap/frag_oom.pickle: torch-snapshot, PyTorch
	...

Reading that takes longer than a second shows on a terminal how far it is and how
long it will go on. Ctrl-C ends any command; nothing half-written stays behind.

# Exit status

	0  done
	1  --fail-on was met
	2  the command line is wrong
	3  a capture cannot be read, or is damaged under --strict
	4  a capture can be read, but holds nothing of what was asked for
	5  the output cannot be written
	130  interrupted: Ctrl-C

Reports go to standard output; warnings and errors, one line each, to standard
error. A truncated capture is read as far as it goes: a warning, status 0.

# Safety

Snapshots are pickles, and unpickling a file that somebody else made runs it.
memlane does not unpickle: its decoder knows plain data only and refuses every
opcode that imports, calls or builds something, by name and offset. Profiles of any
size are read through a window. Nothing that
a capture names is opened or fetched, and its texts are escaped where they are
shown.
*/
package main
