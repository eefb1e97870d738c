package main

import (
	"fmt"
	"time"

	"github.com/memlane/memlane/internal/units"
)

// work is something that memlane does, beside what others take for it.
type work struct {
	name  string // what --only chooses by
	title string // what on; the size of the file is told beside it
	input input
	// rows are what is measured on the file; the first is memlane's.
	rows func(file string) []row
}

// row is a command with what is asked of it.
type row struct {
	command
	targets []target
	// less makes the row the difference between two others, and no command.
	less *[2]int
}

// What the reader of traces may keep: a buffer of the model, and of every call
// what encloses an allocation is found by.
const bufferBytes, callBytes = 48, 40

// works lists what is measured, each at the size at which its targets are set
// when scale is 1.
func (b *bench) works() []work {
	scaled := func(n int) int { return max(1, int(float64(n)*b.scale)) }
	snapshot := input{kind: "snapshot", n: scaled(3_000_000), seed: 1, stacks: 3000}
	trace := input{kind: "trace", n: scaled(1_020_000), seed: 1}
	packed := trace
	packed.kind = "trace-gz"
	stacks := input{kind: "snapshot", n: scaled(1_000_000), seed: 1, stacks: 20_000}
	program := input{kind: "hlo-xspace", n: scaled(80_000), seed: 1}
	small := input{kind: "snapshot", n: 60, seed: 1, stacks: 20}
	events := input{kind: "xspace", n: scaled(2_000_000), seed: 1}
	return []work{
		{"xspace", fmt.Sprintf("XProf profile, %s allocator events", count(events.n)), events, b.xspaceRows},
		{"snapshot", fmt.Sprintf("PyTorch snapshot, %s records", count(snapshot.n)), snapshot, b.snapshotRows},
		{"plot", "the same snapshot, drawn", snapshot, b.plotRows},
		{"trace", fmt.Sprintf("PyTorch trace, %s events", count(trace.n)), trace, func(file string) []row { return b.traceRows(file, trace.n) }},
		{"trace-gz", "the same trace, gzip", packed, b.packedRows},
		{"hlo", fmt.Sprintf("compiled program of %s buffers in an XProf profile", count(program.n)), program, b.programRows},
		{"svg", fmt.Sprintf("picture of %s buffers, the snapshot again", count(snapshot.n/3)), snapshot, b.drawingRows},
		{"pprof", fmt.Sprintf("PyTorch snapshot, %s records on %s stacks", count(stacks.n), count(stacks.stacks)), stacks, b.pprofRows},
		{"start-up", "small PyTorch snapshot", small, b.startRows},
		{hugeWorks + "xspace", "XProf profile, mostly of devices", input{kind: "sparse", n: events.n, seed: 1}, b.hugeRows("info", 64<<20)},
		{hugeWorks + "snapshot", "PyTorch snapshot", input{kind: "snapshot", n: scaled(24_000_000), seed: 1, stacks: 3000},
			b.hugeRows("info", 64<<20+4*bufferBytes*int64(scaled(8_000_000)))},
		{hugeWorks + "trace", "PyTorch trace in one line", input{kind: "trace-line", n: scaled(13_000_000), seed: 1},
			b.hugeRows("peak", 64<<20+traceModel(scaled(13_000_000)))},
	}
}

// hugeWorks is what the names of works begin with whose inputs fill a disk.
const hugeWorks = "huge-"

func count(n int) string { return units.Count(int64(n)) }

func (b *bench) memlane(name string, args ...string) command {
	return command{name: name, args: append([]string{b.peers.memlane}, args...)}
}

// limit is the cost of a limit, measured as everything else is: by a process.
func (b *bench) limit(name, which, file string) row {
	return row{command: command{name: "limit: " + name, args: []string{b.self, "limit", which, file}}}
}

func (b *bench) xspaceRows(file string) []row {
	p := b.peers
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.memlane("memlane export --to xprof.memory_profile", "export", "--to", "xprof.memory_profile", file)},
		{command: p.script("xprof memory_profile", "xprof", memoryProfileScript, file), targets: []target{lessCPU(15), lessMemory(40)}},
		{command: p.script("of that: Python and import xprof", "xprof", importXprofScript)},
		{command: p.script("protobuf (upb), parse alone", "protobuf", protobufScript, file)},
		b.limit("looking at every byte (memchr)", "memchr", file),
		b.limit("reading the file", "read", file),
	}
}

