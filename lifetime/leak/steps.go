package leak

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// steps are the iterations of the program's loop in the window.
type steps struct {
	begins   []int64 // instants
	inferred bool    // from the sites, because nothing marks them
}

// optimizerStep begins the text of an annotation that PyTorch makes by itself,
// one in each iteration.
const optimizerStep = "Optimizer.step#"

// minRecurrence is how many sites must have allocated equally often for that to
// be the number of iterations, and leastSteps is the least such number.
const (
	minRecurrence = 2
	leastSteps    = 4
)

// findSteps returns the iterations of the loop: the marks that are steps, else the steps
// of an optimizer, else what the recurrence of sites shows. It may find none.
func (p *Pass) findSteps() steps {
	for _, isStep := range []func(*lifetime.Mark) bool{
		func(m *lifetime.Mark) bool { return m.Kind == lifetime.Step },
		func(m *lifetime.Mark) bool { return strings.HasPrefix(m.Text, optimizerStep) },
	} {
		var begins []int64
		for i := range p.Space.Marks {
			if m := &p.Space.Marks[i]; isStep(m) {
				begins = append(begins, m.Begin)
			}
		}
		if len(begins) > 1 {
			return steps{begins, false}
		}
	}
	return steps{p.recurrence(), true}
}

// recurrence returns when the most common number of allocations of a site
// happened: most sites of a loop allocate once in each iteration, and those that
// do so twice or only now and then agree less with each other.
func (p *Pass) recurrence() []int64 {
	h := p.histories
	often := map[int]int{} // sites by number of allocations
	for _, site := range h.order {
		if n := len(h.sites[site].buffers); n >= leastSteps {
			often[n]++
		}
	}
	counts := slices.SortedFunc(maps.Keys(often), func(x, y int) int {
		return cmp.Or(cmp.Compare(often[y], often[x]), cmp.Compare(x, y))
	})
	if len(counts) == 0 || often[counts[0]] < minRecurrence {
		return nil
	}
	var first []int // the buffers of the site that begins the iteration
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

// markedSteps returns the marks that are steps.
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

// at returns which step an instant is in, from 0; -1 before the first.
func (s *steps) at(t int64) int {
	return sort.Search(len(s.begins), func(i int) bool { return s.begins[i] > t }) - 1
}
