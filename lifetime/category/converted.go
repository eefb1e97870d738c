package category

import (
	"math"

	"github.com/memlane/memlane/lifetime"
)

// smallWeight is a size below which weights are not quantized: vectors.
const smallWeight = 4096

// converted returns the sizes of weights that forward passes convert to a type of twice or four times the size. There is a line
// that makes in one pass, for several sizes of weights, one or two temporaries of twice or four times the size for each weight:
// it converts and scales them. Results of operations may have such a size by chance, but hardly in these numbers and for several
// sizes.
func (a *analysis) converted(weights map[int64][]int) map[int64]bool {
	if a.convertedOnce != nil {
		return a.convertedOnce
	}
	a.convertedOnce = map[int64]bool{}
	asked := map[int64]bool{} // sizes of the results of conversions
	for size := range weights {
		if size >= smallWeight && size < math.MaxInt64/4 {
			asked[2*size], asked[4*size] = true, true
		}
	}
	isTemporary := func(p *verdict, size int64) bool { return p.Category == lifetime.TemporaryData && asked[size] }
	a.eachPass(isTemporary, func(made map[lifetime.Frame]map[int64]int) {
		for _, sizes := range made {
			for _, way := range [...]struct {
				factor int64
				each   int
			}{{2, 1}, {2, 2}, {4, 1}, {4, 2}} {
				var found []int64
				for size, n := range sizes {
					weight := size / way.factor
					if size%way.factor == 0 && weight >= smallWeight && n == way.each*len(weights[weight]) {
						found = append(found, weight)
					}
				}
				for _, size := range found {
					a.convertedOnce[size] = a.convertedOnce[size] || len(found) > 1
				}
			}
		}
	})
	return a.convertedOnce
}

// eachPass calls take with the number of buffers of each forward pass by line and size, of those that are asked for.
func (a *analysis) eachPass(asked func(p *verdict, size int64) bool, take func(made map[lifetime.Frame]map[int64]int)) {
	pass, made := int32(-1), map[lifetime.Frame]map[int64]int{}
	lines := map[lifetime.SiteID]lifetime.Frame{}
	for i := range a.s.Buffers {
		b := &a.s.Buffers[i]
		if a.out[i].Phase != lifetime.Forward || b.Edge&lifetime.BeginUnseen != 0 || !asked(&a.out[i], b.Requested) {
			continue
		}
		if a.next[i] != pass {
			take(made)
			pass = a.next[i]
			for _, sizes := range made {
				clear(sizes)
			}
		}
		line, ok := lines[b.Site]
		if !ok {
			line, _ = a.t.FrameOf(b.Site)
			lines[b.Site] = line
		}
		if made[line] == nil {
			made[line] = map[int64]int{}
		}
		made[line][b.Requested]++
	}
	take(made)
}
