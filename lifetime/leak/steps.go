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
	inferred bool    // from the sites, as nothing marks them
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

// inSteps returns the iterations of the loop: what is marked as a step, else the
// steps of an optimizer, else what the recurrence of sites tells. It has none
// where neither tells.
func (l Look) inSteps() *steps {
	if l.steps != nil {
		return l.steps
	}
	l.steps = &steps{}
	for _, isStep := range []func(*lifetime.Mark) bool{
		func(m *lifetime.Mark) bool { return m.Kind == lifetime.Step },
		func(m *lifetime.Mark) bool { return strings.HasPrefix(m.Text, optimizerStep) },
	} {
		for i := range l.Space.Marks {
			if m := &l.Space.Marks[i]; isStep(m) {
				l.steps.begins = append(l.steps.begins, m.Begin)
			}
		}
		if len(l.steps.begins) > 1 {
			return l.steps
		}
		l.steps.begins = nil
	}
	if l.dynamic() {
		l.steps.begins, l.steps.inferred = l.recurrence(), true
	}
	return l.steps
}

// recurrence returns when the most common number of allocations of a site
// happened: most sites of a loop allocate once in each iteration, and those that
// do so twice or only now and then agree less with each other.
func (l Look) recurrence() []int64 {
	h := l.history()
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
		begins = append(begins, l.Space.Buffers[i].Begin)
	}
	return begins
}

// markedSteps returns the marks that are steps.
func (l Look) markedSteps() []lifetime.Mark {
	if l.marked == nil {
		l.marked = []lifetime.Mark{}
		for _, m := range l.Space.Marks {
			if m.Kind == lifetime.Step {
				l.marked = append(l.marked, m)
			}
		}
	}
	return l.marked
}

// at returns which step an instant is in, from 0; -1 before the first.
func (s *steps) at(t int64) int {
	return sort.Search(len(s.begins), func(i int) bool { return s.begins[i] > t }) - 1
}
