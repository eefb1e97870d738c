package whatif

import (
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Why parameters cannot be chosen by name.
const (
	unnamed  = "the names of parameters are not recorded: record with memlane.record"
	notNamed = "no parameter has such a name; memlane peak --by name lists them"
)

// freeze lets parameters with some names get no gradients. Their gradients, and what the optimizer keeps and makes for them, go; what only
// their gradients need is not saved; and the backward pass ends at the first parameter that still gets a gradient.
func (m *model) freeze(globs string) string {
	frozen, rest, named := m.named(globs)
	switch {
	case !named:
		return unnamed
	case len(frozen) == 0:
		return notNamed
	case len(rest) == 0:
		return "nothing would be trained: use no_grad"
	}
	return m.freezeThese(frozen)
}

// named returns the parameters whose names match one of globs, and the others. named is false if no name of one is recorded.
func (m *model) named(globs string) (matched, rest []*buffer, named bool) {
	for _, w := range m.weights() {
		name := m.nameOf(w)
		named = named || name != ""
		if name != "" && matches(globs, name) {
			matched = append(matched, w)
		} else {
			rest = append(rest, w)
		}
	}
	return matched, rest, named
}

func matches(globs, name string) bool {
	return slices.ContainsFunc(strings.Split(globs, "|"), func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
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
	end       int // of the backward pass that is left
}

func (f *freezer) pass() {
	last := f.lastGradient()
	f.end = f.m.passes[f.k].end
	stays := 0 // of backward: the last one
	for i, b := range f.backward {
		if b.begin.event <= last {
			stays = i
			continue
		}
		f.end = min(f.end, b.begin.event)
		if b.category != purpose.Workspace || b.isFreed() { // libraries keep one for the products that are left
			f.gone[b] = true
		}
	}
	// The first operation with a gradient computes none of its input.
	if i := max(f.m.skipSums(f.backward, stays, -1), 0); i > 0 && f.backward[i].category == purpose.Gradient {
		if input := f.backward[i-1]; f.m.isOfInput(input, f.backward[i]) && input.end.event > last {
			f.gone[input] = true
		}
	}
	f.uses = f.m.lastUses(f.k)
	f.free(f.end, noEvent)
	for _, w := range f.frozen {
		if g := f.gradients[w]; g != nil && g.begin.event < f.end {
			f.gone[g] = true
			f.freeFor(w, g)
		}
	}
	for i, b := range f.backward { // a factor that is no parameter may get no gradient either
		isFactor := b.begin.event < f.end && f.m.op(b) == sumOp && b.category != purpose.Gradient
		if i+1 < len(f.backward) && isFactor && f.m.isProduct(f.backward, i-1, f.backward[i+1].begin.event) {
			f.m.less += sizeOf(f.dying(b.begin.event, f.backward[i+1].begin.event))
		}
	}
}

// lastGradient returns when the last gradient is made that is still needed.
func (f *freezer) lastGradient() (last int) {
	trained := map[int64]bool{}
	for w, g := range f.gradients {
		if !slices.Contains(f.frozen, w) {
			last = max(last, g.begin.event)
			trained[g.size] = g.size > smallest
		}
	}
	forward := f.m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward })
	for _, b := range f.backward {
		if b.category == purpose.TemporaryData && trained[b.size] && !forward[b.size] { // a further use of a parameter
			last = max(last, b.begin.event)
		}
	}
	return last
}

// freeFor frees what only gradient g of parameter w needs.
func (f *freezer) freeFor(w, g *buffer) {
	m := f.m
	at, _, end := m.nodeOf(f.backward, w, g)
	end = min(end, m.passes[f.k].end)
	summed := m.skipSums(f.backward, at, -1)
	switch op := m.op(g); {
	case op == sumOp && m.isProduct(f.backward, summed, end): // the scale of a normalization in Python: its other factor was saved for it
		f.gone[f.backward[summed]] = true
		f.free(g.begin.event, end)
	case g.size <= smallWeight || op == sumOp || m.does(g, program.OpNorm):
	case op == "":
		m.less += sizeOf(f.dying(g.begin.event, end)) // it is not known whether the program needs it
	default:
		f.free(g.begin.event, end)
	}
}

// free ends what dies between two events with its last use.
func (f *freezer) free(from, to int) {
	for _, b := range f.dying(from, to) {
		if use, isKnown := f.uses[b]; isKnown && use.compare(b.end) < 0 {
			f.m.until(b, use)
		}
	}
}

func (f *freezer) dying(from, to int) []*buffer {
	return filter(f.m.ofPass(f.k), func(b *buffer) bool { return b.saved && b.diesWithin(from, to) })
}