func (b *bench) snapshotRows(file string) []row {
	p := b.peers
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: p.script("pickle.load alone", "", pickleScript, file), targets: []target{lessCPU(5), lessMemory(4)}},
		{command: p.viz("_memory_viz.py stats", "stats", file), targets: []target{lessCPU(8)}},
		b.limit("looking at every byte (memchr)", "memchr", file),
		b.limit("reading the file", "read", file),
	}
}

func (b *bench) plotRows(file string) []row {
	return []row{
		{command: b.memlane("memlane svg", "svg", "-o", "{out}", file)},
		{command: b.peers.viz("_memory_viz.py trace_plot", "trace_plot", file, "-o", "{out}"), targets: []target{lessCPU(10)}},
	}
}

func (b *bench) traceRows(file string, events int) []row {
	p := b.peers
	model := traceModel(events)
	return []row{
		{command: b.memlane("memlane peak, with the operators", "peak", file),
			targets: []target{memoryAtMost(fmt.Sprintf("64 MiB + model (%s MB)", megabytes(model)), 64<<20+model)}},
		{command: p.script("json.load", "", jsonScript, file), targets: []target{lessCPU(10)}},
		{command: p.script("orjson.loads", "orjson", orjsonScript, file)},
		{command: p.grepCount(file)},
		b.limit("looking at every byte (memchr)", "memchr", file),
		b.limit("reading the file", "read", file),
	}
}

// traceModel is what a reader of a trace of so many events may keep.
func traceModel(events int) int64 {
	return int64(events) * (callBytes + bufferBytes/40) // one event in 40 allocates
}

// hugeRows measures a command on a capture that its peers do not open any more.
func (b *bench) hugeRows(name string, most int64) func(file string) []row {
	return func(file string) []row {
		return []row{
			{command: b.memlane("memlane "+name, name, file), targets: []target{memoryAtMost(megabytes(most)+" MB", most)}},
			b.limit("reading the file", "read", file),
		}
	}
}

func (b *bench) packedRows(file string) []row {
	gunzip := b.limit("gunzip in Go", "gunzip", file)
	gunzip.targets = []target{nearLimit(2.2)}
	return []row{
		{command: b.memlane("memlane peak", "peak", file)},
		{command: program("gunzip -c", b.peers.gunzip, "-c", file)},
		gunzip,
		b.limit("reading the file", "read", file),
	}
}

func (b *bench) programRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.memlane("memlane export --to xprof.memory_viewer", "export", "--to", "xprof.memory_viewer", file)},
		{command: b.peers.script("xprof memory_viewer", "xprof", memoryViewerScript, file), targets: []target{lessCPU(50)}},
		{command: b.peers.script("of that: Python and import xprof", "xprof", importXprofScript)},
		b.limit("reading the file", "read", file),
	}
}

// drawingRows tells what drawing takes, which from outside is what a command
// takes that draws beyond one that does not.
func (b *bench) drawingRows(file string) []row {
	return []row{
		{command: b.memlane("memlane svg", "svg", "-o", "{out}", file), targets: []target{outputAtMost(2e6)}},
		{command: b.memlane("memlane info", "info", file)},
		{command: command{name: "the difference"}, less: &[2]int{0, 1}, targets: []target{cpuAtMost(300 * time.Millisecond)}},
	}
}

func (b *bench) pprofRows(file string) []row {
	// Read by the second what the first has written.
	return []row{
		{command: b.memlane("memlane pprof", "pprof", "-o", b.profile, file), targets: []target{cpuAtMost(time.Second)}},
		{command: program("go tool pprof -top", b.peers.pprof, "-top", b.profile), targets: []target{cpuAtMost(time.Second)}},
	}
}

func (b *bench) startRows(file string) []row {
	help, info := b.memlane("memlane --help", "--help"), b.memlane("memlane info", "info", file)
	soon := []target{wallAtMost(30 * time.Millisecond)}
	return []row{{command: help, targets: soon}, {command: info, targets: soon}}
}
