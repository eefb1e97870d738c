package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/memlane/memlane/internal/units"
)

// work is a task that memlane and its peers do.
type work struct {
	name  string // for --only
	title string // describes the input
	input input
	rows  func(file string) []row // the first is memlane's
}

// row is a measured command.
type row struct {
	command
	targets []target
	less    *[2]int // if set, the row is the difference of the CPU of two other rows instead of a command
}

// bufferBytes and callBytes are the bytes that the reader of traces may keep per buffer, and per call. It keeps all calls, to
// find the one that encloses an allocation.
const bufferBytes, callBytes = 48, 40

// works returns all works. Their targets are set for scale 1.
func (b *bench) works() []work {
	scaled := func(n int) int { return max(1, int(float64(n)*b.scale)) }
	snapshot := input{kind: "snapshot", n: scaled(3_000_000), seed: 1, stacks: 3000}
	trace := input{kind: "trace", n: scaled(1_020_000), seed: 1}
	packed := trace
	packed.kind = "trace-gz"
	stacks := input{kind: "snapshot", n: scaled(1_000_000), seed: 1, stacks: 20_000}
	program := input{kind: "hlo-xspace", n: scaled(80_000), seed: 1}
	small := input{kind: "snapshot", n: 60, seed: 1, stacks: 20}
	deep := input{kind: "deep", n: scaled(1_000_000), seed: 1, stacks: 5000}
	one := input{kind: "deep", n: scaled(3500), seed: 1, stacks: 200}
	whole := input{kind: "all", n: scaled(500_000), seed: 1, stacks: 20_000}
	blocks := input{kind: "blocks", n: scaled(600_000), seed: 1, stacks: 20_000}
	shared := input{kind: "shared", n: scaled(300_000), seed: 1, stacks: 1000}
	nested := input{kind: "nested", n: scaled(20_000), seed: 1}
	large := input{kind: "hlo-xspace", n: scaled(300_000), seed: 1}
	events := input{kind: "xspace", n: scaled(2_000_000), seed: 1}
	return []work{
		{"xspace", fmt.Sprintf("XProf profile, %s allocator events", count(events.n)), events, b.xspaceRows},
		{"snapshot", fmt.Sprintf("PyTorch snapshot, %s records", count(snapshot.n)), snapshot, b.snapshotRows},
		{"svg", fmt.Sprintf("the same as a picture of %s buffers", count(snapshot.n/3)), snapshot, b.drawingRows},
		{"deep", fmt.Sprintf("PyTorch snapshot as torch writes it, %s records with stacks of 28 to 68 calls", count(deep.n)), deep, b.deepRows},
		{"stacks", fmt.Sprintf("PyTorch snapshot, %s records on %s stacks of 60 to 120 calls", count(whole.n), count(whole.stacks)), whole, b.stacksRows},
		{"blocks", fmt.Sprintf("PyTorch snapshot without history, %s blocks", count(blocks.n)), blocks, b.blocksRows},
		{"shared", fmt.Sprintf("PyTorch snapshot without history, %s blocks that share %s stacks", count(shared.n), count(shared.stacks)), shared, b.blocksRows},
		{"files", fmt.Sprintf("%d times one PyTorch snapshot of %s records", manyFiles, count(one.n)), one, b.filesRows},
		{"trace", fmt.Sprintf("PyTorch trace, %s events", count(trace.n)), trace, func(file string) []row { return b.traceRows(file, trace.n) }},
		{"nested", fmt.Sprintf("PyTorch trace, %s calls, %s deep", count(nested.n), count(nestedDepth)), nested, b.nestedRows},
		{"trace-gz", "the same trace, gzip", packed, b.packedRows},
		{"hlo", fmt.Sprintf("compiled program of %s buffers in an XProf profile", count(program.n)), program, b.programRows},
		{"container", fmt.Sprintf("compiled program of %s buffers, in 512 MiB", count(large.n)), large, b.containerRows},
		{"pprof", fmt.Sprintf("PyTorch snapshot, %s records on %s stacks", count(stacks.n), count(stacks.stacks)), stacks, b.pprofRows},
		{"start-up", "small PyTorch snapshot", small, b.startRows},
		{hugeWorks + "xspace", "XProf profile, mostly of devices", input{kind: "sparse", n: events.n, seed: 1}, b.hugeRows("info", 64<<20)},
		{hugeWorks + "snapshot", "PyTorch snapshot", input{kind: "snapshot", n: scaled(24_000_000), seed: 1, stacks: 3000},
			b.hugeRows("info", 64<<20+4*bufferBytes*int64(scaled(8_000_000)))},
		{hugeWorks + "trace", "PyTorch trace in one line", input{kind: "trace-line", n: scaled(13_000_000), seed: 1},
			b.hugeRows("peak", 64<<20+traceModel(scaled(13_000_000)))},
	}
}

// hugeWorks begins the names of works whose inputs are too large to keep.
const hugeWorks = "huge-"

func count(n int) string { return units.Count(int64(n)) }

func (b *bench) memlane(name string, args ...string) command {
	return command{name: name, args: append([]string{b.peers.memlane}, args...)}
}

// limit returns a row for a limit. It runs as a process, like all commands.
func (b *bench) limit(name, which, file string) row {
	return row{command: command{name: "limit: " + name, args: []string{b.self, "limit", which, file}}}
}

func (b *bench) xspaceRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.memlane("memlane export --to xprof.memory_profile", "export", "--to", "xprof.memory_profile", file)},
		{command: b.peers.script("xprof memory_profile", "xprof", "memory_profile", file), targets: []target{lessCPU(15), lessMemory(40)}},
		{command: b.peers.script("protobuf (upb), parse alone", "protobuf", "protobuf_parse", file)},
	}
}

