package finding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

const (
	criticalBytes  = 1 << 30  // occupied bytes from which a leak is critical
	leastLeakBytes = 32 << 10 // occupied bytes below which a leak is not worth a warning
	certainSteps   = 50       // steps that make a leak certain: caches of a few dozen entries are full by then

	// A leak is critical if it reaches the limit of the device within horizon steps, or within windows times the
	// recorded steps.
	horizon = 1000
	windows = 10

	early = 10 // the text omits where a leak began if that is in the first tenth of the steps
)

// outlook adds evidence to a leak: since when and how fast it grows, and when it reaches the limit. It returns the same
// as parts of the text, the most important first. replaced is the size of the largest buffer that is copied into a
// larger one again and again, beside which it is in use; 0 = none is.
func (p *Pass) outlook(f *Finding, began, replaced int64) []string {
	n := len(p.steps.Begins)
	f.add(figure(FigBeganAfter, began-p.Space.Begin), figure(FigSteps, n))
	if f.Severity == Warning && f.Amount.Bytes >= p.critical() {
		f.Severity = Critical
	}
	growth, few, limit := "it grows until the recording ends", "", ""
	if n > 0 {
		first := max(p.steps.At(began), 0)
		f.add(figure(FigBeganStep, first+p.steps.Lost))
		if p.steps.Inferred() {
			f.add(figure(FigInferred, 1))
		}
		growth, limit = p.growth(f, n, first), p.project(f, n, first, replaced)
	}
	if n > 0 && n < certainSteps {
		few = fmt.Sprintf("only %d steps were recorded; about %d are needed to rule out a cache that is still filling", n, certainSteps)
	}
	if lost := p.steps.Lost; lost > 0 {
		few = fmt.Sprintf("the history begins at step %s of %s, the ring buffer dropped what was before",
			units.Count(int64(lost)), units.Count(int64(lost+n)))
	}
	if f.Severity == Critical { // perhaps because of the limit
		few, limit = limit, few
	}
	return []string{growth, few, limit, p.released(f, began)}
}

// undecidable reports whether a leak by number may as well be a cache or pool that is still filling: nothing marks the
// steps, fewer than enough buffers were retained, and no cause shows a leak.
func (p *Pass) undecidable(f *Finding) bool {
	return f.Amount.Count < enough && (len(p.steps.Begins) == 0 || p.steps.Inferred()) &&
		(f.Cause == Collection || f.Cause == UnboundedCache)
}

// growth sets BytesPerStep and returns it as a part of the text. What stacks retain of fewer than minRises steps in all, such as an evaluation
// after the loop, or what each run of it makes once, does not grow.
func (p *Pass) growth(f *Finding, n, first int) string {
	var few []int
	for _, site := range f.Sites {
		if kept := p.survivors(p.histories.sites[site]); len(p.stepsOf(kept)) < minRises {
			few = append(few, kept...)
		}
	}
	bytes := int64(0)
	for _, i := range few {
		bytes += p.Space.Buffers[i].Size
	}
	if len(p.stepsOf(few)) >= minRises || bytes >= f.Amount.Bytes { // many call paths, or all is of few steps
		bytes = 0
	}
	f.BytesPerStep = float64(f.Amount.Bytes-bytes) / float64(n)
	rate := units.Bytes(int64(math.Round(f.BytesPerStep)))
	if first > n/early {
		return fmt.Sprintf("it began at step %s of %s and grows %s per step on average over all steps",
			units.Count(int64(first+p.steps.Lost)), units.Count(int64(n+p.steps.Lost)), rate)
	}
	return fmt.Sprintf("it grows %s per step until the recording ends", rate)
}

func (p *Pass) critical() int64 { return cmp.Or(p.Critical, criticalBytes) }

func (p *Pass) leastLeak() int64 { return cmp.Or(p.Least, leastLeakBytes) }

// project returns, as a part of the text, the step in which a leak reaches the limit of the device at its rate since
// its first step; "" if the limit is unknown.
func (p *Pass) project(f *Finding, n, first int, replaced int64) string {
	limit := p.limit()
	rate := f.BytesPerStep * float64(n) / float64(n-first)
	if limit <= 0 || rate <= 0 {
		return ""
	}
	left := math.Max(0, float64(limit-p.atEnd()-replaced))
	more := math.Ceil(left / (rate * (1 + float64(replaced)/float64(f.Amount.Bytes))))
	at := float64(n+p.steps.Lost) + more
	f.add(figure(FigLimit, limit), figure(FigProjected, at))
	if f.Severity == Warning && more <= math.Max(horizon, windows*float64(n)) {
		f.Severity = Critical
	}
	return fmt.Sprintf("it reaches the capacity of %s at about step %s", units.Bytes(limit), units.Count(int64(at)))
}

// released returns, as a part of the text, how many regions the allocator returned to the device after an instant (for
// empty_cache, or to make room); "" for none.
func (p *Pass) released(f *Finding, since int64) string {
	if p.releases == nil {
		p.releases = []int64{}
		for i := range p.Space.Regions {
			if r := &p.Space.Regions[i]; r.Edge&lifetime.EndOpen == 0 {
				p.releases = append(p.releases, r.End)
			}
		}
		slices.Sort(p.releases)
	}
	n := len(p.releases) - sort.Search(len(p.releases), func(i int) bool { return p.releases[i] > since })
	if n == 0 {
		return ""
	}
	f.add(figure(FigOutlives, n))
	return fmt.Sprintf("empty_cache does not help: the buffers outlived %s of cached memory", units.Plural(n, "release"))
}
