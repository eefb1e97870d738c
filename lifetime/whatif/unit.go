package whatif

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// unit is the forward buffers of one call of a block that repeats, in order.
type unit []*buffer

// what a unit consists of.
type piece struct {
	stack int32
	op    string
	size  int64
}

func (m *model) pieceOf(b *buffer) piece {
	p := &m.places[b.place]
	return piece{p.stack(), p.op, b.size}
}

// enough is the share of the bytes that the best candidate has with which a deeper one is still preferred.
const enough = 0.85

// blocks returns the units of pass k, after what edits changed.
func (m *model) blocks(k int) []unit {
	m.settle()
	return m.units(k)
}

// units returns the blocks of pass k that repeat: below one function that is called in a loop, the sequence of stacks, operators and
// sizes has a period, perhaps after a first block that does a little more or less. Loops over the same function are of the same blocks.
func (m *model) units(k int) []unit {
	var all []*buffer
	for _, b := range m.forward(k) {
		if b.category != purpose.Workspace && !b.added {
			all = append(all, b)
		}
	}
	type prefix struct{ caller, where int32 }
	type candidate struct {
		depth int
		where int32
		all   []*buffer
	}
	number := map[prefix]int{}
	var candidates []candidate
	for _, b := range all {
		p := &m.places[b.place]
		caller := int32(-1)
		for depth, c := range p.calls {
			key := prefix{caller, m.calls[c].where}
			n, ok := number[key]
			if !ok {
				n = len(candidates)
				number[key] = n
				candidates = append(candidates, candidate{depth: depth + 1, where: key.where})
			}
			candidates[n].all = append(candidates[n].all, b)
			caller = p.paths[depth]
		}
	}
	type found struct {
		candidate
		bytes         int64
		first, period int // buffers of the first block, and of the others
	}
	var fits []found
	most := int64(0)
	for _, c := range candidates {
		if first, period := periodOf(m, c.all); period > 0 {
			f := found{candidate: c, first: first, period: period}
			for _, b := range c.all {
				f.bytes += b.size
			}
			fits, most = append(fits, f), max(most, f.bytes)
		}
	}
	best := found{candidate: candidate{depth: -1}}
	for _, f := range fits {
		if float64(f.bytes) >= enough*float64(most) && cmp.Or(cmp.Compare(f.depth, best.depth), cmp.Compare(f.bytes, best.bytes)) > 0 {
			best = f
		}
	}
	var units []unit
	for _, f := range fits {
		if f.depth != best.depth || f.where != best.where {
			continue
		}
		for from, to := 0, f.first; to <= len(f.all); from, to = to, to+f.period {
			units = append(units, unit(f.all[from:to]))
		}
	}
	slices.SortFunc(units, func(x, y unit) int { return x[0].begin.compare(y[0].begin) })
	return units
}

// holdMost reports whether units hold half of what pass k saves from the first to the last one.
func (m *model) holdMost(k int, units []unit) bool {
	held, all := int64(0), int64(0)
	first, last := units[0], units[len(units)-1]
	for _, b := range m.forward(k) {
		if !b.saved || b.begin.n < first[0].begin.n || b.begin.n > last[len(last)-1].begin.n {
			continue
		}
		all += b.size
		j, found := slices.BinarySearchFunc(units, b.begin, func(u unit, at pos) int { return u[0].begin.compare(at) })
		if !found {
			j--
		}
		if of := units[j]; b.begin.n <= of[len(of)-1].begin.n {
			held += b.size
		}
	}
	return 2*held >= all
}

// leastRepeated is the least number of buffers in which a period is looked for.
const leastRepeated = 4

// periodOf returns how many buffers the first block has, and the others: the smallest number, of at least two, with which the others are
// equal. The first one may have half to twice as many. 0 = there are none.
func periodOf(m *model, all []*buffer) (first, period int) {
	n := len(all)
	if n < leastRepeated {
		return 0, 0
	}
	pieces := make([]piece, n)
	for i, b := range all {
		pieces[i] = m.pieceOf(b)
	}
	for p := 2; p <= n/2; p++ {
		if n%p == 0 && slices.Equal(pieces[:n-p], pieces[p:]) {
			return p, p
		}
	}
	for p := leastRepeated; p <= n/3; p++ {
		for _, first := range [...]int{n % p, n%p + p} {
			if 2*first >= p && slices.Equal(pieces[first:n-p], pieces[first+p:]) {
				return first, p
			}
		}
	}
	return 0, 0
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

// modules returns the calls of modules in pass k whose names match one of globs: of modules within each other, the outer one's.
func (m *model) modules(k int, globs string) (units []unit) {
	known := map[string]string{} // the module whose name matches, by the one that allocates
	last := ""
	for _, b := range m.forward(k) {
		if b.category == purpose.Workspace || b.added {
			continue
		}
		name := m.t.Purpose(m.s.PurposeOf(int(b.like))).Module
		of, ok := known[name]
		if !ok {
			of = outermost(name, globs)
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

// outermost returns the shortest path to a module, or to one that it is in, that matches one of globs; "" if none does.
func outermost(module, globs string) string {
	for i := 0; i <= len(module); i++ {
		if i == len(module) || module[i] == '.' {
			if matches(globs, module[:i]) {
				return module[:i]
			}
		}
	}
	return ""
}

// output returns what a unit hands on: its last buffer, or what a normalization at its end makes first.
func (m *model) output(u unit) *buffer {
	out := u[len(u)-1]
	if m.isNorm(out) {
		for _, b := range slices.Backward(u) {
			if p := m.pieceOf(b); p.stack != m.pieceOf(out).stack || p.op != m.places[out.place].op {
				break
			}
			out = b
		}
	}
	return out
}
