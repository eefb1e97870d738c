package finding

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/program"
)

// steps are the iterations of the loop of the program in the window.
type steps struct {
	begins   []int64 // instants
	inferred bool    // from call sites, because there are no marks
	end      int64   // instant at which the last marked step ends; 0 if the program marks no steps
	lost     int     // marked steps before those in begins, whose events the ring buffer dropped
}

const (
	// optimizerStep is the prefix of an annotation that PyTorch records in each iteration.
	optimizerStep = "Optimizer.step#"

	minRecurrence = 2 // minimum number of sites with equally many allocations
	leastSteps    = 4 // minimum number of inferred steps
	maxTimes      = 4 // maximum number of allocations of a site in an iteration
)

// markedLoop returns the marked steps, else the steps of an optimizer. There may be none.
func (p *Pass) markedLoop() steps {
	for _, isStep := range []func(*lifetime.Mark) bool{
		func(m *lifetime.Mark) bool { return m.Kind == lifetime.Step },
		func(m *lifetime.Mark) bool { return strings.HasPrefix(m.Text, optimizerStep) },
	} {
		var found steps
		for i := range p.Space.Marks {
			if m := &p.Space.Marks[i]; isStep(m) {
				found.begins = append(found.begins, m.Begin)
				if m.Kind == lifetime.Step {
					found.end = max(found.end, m.End)
				}
			}
		}
		if len(found.begins) > 1 {
			found.lost = p.lostSteps(found.begins)
			found.begins = found.begins[found.lost:]
			return found
		}
	}
	return steps{}
}

// lostSteps returns how many of the marked steps ended before the history begins, if a ring buffer dropped its beginning: marks
// are kept elsewhere and may reach back further. Rates count only the steps that the history covers.
func (p *Pass) lostSteps(begins []int64) int {
	if !slices.ContainsFunc(p.Losses, func(l loss.Loss) bool { return l.Reason == loss.RingOverflow }) {
		return 0
	}
	first := p.Space.End
	for i := range p.Space.Buffers {
		switch b := &p.Space.Buffers[i]; {
		case b.Edge&lifetime.BeginUnseen == 0:
			first = min(first, b.Begin)
		case b.Edge&(lifetime.EndOpen|lifetime.EndInferred) == 0:
			first = min(first, b.End)
		}
	}
	// The history begins in the last step that begins before its first event.
	return max(0, sort.Search(len(begins), func(i int) bool { return begins[i] > first })-1)
}

// recurrence infers the beginnings of steps from the most common number of allocations per site: most sites of a loop
// allocate once in each iteration, and the others agree less with each other. Call paths of a line count as one if most of them
// do not agree: a line with many may allocate equally often through several by chance.
func (p *Pass) recurrence() []int64 {
	h := p.histories
	paths, equal := map[lifetime.Place]int{}, map[lifetime.Place]map[int]int{} // of a line: all, and by number of allocations
	for _, site := range h.order {
		n, at := len(h.sites[site].buffers), p.PlaceOf(site)
		if n < leastSteps {
			continue
		}
		paths[at]++
		if equal[at] == nil {
			equal[at] = map[int]int{}
		}
		equal[at][n]++
	}
	often := map[int]int{} // number of sites by number of allocations
	for at, counts := range equal {
		for n, sites := range counts {
			if 2*sites < paths[at] {
				sites = 1
			}
			often[n] += sites
		}
	}
	all := maps.Clone(often)
	maps.DeleteFunc(often, func(n, sites int) bool { return sites < minRecurrence })
	counts := slices.SortedFunc(maps.Keys(often), func(x, y int) int {
		return cmp.Or(cmp.Compare(often[y], often[x]), cmp.Compare(inLoopOf(y, all), inLoopOf(x, all)), cmp.Compare(x, y))
	})
	counts = slices.DeleteFunc(counts, p.areLayers)
	if len(counts) == 0 {
		return nil
	}
	var first []int // buffers of the site that begins the iteration
	for _, site := range h.order {
		if b := h.sites[site].buffers; len(b) == counts[0] && (first == nil || b[0] < first[0]) {
			first = b
		}
	}
	var begins []int64
	for _, i := range first {
		begins = append(begins, p.Space.Buffers[i].Begin)
	}
	return begins
}

// inLoopOf returns the number of allocations of a loop with n iterations, in which some sites allocate several times. Of two loops,
// the one that does most is that of the program; the other may be what fills a cache.
func inLoopOf(n int, often map[int]int) (allocations int) {
	for times := 1; times <= maxTimes; times++ {
		allocations += n * times * often[n*times]
	}
	return allocations
}

// areLayers reports whether most sites of modules and of backward passes with a number of allocations loop within one pass, over its
// layers.
func (p *Pass) areLayers(n int) bool {
	looping, all := 0, 0
	for _, site := range p.histories.order {
		buffers := p.histories.sites[site].buffers
		if len(buffers) != n {
			continue
		}
		if p.program.At(site).All&program.CallsModule != 0 || p.Purpose(p.Space.PurposeOf(buffers[0])).Phase == lifetime.Backward {
			all++
			if p.inOneCall(site) {
				looping++
			}
		}
	}
	return 2*looping > all
}

// markedSteps returns the marks of steps.
func (p *Pass) markedSteps() []lifetime.Mark {
	if p.marked == nil {
		p.marked = []lifetime.Mark{}
		for _, m := range p.Space.Marks {
			if m.Kind == lifetime.Step {
				p.marked = append(p.marked, m)
			}
		}
	}
	return p.marked
}

// at returns the index of the step that contains an instant; -1 before the first.
func (s *steps) at(t int64) int {
	return sort.Search(len(s.begins), func(i int) bool { return s.begins[i] > t }) - 1
}

// StepsOf returns the instants at which the iterations of the program's loop begin in a space: marked, those of an optimizer that PyTorch
// annotates or that allocations tell, or inferred from call sites that allocate equally often. There are none if less than half of
// the allocations are between inferred ones: that is a loop within an iteration.
func StepsOf(c *lifetime.Capture, s *lifetime.Space) (begins []int64, inferred bool) {
	found := newPass(program.Of(c), s, Settings{}).steps
	if !found.inferred {
		return found.begins, false
	}
	if steps := c.TimelineOf(s).Steps; len(steps) > 1 {
		for _, step := range steps {
			begins = append(begins, step.Begin)
		}
		return begins, true
	}
	n := len(found.begins)
	if n == 0 || float64(allocatedBefore(s, found.begins[n-1])-allocatedBefore(s, found.begins[0])) < inLoop*float64(len(s.Buffers)) {
		return nil, true
	}
	return found.begins, true
}
