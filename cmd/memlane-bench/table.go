package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// heading writes the text above the tables.
func (b *bench) heading(w io.Writer) {
	fmt.Fprintf(w, `# Performance

CPU time and memory of memlane, compared with the programs that read the same files. This command writes the page:

    go run ./cmd/memlane-bench%s -o docs/%s

It generates its inputs from seeds and runs memlane and its peers on them in turns. It installs nothing: a missing peer is "not found".
`+"`--python` gives an interpreter with xprof, orjson and protobuf. `--memory-viz`"+` gives PyTorch's _memory_viz.py. simdjson is the library
of the system, if it has a C++ compiler.

`, b.flags, b.page)
	for _, fact := range append(machine(), "memlane "+memlaneVersion(b.peers.memlane)) {
		fmt.Fprintf(w, "- %s\n", fact)
	}
	if len(b.peers.versions) > 0 {
		fmt.Fprintf(w, "- %s\n", strings.Join(b.peers.versions, "; "))
	}
	if b.scale != 1 {
		fmt.Fprintf(w, "\n**Scale %g: the targets are set for scale 1**, where the cost of starting programs, above all Python, is small.\n", b.scale)
	}
}

// sideBySideHead writes the text above the comparison and the head of its table.
func (b *bench) sideBySideHead(w io.Writer) {
	fmt.Fprintf(w, `
## Side by side

- CPU is the user and system time of a whole command with its children. RSS is its peak resident memory. MB are 10^6 bytes.
- CPU and wall are the minimum, and RSS the maximum, of %d runs in turns, %s if nothing else is said. A command of more than a minute runs less
  often, a command of less than ten seconds in total up to five times as often.
- "CPU x" and "RSS x" are multiples of the first row of the same work, which is memlane.
- A limit is the work that every reader of the file must do. Limits are measured as processes too; an empty process takes %s s and
  %s MB.
- The model of a trace takes %d bytes per buffer and %d per call. Operators are found from the calls.

| Work | Command | CPU s | Wall s | RSS MB | CPU x | RSS x | Target | Holds |
|---|---|--:|--:|--:|--:|--:|---|---|
`, b.runs, pinned, seconds(b.floor.cpu), megabytes(b.floor.rss), bufferBytes, callBytes)
}

// workRows writes the rows of a work; title is in the first.
func workRows(w io.Writer, title string, rows []row, costs []cost) {
	for i, r := range rows {
		if i > 0 {
			title = ""
		}
		c := costs[i]
		if c.err != nil {
			fmt.Fprintf(w, "| %s | %s | %s | | | | | %s | %s |\n", title, r.name, reason(c.err), targetTexts(r.targets), reached(r.targets, costs[0], c))
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

// beside is the cost of a row of memlane, and that of the last release.
type beside struct {
	work, name string
	now, last  cost
}

// mostWorse is the share of CPU or memory from which on a row is worse than in the last release.
const mostWorse = 1.1

// besideLast writes the table of all rows beside the last release.
func (b *bench) besideLast(w io.Writer) {
	if b.lasts == nil {
		return
	}
	fmt.Fprint(w, `
## Beside the last release

In the same runs. What takes 10 % more CPU or memory than it did is named in CHANGELOG.md, with its reason.

| Work | Command | CPU s | RSS MB | CPU s, last | RSS MB, last | CPU | RSS | Worse |
|---|---|--:|--:|--:|--:|--:|--:|---|
`)
	for _, of := range b.lasts {
		if err := errors.Join(of.now.err, of.last.err); err != nil {
			fmt.Fprintf(w, "| %s | %s | | | | | | | %s |\n", of.work, of.name, reason(err))
			continue
		}
		cpu, memory := ratio(of.now.cpu, of.last.cpu), ratio(of.now.rss, of.last.rss)
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %.2f | %.2f | %s |\n", of.work, of.name, seconds(of.now.cpu), megabytes(of.now.rss),
			seconds(of.last.cpu), megabytes(of.last.rss), cpu, memory, choice(max(cpu, memory) >= mostWorse, "**yes**", "no"))
	}
}

func targetTexts(targets []target) string {
	var texts []string
	for _, t := range targets {
		texts = append(texts, t.text)
	}
	return strings.Join(texts, ", ")
}

// reached returns whether each target holds, and the measured value.
func reached(targets []target, own, it cost) string {
	if len(targets) > 0 && errors.Join(own.err, it.err) != nil {
		return "not measured"
	}
	var texts []string
	for _, t := range targets {
		value, ok := t.check(own, it)
		texts = append(texts, choice(ok, "yes", "**no**")+" ("+value+")")
	}
	return strings.Join(texts, ", ")
}

// reason returns the cell of a command without figures.
func reason(err error) string {
	if errors.Is(err, errNotFound) {
		return "not found"
	}
	return "failed"
}

// growthHead writes the text above the series and the head of their table.
func (b *bench) growthHead(w io.Writer) {
	fmt.Fprintf(w, `
## How costs grow

Each cell is CPU seconds / MB of resident memory, for five file sizes. The exponents are the slopes of lines through the logarithms:
an exponent of 1 is proportional to the file.

- Nothing is subtracted. A line begins at the first size with five times the CPU, or twice the memory, of "memlane --help"
  (%s s, %s MB). It has at least three sizes.
- CPU is the minimum and RSS the maximum of %d runs. A command of more than %v runs once.
- "diff" compares with a file of the same size from another seed.
- Targets: CPU exponent at most %g, memory exponent at most %g.

| File | Command | 1 | 2 | 3 | 4 | 5 | CPU exponent | Memory exponent | Holds |
|---|---|--:|--:|--:|--:|--:|---|---|---|
`, seconds(b.start.cpu), megabytes(b.start.rss), b.growthRuns(), growthPatience, cpuExponent, memoryExponent)
}

// growthRows writes the rows of a series, beginning with the sizes of its files.
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
		if slices.ContainsFunc(g.costs, func(c cost) bool { return c.err != nil }) {
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

// cell returns the costs of a command at size i.
func (g *growing) cell(i int) string {
	switch {
	case i >= len(g.costs):
		return ""
	case g.costs[i].err != nil:
		return reason(g.costs[i].err)
	}
	return seconds(g.costs[i].cpu) + " / " + megabytes(g.costs[i].rss)
}
