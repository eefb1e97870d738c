package whatif

import (
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// unit is the forward buffers of one call of a block that repeats, or of a module, in order.
type unit []*buffer

func (u unit) first() *buffer { return u[0] }
func (u unit) last() *buffer  { return u[len(u)-1] }

// blocks returns the blocks of pass k that repeat, those that keep most for a backward pass, and all calls of their function: see program.CallPaths.Blocks.
func (m *model) blocks(k int) (blocks, calls []unit) {
	all := filter(m.computed(k), func(b *buffer) bool { return !b.added })
	site, size := func(i int) int32 { return all[i].site }, func(i int) int64 { return all[i].size }
	isKept := func(b *buffer) bool { return b.saved || b.dropped }
	keeps := slices.ContainsFunc(all, isKept)
	weight := func(i int) int64 {
		if keeps && !isKept(all[i]) {
			return 0
		}
		return all[i].size
	}
	unitsOf := func(of [][]int) (units []unit) {
		for _, made := range of {
			u := make(unit, len(made))
			for j, i := range made {
				u[j] = all[i]
			}
			units = append(units, u)
		}
		return units
	}
	ofBlocks, ofCalls := m.paths.Blocks(len(all), site, size, weight)
	return unitsOf(ofBlocks), unitsOf(ofCalls)
}

// callerOf returns the number of the line that calls a unit.
func (m *model) callerOf(u unit) int32 {
	return m.paths.CallerOf(len(u), func(i int) int32 { return u[i].site })
}

// recordsModules reports whether the recorder wrote which modules ran.
func (m *model) recordsModules() bool {
	isModule := func(k lifetime.Mark) bool {
		_, ok := program.ModuleName(k.Text)
		return ok && k.Kind == lifetime.Annotation
	}
	return slices.ContainsFunc(m.s.Marks, isModule) ||
		slices.ContainsFunc(m.t.Notes, func(note string) bool { return program.NotedModule(note) != "" })
}

// modules returns the calls of modules in pass k with some names: of modules within each other, the outer one's.
func (m *model) modules(k int, isMeant func(name string) bool) (units []unit) {
	known := map[string]string{} // the module that is meant, by the one that allocates
	last := ""
	for _, b := range m.computed(k) {
		if b.added {
			continue
		}
		name := m.module(b)
		of, isKnown := known[name]
		if !isKnown {
			of = outermost(name, isMeant)
			known[name] = of
		}
		switch {
		case of == "":
		case of == last:
			units[len(units)-1] = append(units[len(units)-1], b)
		default:
			units = append(units, unit{b})
		}
		last = of
	}
	return units
}

// outermost returns the shortest path to a module, or to one that it is in, that is meant; "" if none is.
func outermost(module string, isMeant func(name string) bool) string {
	for i := 0; i <= len(module); i++ {
		if (i == len(module) || module[i] == '.') && isMeant(module[:i]) {
			return module[:i]
		}
	}
	return ""
}

// output returns what a unit hands on: its last buffer, or what a normalization at its end makes first.
func (m *model) output(u unit) *buffer {
	out := u.last()
	if m.isNorm(out) {
		for _, b := range slices.Backward(u) {
			if !m.sameOperation(b, out) {
				break
			}
			out = b
		}
	}
	return out
}

// stretch is where a block that repeats runs in a pass: from begin to before until in the forward pass, and after back to done in the
// backward pass, in numbers of events.
type stretch struct{ begin, until, back, done int }

// stretches returns where the blocks of pass k run, each until the next one begins.
func (m *model) stretches(k int, blocks []unit) []stretch {
	all, p := make([]stretch, len(blocks)), &m.passes[k]
	last := p.backward // end of the backward pass of the blocks
	for j, block := range blocks {
		dies := noEvent // the first of what it saves, but its result
		for _, b := range block[:len(block)-1] {
			if b.saved {
				dies, last = min(dies, b.end.event), max(last, b.end.event)
			}
		}
		all[j] = stretch{begin: block.first().begin.event, until: p.backward, back: m.backwardBegins(k, block, dies, true)}
		if j > 0 {
			all[j-1].until, all[j].done = all[j].begin, all[j-1].back
		}
	}
	all[0].done = last
	return all
}

// backwardBegins returns when the backward pass of a unit of pass k begins, whose first saved buffer dies at an event: after the last death
// of what later units save. Nodes that saved nothing may still run then, such as those of indexes, so it is right before the node that frees the first
// ones: the last one before. Where operators are not recorded each may be a node, or all are of one: early.
func (m *model) backwardBegins(k int, u unit, dies int, early bool) int {
	begins := m.passes[k].backward
	for _, b := range m.ofPass(k) {
		if b.saved && b.begin.event >= u.last().begin.event && b.end.event < dies {
			begins = max(begins, b.end.event)
		}
	}
	if dies <= begins || dies >= m.passes[k].end {
		return begins
	}
	node := -1 // the last one before: what it makes has one operator
	var op string
	for _, b := range m.between(begins, dies) {
		switch {
		case b.phase != purpose.Backward || b.category == purpose.Workspace:
			continue
		case m.op(b) != op || op == "" && !early && !m.longest:
			node, op = b.begin.event-1, m.op(b)
		}
	}
	return max(begins, node)
}
