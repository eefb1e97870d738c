package whatif

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Why parameters cannot be chosen by name.
const unnamed = "the names of parameters are not recorded: record with memlane.record"

// freeze lets parameters with some names get no gradients. Their gradients, and what the optimizer keeps and makes for them, go; what only
// their gradients need is not saved; and the backward pass ends at the first parameter that still gets a gradient.
func (m *model) freeze(globs string) string {
	frozen, rest, named := m.named(globs)
	switch {
	case !named:
		return unnamed
	case len(frozen) == 0:
		return m.notNamed(globs)
	case len(rest) == 0:
		return "nothing would be trained: use no_grad"
	}
	return m.freezeUnnamed(frozen)
}

// freezeUnnamed is freezeThese where some of the rest have no name: what lies between two parameters that are meant is likely meant too, and the range
// goes from those that are named to all that may be meant.
func (m *model) freezeUnnamed(frozen []*buffer) string {
	isFrozen := map[int32]bool{}
	for _, w := range frozen {
		isFrozen[w.like] = true
	}
	likely, all := maps.Clone(isFrozen), maps.Clone(isFrozen)
	weights, last := m.weights(), -1 // the last one with a name
	for i, w := range weights {
		if m.nameOf(w) == "" {
			all[w.like] = true
			continue
		}
		for _, between := range weights[last+1 : i] {
			if isFrozen[w.like] && (last < 0 || isFrozen[weights[last].like]) {
				likely[between.like] = true
			}
		}
		last = i
	}
	of := func(m *model, of map[int32]bool) []*buffer {
		return filter(m.weights(), func(w *buffer) bool { return of[w.like] })
	}
	if len(all) == len(frozen) {
		return m.freezeThese(frozen)
	}
	others := []*model{m.clone(), m.clone()}
	refused := m.freezeThese(of(m, likely))
	for i, meant := range []map[int32]bool{isFrozen, all} {
		if chosen := of(others[i], meant); len(chosen) == len(weights) {
			others[i].noGrad("")
		} else {
			others[i].freezeThese(chosen)
		}
		m.leaveOpen(others[i])
	}
	return refused
}

// notNamed says that no parameter has a name, and which is nearest.
func (m *model) notNamed(globs string) string {
	nearest, best := "", 0
	for _, w := range m.weights() {
		for glob := range strings.SplitSeq(globs, "|") {
			name, glob := m.nameOf(w), strings.Trim(glob, "*")
			if i := longestShared(name, glob); i > best {
				nearest, best = name, i
			}
		}
	}
	if best < leastShared {
		return "no parameter has such a name; memlane peak --by name lists them"
	}
	return "no parameter has such a name; the nearest is " + nearest
}

// leastShared is how many letters a name shares with what was given at least to be told.
const leastShared = 3

// longestShared returns how many letters in a row of what was given are in a name at most, from the start or after a dot.
func longestShared(name, given string) (most int) {
	for i := range len(given) {
		for n := len(given) - i; n > most && (i == 0 || given[i-1] == '.'); n-- {
			if strings.Contains(name, given[i:i+n]) {
				most = n
			}
		}
	}
	return most
}

// named returns the parameters whose names match one of globs, and the others. named is false if no name of one is recorded.
func (m *model) named(globs string) (matched, rest []*buffer, named bool) {
	for _, w := range m.weights() {
		name := m.nameOf(w)
		named = named || name != ""
		if name != "" && Matches(globs, name) {
			matched = append(matched, w)
		} else {
			rest = append(rest, w)
		}
	}
	return matched, rest, named
}

// Matches reports whether a name is one of globs. Names of arguments may have brackets.
func Matches(globs, name string) bool {
	return slices.ContainsFunc(strings.Split(globs, "|"), func(glob string) bool { ok, _ := path.Match(glob, name); return ok || glob == name })
}

// freezeThese is freeze of some parameters, which leave others.
func (m *model) freezeThese(frozen []*buffer) string {
	gone := map[*buffer]bool{}
	for _, b := range m.ofBlocks(numbersOf(frozen), 1) {
		gone[b] = b.category != purpose.ModelParameter
	}
	any := false
	for k := range m.passes {
		f := freezer{m: m, k: k, frozen: frozen, gone: gone, backward: m.backward(k)}
		f.gradients = m.gradientsOf(f.backward, m.weights())
		if slices.ContainsFunc(frozen, func(w *buffer) bool { return f.gradients[w] != nil }) {
			any = true
			f.pass()
		}
	}
	if !any {
		return "no gradient of these parameters is known"
	}
	m.drop(func(b *buffer) bool { return gone[b] })
	return ""
}

// freezer changes one pass.
type freezer struct {
	m         *model
	k         int
	frozen    []*buffer
	gone      map[*buffer]bool // what is no longer made
	backward  []*buffer
	gradients map[*buffer]*buffer // of parameters
	uses      map[*buffer]moment
	forward   map[int64]bool // sizes of what the forward pass has
	end       int            // of the backward pass that is left
}

