package leak

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

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
)

// conclude fills in what follows from the survivors of a leak.
func (l Look) conclude(f *Finding, p lifetime.Place) {
	n := float64(f.Amount.Count)
	// Few rises may be chance, many are a pattern.
	f.Confidence = n / (n + 4)
	if f.Severity == Info {
		f.Confidence /= 2
	}
	f.addEvidence("survivors", n)
	f.addEvidence("mean_bytes", float64(f.Amount.Bytes)/n)
	allocated, freed := int64(f.evidence("allocated")), int64(f.evidence("freed"))
	text := "%s keeps %s in %s%s; they pile up to the end of the window, and %s of its %s allocations there were freed"
	if f.Severity == Info {
		text = "%s may leak: it keeps %s in %s%s, and %s of its %s allocations were freed; record more steps to be sure"
	}
	f.Description = fmt.Sprintf(text, p, units.Exact(f.Amount.Bytes), times(int(f.Amount.Count), "buffer"), l.perStep(f), count(freed, "none"),
		units.Count(allocated))
	l.goOn(f, l.Space.Buffers[slices.Min(f.Kept)].Begin) // buffers stand in order of their beginnings
}

// perStep sets how much a leak grows in a step, and says so.
func (l Look) perStep(f *Finding) string {
	n := len(l.inSteps().begins)
	if n == 0 {
		return ""
	}
	f.BytesPerStep = float64(f.Amount.Requested) / float64(n)
	return fmt.Sprintf(", %s a step", units.Bytes(int64(math.Round(f.BytesPerStep))))
}

// goOn says since when a leak is there, how fast it grows, and how far that
// carries.
func (l Look) goOn(f *Finding, began int64) {
	in := l.inSteps()
	f.addEvidence("began_after", float64(began-l.Space.Begin))
	n := len(in.begins)
	f.addEvidence("steps", float64(n))
	if f.Severity == Warning && f.Amount.Bytes >= l.critical() {
		f.Severity = Critical
	}
	if n > 0 {
		first := max(in.at(began), 0)
		f.addEvidence("began_step", float64(first))
		if in.inferred {
			f.addEvidence("steps_inferred", 1)
		}
		if first > n/10 {
			f.Description += fmt.Sprintf("; it began in step %s of %s", units.Count(int64(first)), units.Count(int64(n)))
		}
		l.project(f, n, first)
	}
	if n > 0 && n < certainSteps {
		f.Confidence *= 0.5 + 0.5*float64(n)/certainSteps
		f.Description += fmt.Sprintf("; the window holds %s steps only, about %d make sure that it is no cache that fills",
			units.Count(int64(n)), certainSteps)
	}
	if released := l.released(began); released > 0 {
		f.addEvidence("outlives_releases", float64(released))
		f.Description += fmt.Sprintf("; they outlived %s of cached memory, so empty_cache does not help", times(released, "release"))
	}
}

func (l Look) critical() int64 {
	if l.Critical > 0 {
		return l.Critical
	}
	return criticalBytes
}

// project tells at which step a leak that goes on as since its first step
// reaches the limit of the device.
func (l Look) project(f *Finding, n, first int) {
	limit := l.limit()
	rate := float64(f.Amount.Bytes) / float64(n-first)
	if limit <= 0 || rate <= 0 {
		return
	}
	left := math.Max(0, float64(limit-l.atEnd()))
	at := float64(n) + math.Ceil(left/rate)
	f.addEvidence("limit", float64(limit))
	f.addEvidence("projected_step", at)
	f.Description += fmt.Sprintf("; at this rate the limit of %s is reached at about step %s", units.Bytes(limit), units.Count(int64(at)))
	if f.Severity == Warning && at-float64(n) <= math.Max(horizon, windows*float64(n)) {
		f.Severity = Critical
	}
}

// released counts the regions that the allocator gave back to the device after an
// instant: to empty_cache, or to make room.
func (l Look) released(since int64) (n int) {
	if l.releases == nil {
		l.releases = []int64{}
		for i := range l.Space.Regions {
			if r := &l.Space.Regions[i]; r.Edge&lifetime.EndOpen == 0 {
				l.releases = append(l.releases, r.End)
			}
		}
		slices.Sort(l.releases)
	}
	return len(l.releases) - sort.Search(len(l.releases), func(i int) bool { return l.releases[i] > since })
}

func times(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return units.Count(int64(n)) + " " + what + "s"
}

// causeGroup is leaks that have one cause: they keep something of the same steps.
type causeGroup struct {
	findings []*Finding
	steps    []int // sorted
}

// together is how much of the steps of two leaks must be the same for them to
// have one cause.
const together = 0.9

// explain finds out which leaks have one cause, and what it may be. A loss that
// is summed with its graph keeps several tensors of every step.
func (l Look) explain(findings []Finding) {
	var groups []*causeGroup
next:
	for i := range findings {
		f := &findings[i]
		kept := l.stepsOf(f.Kept)
		for _, g := range groups {
			if len(kept) >= leastSteps && g.findings[0].Severity > Info == (f.Severity > Info) && overlaps(g.steps, kept) {
				g.findings = append(g.findings, f)
				continue next
			}
		}
		groups = append(groups, &causeGroup{[]*Finding{f}, kept})
	}
	for _, g := range groups {
		largest := g.findings[0]
		for _, f := range g.findings {
			if f.Amount.Bytes > largest.Amount.Bytes {
				largest = f
			}
		}
		name := l.PlaceOf(largest.Sites[0]).String()
		likely := l.likely(g)
		for _, f := range g.findings {
			f.say("cause", name)
			f.say("likely_cause", likely.name)
			p := l.PlaceOf(f.Sites[0])
			if f == largest {
				f.Suggestions = []string{fmt.Sprintf(likely.fix, p)}
			} else {
				f.Suggestions = []string{fmt.Sprintf("%s keeps something of the same steps as %s: one reference may hold both, so look there first.", p, name)}
			}
		}
	}
}

