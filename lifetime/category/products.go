package category

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// products are the matrix products of a call of a root module. A layer makes N rows of one width of N rows of another, and its weight has an element for
// each pair of columns: bytes of input x bytes of result / bytes of weight is one number for all layers, N x N times the bytes of an element.
type products struct {
	lines   map[*frame.Frame]bool // of the function that the program calls
	results map[int64]int         // of products, by size
	last    int64                 // size of the last one
	pairs   map[pair]bool
	others  map[int64]int // of what may be a conversion, by size

	number uint64
	of     explanation
	used   map[int64]int // how many weights have a product of their own
	isCut  bool          // memory ran out in the call, or the recording ends in it
}

// pair is the sizes of a result and of what may be its input.
type pair struct{ input, result int64 }

// explanation has the sizes of the results that weights of a size may have.
type explanation map[int64][]int64

func (e explanation) has(result int64) bool {
	for _, results := range e {
		if slices.Contains(results, result) {
			return true
		}
	}
	return false
}

const (
	leastWeight = 4096    // bytes: smaller ones may have any size by chance
	recent      = 16      // what was made before a product and may be its input
	mostTried   = 1 << 18 // combinations of an input, a result and a weight
	mostCalls   = 64      // calls that differ in what they make
	small       = 0.01    // part of the bytes of all that may be weights, or of all results
)

// weightsOfProducts finds the weights that calls of modules multiply by. Each product needs a weight, so that one number must
// explain most of them; and each weight needs a product: a cache or a copy of such a size is one too many.
func (a *analysis) weightsOfProducts(z *sizes) {
	unknown, all := a.mayBeWeights()
	if a.trains || len(unknown) == 0 || len(all) < 2 {
		return
	}
	var m matching
	explained := map[int64]bool{}
	calls := a.explained(all)
	for _, p := range calls {
		p.addTo(&m, p.of)
		// a table that the call looks up has the size of its last weight
		m.add(1, func(weight int64) bool { return all[weight] == 2 && slices.Contains(p.of[weight], p.last) })
		for weight := range p.of {
			explained[weight] = true
		}
	}
	used := m.match(all)
	isMore := func(weight int64) bool { return used[weight] < all[weight] }
	if len(calls) == 1 && calls[0].isCut && calls[0].endsInLayer(all) {
		isMore = func(int64) bool { return false }
	}
	for _, p := range calls {
		hasMore := slices.ContainsFunc(slices.Collect(maps.Keys(p.of)), func(weight int64) bool { return isMore(weight) && all[weight] > 2 })
		for weight := range p.of {
			if hasMore || isMore(weight) || p.converts(all) {
				delete(explained, weight)
			}
		}
	}
	for weight := range explained {
		z.mark(multiplied, unknown[weight])
	}
}

