package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// heading writes the text above the tables.
func (b *bench) heading(w io.Writer) {
	fmt.Fprintf(w, `# Performance

How fast memlane is, and how much memory it takes, beside the programs that read the same files. This page is what

    go run ./cmd/memlane-bench%s -o docs/%s

writes. It makes its inputs from seeds, runs memlane and its peers on them in turns, and installs nothing: a peer that is not there
is "not found". --python names an interpreter that has xprof, orjson and protobuf, --memory-viz PyTorch's _memory_viz.py.

`, b.flags, b.page)
	for _, fact := range append(machine(), "memlane "+memlaneVersion(b.peers.memlane)) {
		fmt.Fprintf(w, "- %s\n", fact)
	}
	if len(b.peers.versions) > 0 {
		fmt.Fprintf(w, "- %s\n", strings.Join(b.peers.versions, "; "))
	}
	if b.scale != 1 {
		fmt.Fprintf(w, "\n**Scale %g: the targets are set for scale 1**, where starting up, above all Python's, is a small part.\n", b.scale)
	}
}

// sideBySideHead stands above the rows that compare.
func (b *bench) sideBySideHead(w io.Writer) {
	fmt.Fprintf(w, `
## Side by side

CPU is user and system time of a whole command, from its start to its result, its children included; RSS is the peak of its resident
memory, MB are 10^6 bytes. Of %d runs in turns, %s, CPU and wall are the least and RSS is the most; what
takes over a minute is repeated less often, what takes less than ten seconds in all up to five times as often. "CPU x" and "RSS x" are how many times that of memlane a
command takes: of the first row of the same work. A limit is what no reader of the file can do without; limits are measured as
processes too, which take %s s and %s MB to do nothing. The model of a trace is %d bytes for a buffer and %d for a call, of which
the operators are found.

| Work | Command | CPU s | Wall s | RSS MB | CPU x | RSS x | Target | Holds |
|---|---|--:|--:|--:|--:|--:|---|---|
`, b.runs, pinned, seconds(b.floor.cpu), megabytes(b.floor.rss), bufferBytes, callBytes)
}

// workRows writes the rows of a work.
func workRows(w io.Writer, title string, rows []row, costs []cost) {
	for i, r := range rows {
		if i > 0 {
			title = ""
		}
		c := costs[i]
		if c.err != nil {
			fmt.Fprintf(w, "| %s | %s | %s | | | | | %s | %s |\n", title, r.name, reason(c.err), targetTexts(r.targets), unmeasured(r.targets))
			continue
		}
		cpuTimes, memoryTimes := "", ""
		if i > 0 && r.less == nil && costs[0].err == nil {
			cpuTimes, memoryTimes = times(ratio(c.cpu, costs[0].cpu)), times(ratio(c.rss, costs[0].rss))
		}
		wall, memory := seconds(c.wall), megabytes(c.rss)
		if r.less != nil {
			wall, memory = "", ""
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", title, r.name, seconds(c.cpu), wall, memory, cpuTimes, memoryTimes,
			targetTexts(r.targets), reached(r.targets, costs[0], c))
	}
}

func targetTexts(targets []target) string {
	var texts []string
	for _, t := range targets {
		texts = append(texts, t.text)
	}
	return strings.Join(texts, ", ")
}

func unmeasured(targets []target) string {
	if len(targets) == 0 {
		return ""
	}
	return "not measured"
}

// reached says of each target whether it holds, and by how much.
func reached(targets []target, own, it cost) string {
	if own.err != nil {
		return unmeasured(targets)
	}
	var texts []string
	for _, t := range targets {
		value, ok := t.check(own, it)
		texts = append(texts, choice(ok, "yes", "**no**")+" ("+value+")")
	}
	return strings.Join(texts, ", ")
}

// reason says in a cell why there are no figures.
func reason(err error) string {
	if errors.Is(err, errNotFound) {
		return "not found"
	}
	return "failed"
}

// growthHead stands above the rows of growth.
func (b *bench) growthHead(w io.Writer) {
	fmt.Fprintf(w, `
## How costs grow

CPU seconds / MB of resident memory at five sizes of file, and the exponents of the lines through their logarithms: 1 is in proportion
to the file. Nothing is subtracted; a line begins at the size from which on a command takes five times the CPU, or twice the memory, of
"memlane --help" (%s s, %s MB), and has three sizes at least. Of %d runs CPU is the least and RSS the most; what takes over
%v is run once. "diff" compares with a file of the same size from another seed. Targets: CPU at most %g, memory at most %g.

| File | Command | 1 | 2 | 3 | 4 | 5 | CPU exponent | Memory exponent | Holds |
|---|---|--:|--:|--:|--:|--:|---|---|---|
`, seconds(b.start.cpu), megabytes(b.start.rss), b.growthRuns(), growthPatience, cpuExponent, memoryExponent)
}

// growthRows writes the rows of a series, the sizes of its files first.
func (b *bench) growthRows(w io.Writer, title string, all []growing) {
	fmt.Fprintf(w, "| **%s** | *size, MB* |", title)
	for _, size := range all[0].sizes {
		fmt.Fprintf(w, " *%s* |", megabytes(size))
	}
	fmt.Fprintln(w, " | | |")
	for _, g := range all {
		fmt.Fprintf(w, "| | %s |", g.command.name)
		for i := range steps {
			fmt.Fprintf(w, " %s |", g.cell(i))
		}
		if g.failed() != nil {
			fmt.Fprintln(w, " | | |")
			continue
		}
		cpu, memory, cpuFrom, memoryFrom := g.fitted(b.start)
		holds := ""
		if g.command.args[0] == b.peers.memlane {
			holds = verdict(cpu, memory)
		}
		fmt.Fprintf(w, " %.2f (from %s MB) | %.2f (from %s MB) | %s |\n", cpu, megabytes(g.sizes[cpuFrom]), memory, megabytes(g.sizes[memoryFrom]), holds)
	}
}

// cell is what a command takes at size i.
func (g *growing) cell(i int) string {
	switch {
	case i >= len(g.costs):
		return ""
	case g.costs[i].err != nil:
		return reason(g.costs[i].err)
	}
	return seconds(g.costs[i].cpu) + " / " + megabytes(g.costs[i].rss)
}