func (f *freezer) pass() {
	needed := f.needed(f.frozen)
	last := f.nodeEnd(slices.Max(needed))
	f.end = f.m.passes[f.k].end
	for _, b := range f.backward {
		if b.begin.event <= last {
			continue
		}
		f.end = min(f.end, b.begin.event)
		if b.category != purpose.Workspace || b.isFreed() { // libraries keep one for the products that are left
			f.gone[b] = true
		}
	}
	f.uses = f.m.lastUses(f.k, nil)
	f.free(f.end, noEvent)
	f.forward = f.m.sizes(func(b *buffer) bool {
		return int(b.pass) == f.k && b.phase != purpose.Backward && b.size > smallest && !b.isScratch()
	})
	for i := range needed[1:] {
		f.branch(f.nodeEnd(needed[i]), needed[i+1])
	}
	for _, w := range f.frozen {
		if g := f.gradients[w]; g != nil && g.begin.event < f.end {
			f.gone[g] = true
			f.freeFor(w, g)
		}
	}
}

// branch takes away the nodes of a branch that ends between two gradients that are needed, if it begins with data: the first of its parameters, all frozen, has a node
// that makes no gradient of its input, nothing of the size of what the forward pass has. What outlives the branch is a gradient for what is left: nodes up to it stay.
func (f *freezer) branch(from, to int) {
	m, first := f.m, -1
	for i, b := range f.backward {
		if b.begin.event > from && b.begin.event < to && b.category == purpose.Gradient && m.op(b) != sumOp {
			first = i
		}
	}
	if first < 0 {
		return
	}
	isOf := func(i int) bool { return m.op(f.backward[i]) == m.op(f.backward[first]) || m.isSum(f.backward, i) }
	begin, next := first, first
	for begin > 0 && isOf(begin-1) {
		begin--
	}
	for next < len(f.backward) && isOf(next) {
		next++
	}
	ofInput := func(b *buffer) bool { return m.isOfInput(b, f.backward[first]) && f.forward[b.size] }
	if next == len(f.backward) || slices.ContainsFunc(f.backward[begin:next], ofInput) {
		return
	}
	end := f.backward[next].begin.event
	for _, b := range f.backward[:next] {
		if b.category == purpose.TemporaryData && b.size > smallest && b.end.event > end {
			from = max(from, b.begin.event)
		}
	}
	for _, b := range f.backward[:next] {
		if b.begin.event > from && (b.category != purpose.Workspace || b.isFreed()) {
			f.gone[b] = true
		}
	}
	f.free(from, end)
}

// needed returns when the backward pass begins, and then when gradients are made that are needed if some parameters are frozen. What has the size of one is of a further use of a
// parameter, if the operator of its gradient makes it, or that is a sum; where operators are not recorded, the other reading takes it for one.
func (f *freezer) needed(frozen []*buffer) []int {
	all, trained := []int{f.m.passes[f.k].backward}, map[kind]bool{}
	for w, g := range f.gradients {
		if !slices.Contains(frozen, w) {
			all = append(all, g.begin.event)
			trained[kind{f.m.op(g), g.size}] = g.size > smallest
		}
	}
	forward := f.m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward })
	for i, b := range f.backward {
		isCounter := b.size <= smallWeight && b.isScratch()
		isOf := f.m.op(b) != "" && f.m.op(b) != sumOp || f.m.apart && !isCounted(f.backward, i)
		if isOf && !isCounter && b.category == purpose.TemporaryData && (trained[kind{f.m.op(b), b.size}] || trained[kind{"add", b.size}]) && !forward[b.size] {
			all = append(all, b.begin.event)
		}
	}
	slices.Sort(all)
	return all
}

// nodeEnd returns when a node that makes a gradient has made its sums.
func (f *freezer) nodeEnd(event int) int {
	for i, b := range f.backward {
		if b.begin.event > event {
			return max(event, f.backward[max(f.m.skipSums(f.backward, i, 1)-1, 0)].begin.event)
		}
	}
	return event
}

// freeFor frees what only gradient g of parameter w needs.
func (f *freezer) freeFor(w, g *buffer) {
	m := f.m
	at, _, end := m.nodeOf(f.backward, w, g)
	end = min(end, m.passes[f.k].end)
	summed := m.skipSums(f.backward, at, -1)
	switch op := m.op(g); {
	case op == sumOp && summed >= 0 && m.op(f.backward[summed]) == "mul" && f.backward[summed].end.event < end: // the scale of a normalization in Python: its other factor was saved for it
		f.gone[f.backward[summed]] = true
		f.free(g.begin.event, end)
	case g.size <= smallWeight && !m.does(g, program.OpProduct) || op == sumOp || m.does(g, program.OpNorm):
	case op == "" && m.apart: // the gradient of the input may need it, too
	default:
		f.free(g.begin.event, end)
	}
}

// free ends what dies between two events with its last use.
func (f *freezer) free(from, to int) {
	for _, b := range f.m.ofPass(f.k) {
		if use, isKnown := f.uses[b]; isKnown && b.saved && b.diesWithin(from, to) && use.compare(b.end) < 0 {
			f.m.until(b, use)
		}
	}
}
