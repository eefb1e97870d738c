package main

import (
	"context"
	"math"
	"os"
	"time"
)

// The highest accepted exponents: costs grow with size to this power.
const (
	cpuExponent    = 1.1
	memoryExponent = 1.0
)

// steps is how many sizes a series has.
const steps = 5

// series measures commands on inputs of one format and several sizes.
type series struct {
	name, title string                         // the name is for --only
	inputs      func(i int) []input            // of size i; diff compares the first with the second
	commands    func(files []string) []command // run on them
	viewer      int                            // if set, the last command, which is slow, runs on this many sizes only
}

// column has a series that was measured.
type column struct {
	title string
	all   []growing
}

// growing contains the costs of a command at each size.
type growing struct {
	command command
	sizes   []int64 // of the files, bytes
	costs   []cost
}

// allSeries returns the series: captures of 10 MB to 1 GB at scale 1, and programs as large as compilers make them.
func (b *bench) allSeries() []series {
	// bytes is the approximate size of an event or record, uncompressed.
	sized := func(kind string, bytes float64, stacks, files int) func(i int) []input {
		return func(i int) (all []input) {
			n := max(1, int(b.scale*10e6*math.Pow(10, float64(i)/2)/bytes))
			for seed := range files {
				all = append(all, input{kind, n, uint64(seed + 1), stacks})
			}
			return all
		}
	}
	programs := func(i int) []input {
		n := max(1, int(b.scale*10_000)) << i
		return []input{{kind: "hlo-xspace", n: n, seed: 1}}
	}
	return []series{
		{name: "growth xspace", title: "XSpace", inputs: sized("xspace", 200, 0, 2), commands: b.eventCommands},
		{name: "growth snapshot", title: "snapshot", inputs: sized("snapshot", 88, 3000, 2), commands: b.eventCommands},
		{name: "growth trace", title: "trace JSON", inputs: sized("trace", 396, 0, 2), commands: b.eventCommands},
		{name: "growth trace-gz", title: "trace JSON, gzip", inputs: sized("trace-gz", 396, 0, 1), commands: func(files []string) []command {
			return []command{b.memlane("info", "info", files[0]), b.memlane("peak", "peak", files[0])}
		}},
		{name: "growth hlo", title: "HLO in XSpace", inputs: programs, commands: b.programCommands, viewer: 4},
	}
}

// commands returns the commands for all captures.
func (b *bench) commands(file string) []command {
	return []command{
		b.memlane("info", "info", file),
		b.memlane("peak", "peak", file),
		b.memlane("leaks", "leaks", file),
		b.memlane("pprof", "pprof", "-o", "{out}", file),
		b.memlane("svg", "svg", "-o", "{out}", file),
		b.memlane("report", "report", file),
		b.memlane("export, native", "export", "--to", "native", file),
	}
}

// eventCommands returns the commands for captures of events; diff compares two of them.
func (b *bench) eventCommands(files []string) []command {
	file := files[0]
	return append(b.commands(file),
		b.memlane("report, HTML", "report", "--format", "html", "-o", "{out}", file),
		b.memlane("export, parquet", "export", "--to", "parquet", "-o", "{out}", file),
		b.memlane("diff", "diff", file, files[1]),
	)
}

// programCommands returns the commands for compiled programs.
func (b *bench) programCommands(files []string) []command {
	file := files[0]
	return append(b.commands(file),
		b.memlane("export, xprof.memory_viewer", "export", "--to", "xprof.memory_viewer", file),
		b.peers.script("xprof memory_viewer", "xprof", "memory_viewer", file),
	)
}

// grow measures a series, one size after the other.
func (b *bench) grow(ctx context.Context, s series) ([]growing, error) {
	var all []growing
	for i := range steps {
		var files []string
		for _, in := range s.inputs(i) {
			file, err := b.makeInput(ctx, in)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		commands := s.commands(files)
		if all == nil {
			all = make([]growing, len(commands))
		}
		if s.viewer > 0 && i >= s.viewer {
			commands = commands[:len(commands)-1]
		}
		costs, err := b.measure(ctx, commands, b.growthRuns(), b.growthRuns(), growthPatience)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(files[0])
		if err != nil {
			return nil, err
		}
		for j, c := range commands {
			all[j].command = c
			all[j].sizes = append(all[j].sizes, info.Size())
			all[j].costs = append(all[j].costs, costs[j])
		}
		b.drop(files)
	}
	return all, nil
}

// growthRuns returns how often each command runs: there are many, and a line through five points tolerates more noise than one ratio.
func (b *bench) growthRuns() int { return min(b.runs, 2) }

// growthPatience is how long the runs of a command on one size may take in total; after that it is not repeated.
const growthPatience = 10 * time.Second

// exponent fits y = a * size^e by least squares of the logarithms. It starts at the first size where y is at least floor, because the
// cost of starting a program would hide the growth. It uses at least three sizes.
func exponent(sizes []int64, y []float64, floor float64) (e float64, from int) {
	for from < len(y)-3 && y[from] < floor {
		from++
	}
	var n, sx, sy, sxx, sxy float64
	for i := from; i < len(y); i++ {
		x, y := math.Log(float64(sizes[i])), math.Log(max(y[i], 1e-9))
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx), from
}

// fitted returns the exponents of CPU and memory, over the sizes that take five times the CPU, or twice the memory, of a program that
// only starts.
func (g *growing) fitted(start cost) (cpu, memory float64) {
	var times, bytes []float64
	for _, c := range g.costs {
		times = append(times, c.cpu.Seconds())
		bytes = append(bytes, float64(c.rss))
	}
	cpu, _ = exponent(g.sizes, times, 5*start.cpu.Seconds())
	memory, _ = exponent(g.sizes, bytes, 2*float64(start.rss))
	return cpu, memory
}

// within returns whether exponents, rounded as in the table, hold the targets.
func within(cpu, memory float64) bool {
	return math.Round(cpu*100)/100 <= cpuExponent && math.Round(memory*100)/100 <= memoryExponent
}
