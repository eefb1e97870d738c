package category

import (
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

const (
	triedPasses = 16 // passes whose products are compared with sizes of weights: passes repeat
	triedInputs = 4  // allocations before a product that may be its input
	mostCalls   = 1 << 12
)

// normalizes are functions of torch/nn/functional.py that make a result, and then statistics.
var normalizes = map[string]bool{"layer_norm": true, "group_norm": true, "batch_norm": true, "instance_norm": true, "rms_norm": true}

// product is a call of a linear module: it multiplies its input, one of some buffers, by a weight.
type product struct {
	inputs [triedInputs]int64 // bytes, the latest first
	output int64
}

// over returns size(input k) * size(output) / divisor; ok is false without such an input, or with a remainder. With rows x in elements in
// the input, rows x out in the output and in x out in the weight, size(input) * size(output) = size(weight) * scale, where scale is
// rows * rows * bytes of an element: over(k, scale) is the size of the weight, over(k, size of the weight) the scale.
func (p *product) over(k int, divisor int64) (quotient int64, ok bool) {
	if p.inputs[k] == 0 || p.inputs[k] > math.MaxInt64/p.output {
		return 0, false
	}
	both := p.inputs[k] * p.output
	return both / divisor, both%divisor == 0
}

// products is what the calls of linear modules tell about weights from before the window, in a program that infers.
type products struct {
	least, most map[int64]int // how many weights of a size they multiply by: in one pass, and in those of all places that call a model
	layers      int           // it divides the numbers of weights of each size
}

// productsOf returns nil if the sizes of inputs and outputs do not tell the weights.
func (a *analysis) productsOf(old map[int64][]int) *products {
	weights := map[int64]int{}
	for size, buffers := range old {
		if size >= smallWeight {
			weights[size] = len(buffers)
		}
	}
	of := &products{least: map[int64]int{}, most: map[int64]int{}}
	byRoot := map[pathID]map[int64]int{}
	a.eachProducts(func(root pathID, calls []product) {
		if byRoot[root] == nil {
			byRoot[root] = map[int64]int{}
		}
		for size, n := range explained(calls, weights) {
			of.least[size] = max(of.least[size], n)
			byRoot[root][size] = max(byRoot[root][size], n)
		}
	})
	for _, counts := range byRoot {
		for size, n := range counts {
			of.most[size] += n
		}
	}
	for _, n := range of.least {
		if n > 1 { // and not the head
			of.layers = gcd(of.layers, n)
		}
	}
	if len(of.least) < 2 { // one size may fit by chance
		return nil
	}
	return of
}

func gcd(x, y int) int {
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// eachProducts calls take with the calls of linear modules in each of the first passes, and with the place that called the model.
func (a *analysis) eachProducts(take func(root pathID, calls []product)) {
	pass, passes, root := int32(-1), 0, pathID(0)
	var calls []product
	var before product
	last := pathID(0)
	for i := range a.s.Buffers {
		b, p := &a.s.Buffers[i], &a.out[i]
		if p.Phase != lifetime.Forward || b.Edge&lifetime.BeginUnseen != 0 || p.Category == lifetime.Workspace || b.Requested <= 0 {
			continue
		}
		f := a.at(b)
		if a.next[i] != pass {
			if len(calls) > 0 {
				take(root, calls)
				passes++
			}
			if passes == triedPasses {
				return
			}
			pass, root, calls, before = a.next[i], f.rootCall, nil, product{}
		}
		if f.flags&linear != 0 && len(calls) < mostCalls {
			before.output = b.Requested
			calls = append(calls, before)
		}
		if f.path == last && b.Requested < before.inputs[0] && normalizes[a.r.functionOf(f.path).name] {
			continue // its statistics
		}
		last = f.path
		copy(before.inputs[1:], before.inputs[:])
		before.inputs[0] = b.Requested
	}
	if len(calls) > 0 {
		take(root, calls)
	}
}

// explained returns how many weights of each size the calls of a pass multiply by, at the scale at which most calls, and nearly all,
// have a weight, and then at that whose inputs are nearest. It is nil if there is none, or several, as there may be if all sizes are
// powers of two.
func explained(calls []product, weights map[int64]int) (best map[int64]int) {
	scales := map[int64]bool{}
	for size := range weights {
		for k := range triedInputs {
			if scale, ok := calls[0].over(k, size); ok && isScale(scale) {
				scales[scale] = true
			}
		}
	}
	most, nearest := (len(calls)*9-1)/10, -1
	for scale := range scales {
		counts, found, distance := weightsAt(calls, weights, scale)
		switch {
		case found > most || found == most && distance < nearest:
			best, most, nearest = counts, found, distance
		case found == most && distance == nearest:
			best = nil
		}
	}
	return best
}

// isScale reports whether n is a square of rows times the bytes of an element of 16 or 32 bits.
func isScale(n int64) bool {
	return slices.ContainsFunc(elements, func(element int64) bool {
		rows := int64(math.Round(math.Sqrt(float64(n / element))))
		return rows > 0 && rows*rows*element == n
	})
}

// weightsAt counts the weights of the calls at a scale, the calls that have one, and the allocations between these and their inputs.
func weightsAt(calls []product, weights map[int64]int, scale int64) (counts map[int64]int, found, distance int) {
	counts = map[int64]int{}
	for i := range calls {
		for k := range triedInputs {
			if size, ok := calls[i].over(k, scale); ok && weights[size] > 0 {
				counts[size]++
				found++
				distance += k
				break
			}
		}
	}
	return counts, found, distance
}

// inferring divides the buffers from before the window of a program that infers.
func (a *analysis) inferring(z *sizes, old map[int64][]int) {
	weights, pools := a.productsOf(old), map[int64]bool{}
	if weights == nil {
		pools = a.poolSizes(old)
	}
	a.freedCaches(z)
	quantizedSizes := a.converted(old)
	for size, buffers := range old {
		if quantizedSizes[size] {
			z.mark(quantized, buffers)
		}
		if weights != nil {
			a.byProducts(z, weights, size, buffers, old)
		} else if !pools[size] {
			z.mark(noGradient, buffers)
		}
	}
}

// freedCaches finds several buffers of one size from before the window that the program frees after several calls of the model.
func (a *analysis) freedCaches(z *sizes) {
	freed := map[int64][]int{}
	for _, i := range a.candidates {
		if v := a.look(i); v.unseen && !v.open && v.follow(lifetime.Forward) >= longLived {
			freed[v.b.Requested] = append(freed[v.b.Requested], i)
		}
	}
	for _, buffers := range freed {
		if len(buffers) >= poolRun {
			z.mark(layerCache, buffers)
		}
	}
}

// byProducts divides the buffers of a size. Those that have no product, are as many as one or two for each layer, and lie above all
// weights, are what the program allocated for each layer when the weights were there: caches. Smaller buffers have segments of their own.
func (a *analysis) byProducts(z *sizes, weights *products, size int64, buffers []int, old map[int64][]int) {
	n := len(buffers)
	least := min(weights.least[size], n)
	most := min(max(weights.most[size], least), n)
	z.mark(multiplied, buffers[:least])
	rest := buffers[most:]
	isEach := weights.layers >= poolRun && (len(rest) == weights.layers || len(rest) == 2*weights.layers)
	if isEach && a.s.Buffers[rest[0]].Addr > a.highestWeight(weights, old, size > lowMiB) {
		if least == 0 {
			z.mark(layerCache, rest)
		}
		buffers = buffers[:most] // the rest of a size that weights have is unknown
	}
	z.mark(noGradient, buffers[least:])
}

// highestWeight returns the highest address of a weight that has a product, among large buffers or small ones.
func (a *analysis) highestWeight(weights *products, old map[int64][]int, large bool) (addr uint64) {
	for size, n := range weights.least {
		if buffers := old[size]; size > lowMiB == large && len(buffers) > 0 {
			addr = max(addr, a.s.Buffers[buffers[min(n, len(buffers))-1]].Addr)
		}
	}
	return addr
}
