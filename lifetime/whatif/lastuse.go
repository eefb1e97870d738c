package whatif

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/purpose"
)

// Before and after an event, in fractions of one.
const (
	before = -0.4
	after  = 0.5
)

// lastUses returns where each buffer that autograd keeps in pass k would end if nothing kept it:
//   - an inner buffer of an operation ends with it; the same buffers several times in a row are as many operations, as in a loop;
//   - a result ends when the next operation has its buffers; if that is in a deeper function of the program, the result is an argument, and
//     ends when that function returns;
//   - a sum lives until the same statement makes the next one;
//   - the output of a block that repeats lives until the next one's.
func (m *model) lastUses(k int, units []unit) map[*buffer]float64 {
	p := &m.passes[k]
	var all []*buffer
	for _, b := range m.forward(k) {
		if b.category != purpose.Workspace {
			all = append(all, b)
		}
	}
	starts := map[*buffer]bool{}
	for _, u := range units {
		starts[u[0]] = true
	}
	uses := map[*buffer]float64{}
	ends := m.operations(all)
	same := func(i, j int) bool { return ends[i] == ends[j] }
	for q, b := range all {
		if !b.saved && !b.dropped {
			continue
		}
		r := ends[q]
		if r == len(all) {
			uses[b] = p.back
			continue
		}
		result := r == q+1
		if m.isNorm(b) { // its first buffer is the result, the others are its statistics
			result = q == 0 || !same(q-1, q)
		}
		if !result {
			uses[b] = all[r].begin.n + before
			continue
		}
		t := ends[r] - 1
		uses[b] = all[t].begin.n + after
		if depth := m.deeper(b, all[r]); depth > 0 {
			for t = r; t+1 < len(all) && m.under(all[t+1], all[r], depth) && !starts[all[t+1]]; {
				t++
			}
			uses[b] = p.back
			if t+1 < len(all) {
				uses[b] = all[t+1].begin.n + before
			}
		}
	}
	m.keepSums(all, uses)
	m.keepOutputs(all, units, uses)
	return uses
}

// operations returns for each buffer where the operation that made it has its last one: the index after it.
func (m *model) operations(all []*buffer) (ends []int) {
	same := func(x, y *buffer) bool {
		return m.pieceOf(x).stack == m.pieceOf(y).stack && m.places[x.place].op == m.places[y.place].op
	}
	for len(ends) < len(all) {
		begin := len(ends)
		end := begin + 1
		for end < len(all) && same(all[end], all[begin]) {
			end++
		}
		run := all[begin:end]
		period, least := 1, 3 // two equal buffers may be of one operation
		for period < len(run) && (len(run)%period != 0 || len(run)/period < least || !repeats(run, period)) {
			period, least = period+1, 2
		}
		for i := range run {
			ends = append(ends, begin+(i/period+1)*period)
		}
	}
	return ends
}

// repeats reports whether the sizes of buffers have a period.
func repeats(all []*buffer, period int) bool {
	for i := period; i < len(all); i++ {
		if all[i].size != all[i-period].size {
			return false
		}
	}
	return true
}

func (m *model) isNorm(b *buffer) bool {
	p := &m.places[b.place]
	c := m.innermost(p)
	return strings.Contains(p.op, "norm") || c != nil && strings.Contains(c.function, "norm")
}

// deeper returns how many calls of next, from the outermost one, lead to a function of the program that the function which made b
// called; 0 if it called none.
func (m *model) deeper(b, next *buffer) int {
	p, q := &m.places[b.place], &m.places[next.place]
	n := p.user + 1
	if n == 0 || q.user+1 <= n || !m.below(q, p, n) {
		return 0
	}
	for j := n; j <= q.user; j++ {
		if m.calls[q.calls[j]].user {
			return j + 1
		}
	}
	return 0
}

// below reports whether q has the first n calls of p; the line of the last one does not count.
func (m *model) below(q, p *place, n int) bool {
	return len(q.calls) >= n && q.user >= n-1 && (n < 2 || q.paths[n-2] == p.paths[n-2]) &&
		m.calls[q.calls[n-1]].where == m.calls[p.calls[n-1]].where
}

// under is below for buffers.
func (m *model) under(b, of *buffer, n int) bool {
	return m.below(&m.places[b.place], &m.places[of.place], n)
}

// keepSums keeps sums that a function of the program makes until the same statement makes the next one.
func (m *model) keepSums(all []*buffer, uses map[*buffer]float64) {
	last := map[int32]float64{} // begin of the next one, by stack
	for _, b := range slices.Backward(all) {
		p := &m.places[b.place]
		if c := m.innermost(p); p.op != "add" || c == nil || !c.user {
			continue
		}
		if next, ok := last[p.stack()]; ok && b.saved {
			uses[b] = max(uses[b], next+after)
		}
		last[p.stack()] = b.begin.n
	}
}

// keepOutputs keeps the outputs of units, and what is added to them, until the next one.
func (m *model) keepOutputs(all []*buffer, units []unit, uses map[*buffer]float64) {
	if units == nil {
		return
	}
	sizes, stacks := map[int64]int{}, map[int32]bool{}
	for _, u := range units {
		out := u[len(u)-1]
		sizes[out.size]++
		stacks[m.places[out.place].stack()] = true
	}
	size, most := int64(0), 0
	for n, count := range sizes {
		if cmp.Or(cmp.Compare(count, most), cmp.Compare(n, size)) > 0 {
			size, most = n, count
		}
	}
	var last *buffer
	for _, b := range all {
		p := &m.places[b.place]
		c := m.innermost(p)
		if !b.saved || b.size != size || c == nil || !c.user {
			continue
		}
		if p.op != "add" && (!stacks[p.stack()] || p.op != "" && p.op != "add_" && p.op != "embedding") {
			continue
		}
		if last != nil {
			uses[last] = max(uses[last], b.begin.n+after)
		}
		last = b
	}
}

// unpacked returns a function that tells where a buffer that hooks brought back ends, if it ended at an event when autograd itself kept
// it: before the gradient of a bias is reduced.
func (m *model) unpacked(k int) func(end pos) pos {
	all := m.ofPass(k, purpose.Backward)
	return func(end pos) pos {
		j, _ := slices.BinarySearchFunc(all, end.n, func(b *buffer, n float64) int { return cmp.Compare(b.begin.n, n) })
		j--
		var sum *buffer
		for ; j >= 0 && m.places[all[j].place].op == "sum"; j-- {
			sum = all[j]
		}
		if sum != nil && j >= 0 && end.n-sum.begin.n < nearby {
			return at(sum.begin.n + before)
		}
		return end
	}
}

// nearby is the most events between a reduction and the end of what its node saved.
const nearby = 12

// deaths returns the ends of what autograd saves in pass k, in order.
func (m *model) deaths(k int) (all []float64) {
	for _, b := range m.inPass(k) {
		if int(b.pass) == k && b.saved {
			all = append(all, b.end.n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// consumed returns when a gradient that backward makes at event n has been added to another one: with the next end of what was saved. dead has those
// ends; after the last one it is where the pass, or what runs before the optimizer, ends.
func consumed(dead []float64, n, end float64) float64 {
	i, ok := slices.BinarySearch(dead, n)
	if ok {
		i++
	}
	if i == len(dead) {
		return max(end, n)
	}
	return dead[i]
}