func (b *bench) snapshotRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.peers.script("pickle.load alone", "", "pickle_load", file), targets: []target{lessCPU(10), lessMemory(8)}},
		{command: b.peers.viz("_memory_viz.py stats", "stats", file), targets: []target{lessCPU(8)}},
	}
}

// deepRows measures what torch writes for models: protocol 4, and a list of frames for each record.
func (b *bench) deepRows(file string) []row {
	opcodes := b.limit("looking at every opcode", "opcodes", file)
	opcodes.targets = []target{nearLimit(3)}
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.memlane("memlane pprof", "pprof", "-o", "{out}", file)},
		{command: b.memlane("memlane export --to perfetto", "export", "--to", "perfetto", "-o", "{out}", file)},
		{command: b.peers.script("pickle.load alone", "", "pickle_load", file), targets: []target{lessCPU(8), lessMemory(8)}},
		opcodes,
	}
}

// stacksRows measures what stacks="all" leaves to the writers of stacks.
func (b *bench) stacksRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.memlane("memlane pprof", "pprof", "-o", "{out}", file), targets: []target{cpuAtMost(2500 * time.Millisecond), memoryAtMost("350 MB", 350e6)}},
		{command: b.memlane("memlane export --to perfetto", "export", "--to", "perfetto", "-o", "{out}", file), targets: []target{cpuAtMost(2 * time.Second), outputAtMost(100e6)}},
		{command: b.peers.script("pickle.load alone", "", "pickle_load", file)},
	}
}

// blocksRows measures snapshots that have the end state only.
func (b *bench) blocksRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.peers.script("pickle.load alone", "", "pickle_load", file), targets: []target{lessCPU(3), lessMemory(2)}},
	}
}

// nestedRows measures calls so deep that the file is small beside the sum of their stacks.
func (b *bench) nestedRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file), targets: []target{memoryAtMost("64 MB", 64e6)}},
		{command: b.memlane("memlane pprof", "pprof", "-o", "{out}", file), targets: []target{memoryAtMost("64 MB", 64e6)}},
		{command: b.peers.script("json.load", "", "json_load", file)},
	}
}

// manyFiles is the number of captures of one command.
const manyFiles = 200

func (b *bench) filesRows(file string) []row {
	files := slices.Repeat([]string{file}, manyFiles)
	info := b.memlane("memlane info FILE...", append([]string{"info"}, files...)...)
	wide := info
	wide.name, wide.all = info.name+", on all processors", true
	return []row{
		{command: info},
		{command: wide},
		{command: b.peers.script("a loop of pickle.load", "", "pickle_load", files...), targets: []target{lessCPU(2.5)}},
	}
}

// containerRows measures the memory that a command takes if it may not take more.
func (b *bench) containerRows(file string) []row {
	const most = 512 << 20
	return []row{
		{command: b.memlane("memlane info --max-memory 512MiB", "info", "--max-memory", "512MiB", file), targets: []target{memoryAtMost("512 MiB", most)}},
		{command: b.memlane("memlane info", "info", file)},
	}
}

func (b *bench) traceRows(file string, events int) []row {
	model := traceModel(events)
	return []row{
		{command: b.memlane("memlane peak, with the operators", "peak", file),
			targets: []target{memoryAtMost(fmt.Sprintf("64 MiB + model (%s MB)", megabytes(model)), 64<<20+model)}},
		{command: b.peers.script("json.load", "", "json_load", file), targets: []target{lessCPU(20), lessMemory(12)}},
		{command: b.peers.script("orjson.loads", "orjson", "orjson_loads", file)},
		{command: program("simdjson", b.peers.simdjson, file)},
	}
}

// traceModel returns how many bytes a reader may keep of a trace.
func traceModel(events int) int64 {
	return int64(events) * (callBytes + bufferBytes/40) // one event in 40 allocates
}

// hugeRows measures a command on a capture that is too large for its peers.
func (b *bench) hugeRows(name string, most int64) func(file string) []row {
	return func(file string) []row {
		return []row{
			{command: b.memlane("memlane "+name, name, file), targets: []target{memoryAtMost(megabytes(most)+" MB", most)}},
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
	}
}

func (b *bench) programRows(file string) []row {
	return []row{
		{command: b.memlane("memlane info", "info", file)},
		{command: b.memlane("memlane export --to xprof.memory_viewer", "export", "--to", "xprof.memory_viewer", file)},
		{command: b.peers.script("xprof memory_viewer", "xprof", "memory_viewer", file), targets: []target{lessCPU(50)}},
	}
}

// drawingRows measures drawing: the difference between a command that draws and one that does not.
func (b *bench) drawingRows(file string) []row {
	return []row{
		{command: b.memlane("memlane svg", "svg", "-o", "{out}", file), targets: []target{outputAtMost(2e6)}},
		{command: b.memlane("memlane info", "info", file)},
		{command: command{name: "the difference"}, less: &[2]int{0, 1}, targets: []target{cpuAtMost(300 * time.Millisecond)}},
		{command: b.peers.viz("_memory_viz.py trace_plot", "trace_plot", file, "-o", "{out}"), targets: []target{lessCPU(10)}},
	}
}

func (b *bench) pprofRows(file string) []row {
	// The second reads what the first has written.
	return []row{
		{command: b.memlane("memlane pprof", "pprof", "-o", b.profile, file), targets: []target{cpuAtMost(time.Second)}},
		{command: program("go tool pprof -top", b.peers.pprof, "-top", b.profile), targets: []target{cpuAtMost(time.Second)}},
	}
}

func (b *bench) startRows(file string) []row {
	targets := []target{wallAtMost(30 * time.Millisecond)}
	return []row{{command: b.memlane("memlane --help", "--help"), targets: targets}, {command: b.memlane("memlane info", "info", file), targets: targets}}
}
