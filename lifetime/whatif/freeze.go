package whatif

import (
	"math"
	"path"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// freeze lets parameters with some names get no gradients. Their gradients, and what the optimizer keeps and makes for them, go; what only
// their gradients need is not saved; and the backward pass ends at the first parameter that still gets a gradient.
func (m *model) freeze(globs string) string {
	frozen, rest, named := m.frozen(globs)
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

// Why parameters cannot be chosen by name.
const (
	unnamed  = "the names of parameters are not recorded: record with memlane.record"
	notNamed = "no parameter has such a name; memlane peak --by name lists them"
)

// freezeThese is freeze of some parameters, which leave others.
func (m *model) freezeThese(frozen []*buffer) string {
	sizes := map[int64]int{}
	for _, w := range frozen {
		sizes[w.size]++
	}
	gone := map[*buffer]bool{}
	for _, i := range m.ofBlocks(sizes, 1) {
		if b := &m.buffers[i]; b.category != purpose.ModelParameter {
			gone[b] = true
		}
	}
	any := false
	for k := range m.passes {
		any = m.freezePass(k, frozen, gone) || any
	}
	if !any {
		return "no gradient of these parameters is known"
	}
	i := -1
	all := m.buffers
	m.drop(func(*buffer) bool { i++; return gone[&all[i]] })
	return ""
}

// frozen returns the parameters whose names match one of globs, and the others. named is false if no name of one is recorded.
func (m *model) frozen(globs string) (frozen, rest []*buffer, named bool) {
	for _, w := range m.weights() {
		is := false
		if h := m.t.HolderOf(m.s, int(w.like)); h != nil && h.Name != "" {
			named = true
			is = matches(globs, h.Name)
		}
		if is {
			frozen = append(frozen, w)
		} else {
			rest = append(rest, w)
		}
	}
	return frozen, rest, named
}

// matches reports whether a name matches one of globs.
func matches(globs, name string) bool {
	return slices.ContainsFunc(strings.Split(globs, "|"), func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
}

// freezePass ends what pass k no longer needs, and adds what it no longer makes to gone. It reports whether it knows gradients of frozen parameters.
func (m *model) freezePass(k int, frozen []*buffer, gone map[*buffer]bool) bool {
	p := m.passes[k]
	backward := m.ofPass(k, purpose.Backward)
	gradients := m.gradientsOf(backward, m.weights())
	last := 0.0 // gradient that is still made
	trained := map[int64]bool{}
	any := false
	for w, g := range gradients {
		if slices.Contains(frozen, w) {
			any = true
		} else {
			last, trained[g.size] = max(last, g.begin.n), g.size > smallest
		}
	}
	if !any {
		return false
	}
	forward := m.sizes(func(b *buffer) bool { return b.phase == purpose.Forward })
	for _, b := range backward {
		if b.category == purpose.TemporaryData && trained[b.size] && !forward[b.size] { // a further use of a parameter
			last = max(last, b.begin.n)
		}
	}
	ends := p.end // of the backward pass
	at := 0
	for i, b := range backward {
		if b.begin.n <= last {
			at = i
			continue
		}
		ends = min(ends, b.begin.n)
		if b.category != purpose.Workspace || b.end != never { // libraries keep one for the products that are left
			gone[b] = true
		}
	}
	// The first operation with a gradient computes none of its input.
	for at > 0 && m.places[backward[at].place].op == sumOp {
		at--
	}
	if at > 0 && backward[at].category == purpose.Gradient {
		if input := backward[at-1]; m.places[input.place].op == m.places[backward[at].place].op && input.category == purpose.TemporaryData && input.end.n > last {
			gone[input] = true
		}
	}
	uses := m.lastUses(k, m.units(k))
	free := func(from, to float64, sure bool) {
		for i := range m.inPass(k) {
			b := &m.inPass(k)[i]
			if int(b.pass) != k || !b.saved || b.end.n <= from || b.end.n >= to {
				continue
			}
			if !sure {
				m.less += b.size
			} else if end, ok := uses[b]; ok && end < b.end.n {
				m.until(b, pos{end, 0, 0, 0})
			}
		}
	}
	free(ends, math.Inf(1), true)
	for _, w := range frozen {
		g := gradients[w]
		if g == nil || g.begin.n >= ends {
			continue
		}
		gone[g] = true
		i := slices.Index(backward, g) + 1
		for i < len(backward) && m.places[backward[i].place].op == sumOp {
			i++
		}
		if i < len(backward) && backward[i].category == purpose.TemporaryData && m.places[backward[i].place].op == m.places[g.place].op && m.biasOf(w) == nil {
			i++ // mm makes the gradient of its input after that of its weight
		}
		next := p.end
		if i < len(backward) {
			next = backward[i].begin.n
		}
		before := slices.Index(backward, g) // what is summed up
		for before >= 0 && m.places[backward[before].place].op == sumOp {
			before--
		}
		switch op := m.places[g.place].op; {
		case op == sumOp && m.isProduct(backward, before, next): // the scale of a normalization in Python: its other factor was saved for it
			gone[backward[before]] = true
			free(g.begin.n, next, true)
		case g.size > smallWeight && op != sumOp && !strings.Contains(op, "norm"):
			free(g.begin.n, next, op != "")
		}
	}
	for i, b := range backward { // a factor that is no parameter may get no gradient either
		if i > 0 && b.begin.n < ends && m.places[b.place].op == sumOp && b.category != purpose.Gradient && i+1 < len(backward) &&
			m.isProduct(backward, i-1, backward[i+1].begin.n) {
			free(b.begin.n, backward[i+1].begin.n, false)
		}
	}
	return true
}

// isProduct reports whether buffer i of a backward pass is a product of two activations that ends before an event.
func (m *model) isProduct(backward []*buffer, i int, next float64) bool {
	return i >= 0 && m.places[backward[i].place].op == "mul" && backward[i].end.n < next
}

// sumOp reduces a gradient to that of a bias.
const sumOp = "sum"

// gradientsOf returns the gradients that a backward pass makes of parameters, by parameter: those of parameters of equal sizes come in reverse.
func (m *model) gradientsOf(backward, weights []*buffer) map[*buffer]*buffer {
	bySize := map[int64][]*buffer{}
	for _, b := range backward {
		if b.category == purpose.Gradient {
			bySize[b.size] = append(bySize[b.size], b)
		}
	}
	of := map[*buffer]*buffer{}
	for _, w := range weights {
		if all := bySize[w.size]; len(all) > 0 {
			of[w], bySize[w.size] = all[len(all)-1], all[:len(all)-1]
		}
	}
	return of
}
