package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// section writes the heading of a section, and below it how it was made, where, and with which versions.
func (b *bench) section(w io.Writer, title string, versions []string) {
	facts := append(machine(), "memlane "+memlaneVersion(b.peers.memlane))
	fmt.Fprintf(w, "## %s\n\n    go run ./cmd/memlane-bench%s -o docs/evidence/speed.md\n\n%s.\n", title, b.flags, strings.Join(append(facts, versions...), "; "))
	if b.scale != 1 {
		fmt.Fprintf(w, "\n**Scale %g: the targets are set for scale 1**, where the cost of starting programs, above all Python, is small.\n", b.scale)
	}
}

// sideBySideHead writes the text above the comparison and the head of its table.
func (b *bench) sideBySideHead(w io.Writer) {
	b.section(w, "Side by side", b.peers.versions)
	fmt.Fprintf(w, `
- CPU is user and system time with all children, the least of %d runs in turns. Each is %s if nothing else is said. Memory is the most that was resident.
- Other programs have multiples of the first command of memlane. A limit is what every reader must do. An empty process takes %s s and %s MB.
- Missed targets are bold. The model of a trace may take %d bytes per buffer and %d per call.

| work | memlane: CPU, memory | beside it: times the CPU, times the memory |
|---|---|---|
`, b.runs, pinned, seconds(b.floor.cpu), megabytes(b.floor.rss), bufferBytes, callBytes)
}

// workRow writes the row of a work.
func (b *bench) workRow(w io.Writer, title string, rows []row, costs []cost) {
	var own, others []string
	for i, r := range rows {
		c, missed := costs[i], ""
		for _, t := range r.targets {
			if !t.holds(costs[0], c) {
				missed += choice(missed == "", " **(", ", ") + t.text
			}
		}
		missed += choice(missed == "", "", ")**")
		switch name, isOwn := strings.CutPrefix(r.name, "memlane "); {
		case c.err != nil:
			others = append(others, r.name+": "+reason(c.err))
			continue
		case r.less != nil:
			own = append(own, r.name+": "+seconds(c.cpu)+" s"+missed)
		case isOwn:
			own = append(own, fmt.Sprintf("`%s`: %s s, %s MB%s", name, seconds(c.cpu), megabytes(c.rss), missed))
		case costs[0].err == nil:
			others = append(others, fmt.Sprintf("%s: %s, %s%s", r.name, times(ratio(c.cpu, costs[0].cpu)), times(ratio(c.rss, costs[0].rss)), missed))
		}
	}
	fmt.Fprintf(w, "| %s | %s | %s |\n", title, strings.Join(own, "; "), strings.Join(others, "; "))
}

// beside is the cost of a row of memlane, and that of the last release.
type beside struct {
	work, name string
	now, last  cost
}

// mostWorse is the share of CPU or memory from which on a row is worse than in the last release.
const mostWorse = 1.1

// besideLast writes the commands that take more than in the last release.
func (b *bench) besideLast(w io.Writer) {
	if b.lasts == nil {
		return
	}
	var ratios []float64
	worse := "none"
	for _, pair := range b.lasts {
		if err := errors.Join(pair.now.err, pair.last.err); err != nil {
			continue
		}
		cpu, memory := ratio(pair.now.cpu, pair.last.cpu), ratio(pair.now.rss, pair.last.rss)
		ratios = append(ratios, cpu)
		if max(cpu, memory) >= mostWorse {
			worse = strings.TrimPrefix(worse+"; ", "none; ") + fmt.Sprintf("%s, `%s` (CPU %.2f, memory %.2f)", pair.work, strings.TrimPrefix(pair.name, "memlane "), cpu, memory)
		}
	}
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	fmt.Fprintf(w, "\nThe last release in the same runs: the CPU of the %d commands of memlane is %.2f of its in the median. 10 %% more CPU or memory, with a reason in CHANGELOG.md: %s.\n",
		len(ratios), ratios[len(ratios)/2], worse)
}

// reason returns the cell of a command without figures.
func reason(err error) string {
	if errors.Is(err, errNotFound) {
		return "not found"
	}
	return "failed"
}

// growthTable writes the exponents of commands by series.
func (b *bench) growthTable(w io.Writer, columns []column) {
	b.section(w, "How costs grow", nil)
	fmt.Fprintf(w, `
The exponents of CPU / memory over five sizes of files: 1 is proportional to the file. Targets: CPU at most %g, memory at most %g; what is beyond is bold. A line
through the logarithms has at least three sizes. It begins at five times the CPU, or twice the memory, of `+"`memlane --help`"+` (%s s, %s MB).

| command |`, cpuExponent, memoryExponent, seconds(b.start.cpu), megabytes(b.start.rss))
	var names []string
	for _, c := range columns {
		sizes := c.all[0].sizes
		fmt.Fprintf(w, " %s, %s to %s MB |", c.title, megabytes(sizes[0]), megabytes(sizes[len(sizes)-1]))
		for _, g := range c.all {
			if !slices.Contains(names, g.command.name) {
				names = append(names, g.command.name)
			}
		}
	}
	fmt.Fprintln(w, "\n|---|"+strings.Repeat("---|", len(columns)))
	for _, name := range names {
		fmt.Fprintf(w, "| %s |", name)
		for _, c := range columns {
			cell := ""
			if i := slices.IndexFunc(c.all, func(g growing) bool { return g.command.name == name }); i >= 0 {
				cell = b.exponents(&c.all[i])
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
}

// exponents returns the cell of a command.
func (b *bench) exponents(g *growing) string {
	for _, c := range g.costs {
		if c.err != nil {
			return reason(c.err)
		}
	}
	cpu, memory := g.fitted(b.start)
	cell := fmt.Sprintf("%.2f / %.2f", cpu, memory)
	if g.command.args[0] == b.peers.memlane && !within(cpu, memory) {
		cell = "**" + cell + "**"
	}
	return cell
}