// stepsOf returns the steps in which buffers began, sorted.
func (l Look) stepsOf(buffers []int) []int {
	steps := make([]int, len(buffers))
	for i, b := range buffers {
		steps[i] = l.inSteps().at(l.Space.Buffers[b].Begin)
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// overlaps reports whether of the steps of either both have a share of together.
// It stops where they differ too much: programs with thousands of leaks compare
// each with many others.
func overlaps(x, y []int) bool {
	differ := 0 // steps that one has
	most := (1 - together) * float64(len(x)+len(y))
	i, j := 0, 0
	for i < len(x) && j < len(y) && float64(differ) <= most {
		switch {
		case x[i] < y[j]:
			i++
			differ++
		case x[i] > y[j]:
			j++
			differ++
		default:
			i++
			j++
		}
	}
	differ += len(x) - i + len(y) - j
	both := (len(x) + len(y) - differ) / 2
	return float64(both)/float64(len(x)+len(y)-both) >= together
}

// cause is what may keep buffers alive, told by what the evidence carries.
type cause struct {
	name string
	fits func(l Look, g *causeGroup) bool
	fix  string // with a verb for the place
}

// causes are tried in order.
var causes = []cause{
	{"other allocations failed", Look.ofFailures,
		"A traceback keeps the variables of every frame that it went through: handle what %s raises outside of the except block, and del the exception."},
	{"gradients", Look.ofGradients,
		"The buffers of %s are gradients: call zero_grad(set_to_none=True) in every step, and keep no list of gradients or of their clones."},
	{"hook", Look.ofHooks,
		"%s is called by a hook: let it keep .detach().cpu() of what it stores, bound the store, and remove() the hook when it is no longer needed."},
	{"reference cycle", Look.ofCycles,
		"Part of what %s allocates is freed in bursts, as the garbage collector frees reference cycles: break the cycle with del or weakref."},
	{"graph of a loss", Look.ofGraphs,
		"Several tensors of each step are kept together with those of %s, as the graph of a loss keeps them: sum loss.item() or loss.detach() in place of " +
			"the loss, and run what needs no gradient under torch.no_grad()."},
	{"cache without bound", Look.ofCaches,
		"What %s keeps has another size each time, as a cache has that is keyed by shape: bound the cache, or round its keys up to a few sizes."},
}

// unknown is the cause where nothing tells.
var unknown = cause{name: "kept in a list, dict or attribute",
	fix: "Find what still refers to the tensors of %s: a list, dict or attribute that only grows, a loss that is summed without .item() or .detach(), a closure; " +
		"clear or bound it."}

// unknownOp is unknown in a profile of TensorFlow or JAX.
var unknownOp = cause{name: unknown.name,
	fix: "Find what still refers to the results of %s: a list or dict that only grows, a cache without bound, a metric that keeps tensors, a closure."}

func (l Look) likely(g *causeGroup) cause {
	if l.PlaceOf(g.findings[0].Sites[0]).Op != "" { // the other fixes are PyTorch's
		return unknownOp
	}
	for _, c := range causes {
		if c.fits(l, g) {
			return c
		}
	}
	return unknown
}

// ofFailures: something is kept of most allocations that failed.
func (l Look) ofFailures(g *causeGroup) bool {
	failed := 0
	for i := range l.Space.Marks {
		if l.Space.Marks[i].Kind == lifetime.OOM {
			failed++
		}
	}
	return failed >= minRises && 2*failed > len(g.steps)
}

// anyFrame reports whether a frame of the stacks of a group is as asked.
func (l Look) anyFrame(g *causeGroup, is func(f *lifetime.Frame) bool) bool {
	for _, f := range g.findings {
		for _, site := range f.Sites {
			for frame := range l.FramesOf(l.Sites[site].Stack) {
				if is(frame) {
					return true
				}
			}
		}
	}
	return false
}

// ofGradients: allocated by a backward pass.
func (l Look) ofGradients(g *causeGroup) bool {
	for _, f := range g.findings {
		if strings.EqualFold(l.Sites[f.Sites[0]].Region, "gradient") {
			return true
		}
	}
	return l.anyFrame(g, func(f *lifetime.Frame) bool {
		return strings.HasPrefix(f.Function, "backward: ") || strings.Contains(f.File, "/torch/autograd/") && strings.Contains(f.Function, "backward")
	})
}

// ofHooks: allocated below a hook of a module or tensor.
func (l Look) ofHooks(g *causeGroup) bool {
	return l.anyFrame(g, func(f *lifetime.Frame) bool {
		return strings.HasSuffix(f.File, "torch/utils/hooks.py") || f.Kind == lifetime.User && strings.Contains(strings.ToLower(f.Function), "hook")
	})
}

// ofCycles: what is freed of a site is freed in bursts.
func (l Look) ofCycles(g *causeGroup) bool {
	for _, f := range g.findings {
		for _, site := range f.Sites {
			if l.bursts(l.history().sites[site]).share >= burstShare {
				return true
			}
		}
	}
	return false
}

// ofGraphs: several places, or several lines below one module.
func (l Look) ofGraphs(g *causeGroup) bool { return len(g.findings) > 1 }

// ofCaches: hardly two buffers have one size.
func (l Look) ofCaches(g *causeGroup) bool {
	sizes, n := map[int64]bool{}, 0
	for _, f := range g.findings {
		for _, i := range f.Kept {
			sizes[l.Space.Buffers[i].Requested] = true
			n++
		}
	}
	return n >= leastSteps && 5*len(sizes) > 4*n
}
