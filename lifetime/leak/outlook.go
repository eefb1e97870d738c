package leak

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

const (
	// criticalBytes makes a leak critical.
	criticalBytes = 1 << 30
	// certainSteps is how many iterations make a leak certain: caches of a few
	// dozen entries have filled by then.
	certainSteps = 50
	// horizon is the number of steps within which a leak that reaches the limit
	// of the device is critical, and windows the same in windows of this length.
	horizon = 1000
	windows = 10
	// early is the part of the steps in which a leak may begin without a word about it.
	early = 10
)

// outlook adds to a leak since when it grows, how fast, and how far that carries. It
// returns the parts of the description that say so, the most important first.
func (p *Pass) outlook(f *Finding, began int64) []string {
	n := len(p.steps.begins)
	f.add(figure(FigBeganAfter, began-p.Space.Begin), figure(FigSteps, n))
	if f.Severity == Warning && f.Amount.Bytes >= p.critical() {
		f.Severity = Critical
	}
	growth, few, limit := "it grows until the end of the recording", "", ""
	if n > 0 {
		first := max(p.steps.at(began), 0)
		f.add(figure(FigBeganStep, first))
		if p.steps.inferred {
			f.add(figure(FigInferred, 1))
		}
		growth, limit = p.growth(f, n, first), p.project(f, n, first)
	}
	if n > 0 && n < certainSteps {
		f.Confidence *= 0.5 + 0.5*float64(n)/certainSteps
		few = fmt.Sprintf("only %d steps were recorded; about %d are needed to rule out a cache that is still filling", n, certainSteps)
	}
	if f.Severity == Critical { // the limit may be why
		few, limit = limit, few
	}
	return []string{growth, few, limit, p.released(f, began)}
}

// growth sets how much a leak grows in a step, and says so.
func (p *Pass) growth(f *Finding, n, first int) string {
	f.BytesPerStep = float64(f.Amount.Requested) / float64(n)
	rate := units.Bytes(int64(math.Round(f.BytesPerStep)))
	if first > n/early {
		return fmt.Sprintf("from step %s of %s it grows %s per step on average", units.Count(int64(first)), units.Count(int64(n)), rate)
	}
	return fmt.Sprintf("it grows %s per step until the end of the recording", rate)
}

func (p *Pass) critical() int64 {
	if p.Critical > 0 {
		return p.Critical
	}
	return criticalBytes
}

// project says at which step a leak that goes on as since its first step reaches the
// limit of the device; "" where the limit is unknown.
func (p *Pass) project(f *Finding, n, first int) string {
	limit := p.limit()
	rate := float64(f.Amount.Bytes) / float64(n-first)
	if limit <= 0 || rate <= 0 {
		return ""
	}
	left := math.Max(0, float64(limit-p.atEnd()))
	at := float64(n) + math.Ceil(left/rate)
	f.add(figure(FigLimit, limit), figure(FigProjected, at))
	if f.Severity == Warning && at-float64(n) <= math.Max(horizon, windows*float64(n)) {
		f.Severity = Critical
	}
	return fmt.Sprintf("it reaches the limit of %s at about step %s", units.Bytes(limit), units.Count(int64(at)))
}

// released says how many regions the allocator gave back to the device after an
// instant, to empty_cache or to make room; "" for none.
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
	return fmt.Sprintf("empty_cache does not help: the buffers outlived %s of cached memory", units.Several(n, "release"))
}