// endsInLayer reports whether layers that a call did not reach explain all weights without a product: each size has a multiple of one number of layers. The
// products are those of at least three layers, each of which makes the same results, and of a part of the next one.
func (p *products) endsInLayer(weights map[int64]int) bool {
	layers, of := 0, map[int64]int{}
	for weight := range p.of {
		if n := weights[weight]; n > 2 {
			of[weight] = n
			for layers, n = n, layers; n != 0; {
				layers, n = n, layers%n
			}
		}
	}
	for reached := layers - 1; reached > 2; reached-- {
		var m matching
		p.addTo(&m, p.of)
		part := map[int64]int{}
		for weight, n := range of {
			part[weight] = n / layers * reached
		}
		if sum(m.match(part)) == sum(part) {
			for result, n := range p.results {
				if n > 2 && n%reached > n/reached && p.of.has(result) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// explained returns the calls whose products a number explains, but for those that another one of the module contains: that for the next token of a text.
func (a *analysis) explained(weights map[int64]int) (calls []*products) {
	all := slices.DeleteFunc(a.multiplied(), func(p *products) bool { return !p.explain(weights) })
	slices.SortStableFunc(all, func(p, q *products) int { return cmp.Compare(sum(q.used), sum(p.used)) })
	for _, p := range all {
		isPartOf := func(whole *products) bool { return shareAny(p.lines, whole.lines) && shareAny(p.used, whole.used) }
		if !slices.ContainsFunc(calls, isPartOf) {
			calls = append(calls, p)
		}
	}
	return calls
}

func sum(counts map[int64]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// mayBeWeights returns what may be a weight, by size: what is older than all calls and is kept, if nothing tells what it is. all
// counts these and the parameters. What has few bytes in all is left out: its size may fit by chance. If frames tell which
// parameters were made in the recording, what else was made there is none: caches are made before the first call, too.
func (a *analysis) mayBeWeights() (unknown map[int64][]int, all map[int64]int) {
	unknown, all = map[int64][]int{}, map[int64]int{}
	total, isTold := 0.0, len(a.seenParameters()) > 0
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		size, isOld := b.Requested, b.Edge&lifetime.BeginUnseen != 0
		isOlder := isOld && p.Phase == purpose.UnknownPhase || !isOld && p.Phase == purpose.OtherPhase && a.firstSpanAfter(b.Begin)
		if !isOlder || size < leastWeight || b.Edge&lifetime.EndOpen == 0 || isTold && !isOld && p.Category == purpose.UnknownCategory {
			continue
		}
		switch p.Category {
		case purpose.UnknownCategory:
			unknown[size] = append(unknown[size], i)
			fallthrough
		case purpose.ModelParameter:
			all[size]++
			total += float64(size)
		}
	}
	maps.DeleteFunc(all, func(size int64, n int) bool { return float64(size*int64(n)) < small*total })
	return unknown, all
}

// multiplied returns the products of the calls of root modules; of calls that make the same, those of one.
func (a *analysis) multiplied() (calls []*products) {
	seen := map[uint64]bool{}
	for span, s := range a.spans {
		if s.phase != purpose.Forward || len(calls) == mostCalls {
			continue
		}
		made := slices.DeleteFunc(a.allocatedIn(span), func(i int) bool {
			f := a.at(&a.s.Buffers[i])
			return f.within != program.InModule || f.flags&(program.Cublas|program.CublasLt) != 0
		})
		if order := a.order(made); !seen[order] {
			seen[order] = true
			if p := a.productsOf(made); len(p.results) > 0 {
				p.isCut = len(a.failedIn(span)) > 0 || span+1 == len(a.spans) && !a.over
				calls = append(calls, p)
			}
		}
	}
	return calls
}

// productsOf returns the products among buffers of a call, in order. An input is one of the last that were made.
func (a *analysis) productsOf(made []int) *products {
	p := &products{lines: map[*frame.Frame]bool{}, results: map[int64]int{}, pairs: map[pair]bool{}, others: map[int64]int{}}
	for k, i := range made {
		b := &a.s.Buffers[i]
		f, size, op := a.at(b), b.Requested, a.t.Sites[b.Site].Op
		p.lines[a.r.Inside(f.path, f.rootCall)] = true
		switch {
		case a.isAutocastCopy(i), a.out[i].Category == purpose.Workspace: // in the line of a product
		case f.flags&program.Multiplies != 0:
			inputs := slices.DeleteFunc(slices.Clone(made[max(0, k-recent):k]), func(x int) bool { return a.s.Buffers[x].End <= b.Begin })
			for _, x := range inputs {
				p.pairs[pair{a.s.Buffers[x].Requested, size}] = true
			}
			if len(inputs) > 0 { // else the program made the input
				p.results[size]++
				p.last = size
			}
		case op == "" || op == "aten::to":
			p.others[size]++
		}
	}
	return p
}

// explain finds the number of a call that gives most products a weight of their own, and then most bytes of weights a product. It
// reports whether it explains two sizes and a third of the products: attention multiplies, too.
func (p *products) explain(weights map[int64]int) bool {
	if len(p.pairs)*len(weights) > mostTried {
		return false
	}
	by := map[uint64]explanation{}
	for of := range p.pairs {
		for weight := range weights {
			number, ok := rows(of.input, of.result, weight)
			if !ok {
				continue
			}
			if by[number] == nil {
				by[number] = explanation{}
			}
			by[number][weight] = append(by[number][weight], of.result)
		}
	}
	all, total := 0, int64(0)
	for result, n := range p.results {
		total += result * int64(n)
	}
	for result, n := range p.results {
		if float64(result*int64(n)) < small*float64(total) {
			continue // a mask in the line of a fused layer
		}
		if m := weights[2*result]; n > m || 2*n < m { // autocast copies weights to 16 bits in the lines of their products
			all += n
		}
	}
	type score struct{ products, bytes int64 }
	best := score{products: int64(all) / 3}
	for _, number := range slices.Sorted(maps.Keys(by)) {
		var m matching
		p.addTo(&m, by[number])
		used, of := m.match(weights), score{}
		for weight, n := range used {
			of.products += int64(n)
			of.bytes += weight * int64(n)
		}
		if len(used) > 1 && cmp.Or(cmp.Compare(of.products, best.products), cmp.Compare(of.bytes, best.bytes)) > 0 {
			p.number, p.of, p.used, best = number, by[number], used, of
		}
	}
	return p.of != nil
}

func (p *products) addTo(m *matching, of explanation) {
	for _, result := range slices.Sorted(maps.Keys(p.results)) {
		m.add(p.results[result], func(weight int64) bool { return slices.Contains(of[weight], result) })
	}
}

// rows returns input x result / weight. ok reports whether that is a square or twice a square: N x N times 4, 2 or, if autocast copies the weight, 1 byte.
func rows(input, result, weight int64) (number uint64, ok bool) {
	high, low := bits.Mul64(uint64(input), uint64(result))
	if high >= uint64(weight) {
		return 0, false
	}
	number, rest := bits.Div64(high, low, uint64(weight))
	isSquare := func(n uint64) bool {
		root := uint64(math.Round(math.Sqrt(float64(n))))
		return root*root == n
	}
	return number, rest == 0 && (isSquare(number) || number%2 == 0 && isSquare(number/2))
}

func shareAny[K comparable, V any](x, y map[K]V) bool {
	for k := range x {
		if _, ok := y[k]; ok {
			return true
		}
	}
	return false
}

// converts reports whether a call makes something of twice, or four times, the size of each weight: the weights have elements of
// 8 bits, which are buffers of modules, and are converted for their products.
func (p *products) converts(weights map[int64]int) bool {
	for _, times := range []int64{2, 4} {
		all := true
		for size := range p.of {
			all = all && (weights[size] <= 2 || p.others[times*size] >= weights[size])
		}
		if all {
			return true
		}
	}
	return false
}

// matching gives each weight a product of its own, where that is possible.
type matching struct {
	left []int // by kind of product: how many have no weight yet
	fits []func(weight int64) bool
	has  []map[int64]int // by kind of product: weights of a size that have one
}

func (m *matching) add(n int, fits func(weight int64) bool) {
	m.left, m.fits, m.has = append(m.left, n), append(m.fits, fits), append(m.has, map[int64]int{})
}

// match returns how many weights of each size get a product, larger ones first.
func (m *matching) match(weights map[int64]int) map[int64]int {
	used := map[int64]int{}
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(weights))) {
		for want := weights[size]; want > 0; {
			n := m.give(size, want, map[int64]bool{})
			if n == 0 {
				break
			}
			used[size] += n
			want -= n
		}
	}
	return used
}

// give gives up to n weights of a size a product, and weights of other sizes another one for it if need be.
func (m *matching) give(size int64, n int, tried map[int64]bool) int {
	tried[size] = true
	for k := range m.left {
		if given := min(n, m.left[k]); given > 0 && m.fits[k](size) {
			m.left[k] -= given
			m.has[k][size] += given
			return given
		}
	}
	for k := range m.left {
		if !m.fits[k](size) {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(m.has[k])) {
			if has := m.has[k][other]; has > 0 && !tried[other] {
				if moved := m.give(other, min(n, has), tried); moved > 0 {
					m.has[k][other] -= moved
					m.has[k][size] += moved
					return moved
				}
			}
		}
	}
	return 0
}
