package finding

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
)

// Cause is the probable reason why the buffers of a leak stay alive. The list is closed.
type Cause uint8

const (
	NoCause Cause = iota // for findings that are no leaks

	FailedAllocations // in the order in which causeOf tries them
	Hook
	Gradients
	ReferenceCycle
	LossGraph
	UnboundedCache
	Retracing
	Collection // if no other fits
	Concatenation
)

// causes describes each cause: its name, how a capture shows it, what to do, and whether a group of leaks fits.
// fits is nil for causes that causeOf never tries.
var causes = [...]struct {
	name, doc, advice string
	fits              func(*Pass, *causeGroup) bool
}{
	NoCause: {},
	FailedAllocations: {"other allocations failed", "the call site retained a buffer for most failed allocations",
		"Delete the exception: its traceback retains the variables of every frame.", (*Pass).ofFailures},
	Hook: {"hook", "a function that a module or autograd called as a hook allocated the buffers",
		"Store .detach().cpu() in the hook, limit how much it stores, remove() it.", (*Pass).ofHook},
	Gradients: {"gradients", "a backward pass allocated the buffers",
		"Call zero_grad(set_to_none=True) in every step; do not store gradients.", (*Pass).ofGradients},
	ReferenceCycle: {"reference cycle",
		"the call site frees other buffers in bursts and at various places, as the garbage collector frees cycles",
		"Break the reference cycle with del or weakref.", (*Pass).ofCycle},
	LossGraph: {"graph of autograd", "most of what forward passes save for their backward passes is retained, as in the graph of a loss " +
		"or of a hidden state",
		"Call .item() or .detach() on what outlives its step: a loss, a state.", (*Pass).ofGraph},
	UnboundedCache: {"cache without bound",
		"each buffer has a different size, none was freed, and new ones get rarer or match the sizes of another call site, " +
			"as in a cache keyed by shape",
		"Limit the size of the cache, or round its keys to a few sizes.", (*Pass).ofCache},
	Retracing: {"tf.function traced again", "new traces of a tf.function allocated the buffers; TensorFlow keeps each trace",
		"Pass tensors, not Python numbers; set reduce_retracing=True.", (*Pass).ofRetracing},
	Collection: {"kept in a list, dict or attribute", "something still refers to them, and no other cause fits",
		"Find with gc.get_referrers what keeps the buffers; clear or limit it.", func(*Pass, *causeGroup) bool { return true }},
	Concatenation: {"grown by concatenation", "each buffer is larger than the one it replaces",
		"Keep only the last entries, or allocate the full size once and fill it.", nil},
}

// String returns the name used in JSON.
func (c Cause) String() string { return causes[c].name }

// Doc returns how a capture shows the cause, in one line.
func (c Cause) Doc() string { return causes[c].doc }

// Advice returns what to do about the cause, in one line of at most 76 columns.
func (c Cause) Advice() string { return causes[c].advice }

// causeOf returns the first cause that fits a group of leaks. The causes before Retracing are specific to PyTorch, so
// leaks of operations (XProf) have none of them.
func (p *Pass) causeOf(g *causeGroup) Cause {
	c := FailedAllocations
	if site := g.findings[0].Sites[0]; p.PlaceOf(site).Op != "" && p.OperatorOf(p.Sites[site].Stack) == "" {
		c = Retracing
	}
	for !causes[c].fits(p, g) {
		c++
	}
	return c
}

// ofFailures reports whether at least half of the steps with a retained buffer have a failed allocation.
func (p *Pass) ofFailures(g *causeGroup) bool {
	failed, _ := p.failures()
	return failed >= minRises && 2*failed > len(g.steps)
}

// mostly reports whether is returns true for the sites of at least half of the bytes of a group.
func (g *causeGroup) mostly(p *Pass, is func(lifetime.SiteID) bool) bool {
	bytes, all := int64(0), int64(0)
	for _, f := range g.findings {
		for _, i := range f.Kept {
			b := &p.Space.Buffers[i]
			if all = units.AddSat(all, b.Size); is(b.Site) {
				bytes = units.AddSat(bytes, b.Size)
			}
		}
	}
	return bytes > 0 && bytes >= all/2
}

func (p *Pass) ofGradients(g *causeGroup) bool {
	return g.mostly(p, func(site lifetime.SiteID) bool {
		return strings.EqualFold(p.Sites[site].Region, "gradient") || p.isBackward(site)
	})
}

func (p *Pass) ofHook(g *causeGroup) bool {
	return g.mostly(p, func(site lifetime.SiteID) bool { return p.program.At(site).Hook })
}

// clearsGradients reports whether zero_grad freed a buffer: it then sets gradients to None.
func (p *Pass) clearsGradients() bool {
	return slices.ContainsFunc(p.Space.FreeSites, func(site lifetime.SiteID) bool {
		return site != 0 && p.program.At(site).All&program.ClearsGrads != 0
	})
}

// collections is the minimum number of places at which the garbage collector runs: it runs wherever the program makes
// objects.
const collections = 3

// ofCycle reports whether a site of the group frees its other buffers in bursts, at various places. A session that ends
// frees its buffers at once too, but always at the same place.
func (p *Pass) ofCycle(g *causeGroup) bool {
	return slices.ContainsFunc(g.findings, func(f *Finding) bool {
		return p.Space.FreeSites != nil && slices.ContainsFunc(f.Sites, func(site lifetime.SiteID) bool {
			return p.bursts(p.histories.sites[site]).share >= burstShare && len(p.freedAt([]lifetime.SiteID{site})) >= collections
		})
	})
}

const (
	manyTensors = 3   // least number of tensors of a graph in a step
	manyLines   = 4   // the same of lines of modules, if nothing tells what a backward pass needs
	savedShare  = 0.5 // least share of the results of a step that its graph retains
)

// ofGraph reports whether a group retains what passes with gradients save for their backward pass: several tensors of
// each step from several operations, and most of what is alive when a backward pass begins. Who stores results,
// features or batches retains a few of many, and who copies gradients or parameters does so in one line. A program
// without a backward pass may have switched gradients off; what a graph retains then comes from modules of many kinds,
// or from within functions.
func (p *Pass) ofGraph(g *causeGroup) bool {
	type operation struct {
		line lifetime.FrameID
		op   string
	}
	backward := slices.ContainsFunc(p.histories.order, p.isBackward)
	kept, keptOpen, lines, operations := 0, 0, map[lifetime.FrameID]bool{}, map[operation]bool{}
	for _, f := range g.findings {
		for _, i := range f.Kept {
			if site := p.Space.Buffers[i].Site; p.saved(i) {
				if kept++; !p.over[i] {
					keptOpen++
				}
				line := p.program.LineOf(site)
				operations[operation{line, cmp.Or(p.OperatorOf(p.Sites[site].Stack), p.Sites[site].Op)}] = true
				if at := p.program.At(site); at.InModule() && at.All&program.WithoutGrad == 0 {
					lines[line] = true
				}
			}
		}
	}
	if p.withinFunctions(g) {
		return true
	}
	enough := kept >= manyTensors*len(g.steps)
	if !enough || !backward || keptOpen == 0 || len(operations) < 2 { // nothing tells, or all passes are over
		return enough && len(lines) >= manyLines
	}
	if p.results == nil {
		p.results = p.resultsOf()
	}
	open := 0
	for _, step := range g.steps {
		open += p.results[step]
	}
	return float64(keptOpen) >= savedShare*float64(open)
}

// withinFunctions reports whether most steps retain two buffers of one call of torch.nn.functional, such as the mean
// beside the result of layer_norm. Only autograd holds what a function does not return.
func (p *Pass) withinFunctions(g *causeGroup) bool {
	pairs := 0
	for _, f := range g.findings {
		kept := slices.Clone(f.Kept)
		slices.Sort(kept)
		for k, i := range kept[1:] {
			site := p.Space.Buffers[i].Site
			if kept[k] == i-1 && p.Space.Buffers[i-1].Site == site && program.IsFunctional(&p.Frames[p.program.LineOf(site)]) {
				pairs++
			}
		}
	}
	return 2*pairs > len(g.steps)
}

// resultsOf returns how many results of each step are alive when the next backward pass begins: no others are saved for
// one. What is of a pass that is over says nothing about others.
func (p *Pass) resultsOf() map[int]int {
	all, s := map[int]int{}, p.Space
	backward := int64(math.MaxInt64) // begin of the next one
	for i := range slices.Backward(s.Buffers) {
		switch b := &s.Buffers[i]; {
		case b.Edge&lifetime.BeginUnseen != 0, !p.histories.Has(i), p.over[i]:
		case p.isBackward(b.Site):
			backward = b.Begin
		case (backward == math.MaxInt64 || b.Edge&lifetime.EndOpen != 0 || b.End > backward) && p.savesFor(b.Site):
			all[p.steps.At(b.Begin)]++
		}
	}
	return all
}

// savesFor reports whether a site allocates results that a backward pass may need: not those of a backward pass, of an optimizer, or of
// a function without an operator that saves something.
func (p *Pass) savesFor(site lifetime.SiteID) bool {
	const other = program.LoadsData | program.Converting | program.Constructs | program.Cublas | program.CublasLt
	at := p.program.At(site)
	return at.Flags&other == 0 && !p.storing[site] && !at.Backward() && at.Within != program.InOptimizer
}

// saved reports whether a forward pass may have saved a buffer: a function that calls modules allocated it, or no
// backward pass freed what was saved beside it. Else it is data: a pass that is over keeps nothing.
func (p *Pass) saved(i int) bool {
	if p.over == nil {
		p.findOver()
	}
	site := p.Space.Buffers[i].Site
	return p.savesFor(site) && (!p.over[i] || p.computing[site])
}

type function struct{ name, file string }

func (p *Pass) functionOf(site lifetime.SiteID) function {
	f, _ := p.userFrame(site)
	return function{f.Function, f.File}
}

// findOver finds the functions that call modules, those that only copy, and the buffers of passes that are over: in their step, a backward
// pass after them frees some of them.
func (p *Pass) findOver() {
	s := p.Space
	n := len(p.histories.sites)
	p.over, p.computing, p.storing = make([]bool, len(s.Buffers)), make([]bool, n), make([]bool, n)
	sites := map[function][]lifetime.SiteID{}
	for _, site := range p.histories.order {
		in := p.functionOf(site)
		sites[in] = append(sites[in], site)
	}
	delete(sites, function{})
	for _, in := range sites {
		calls := slices.ContainsFunc(in, func(site lifetime.SiteID) bool { return p.program.At(site).InModule() })
		computes := slices.ContainsFunc(in, func(site lifetime.SiteID) bool {
			return program.OperatorOf(p.OperatorOf(p.Sites[site].Stack))&program.OpStores == 0
		})
		for _, site := range in {
			p.computing[site], p.storing[site] = calls, !calls && !computes
		}
	}
	for from, i := p.histories.older, p.histories.older; i < len(s.Buffers); i++ {
		if !p.isBackward(s.Buffers[i].Site) {
			continue
		}
		first, last := i, s.Buffers[i].Begin
		for ; i < len(s.Buffers) && (p.isBackward(s.Buffers[i].Site) || !p.histories.Has(i)); i++ {
			last = s.Buffers[i].Begin
		}
		freed := func(k int) bool { // before the last result of the backward pass, or later by a thread without Python
			b := &s.Buffers[k]
			return b.Edge&lifetime.EndOpen == 0 && b.End > s.Buffers[first].Begin && p.savesFor(b.Site) &&
				(b.End <= last || s.FreeSites != nil && s.FreeSites[k] == 0 && (i == len(s.Buffers) || b.End < s.Buffers[i].Begin))
		}
		step, over := p.steps.At(s.Buffers[first].Begin), false
		for from < first && p.steps.At(s.Buffers[from].Begin) != step {
			from++
		}
		for k := from; k < first && !over; k++ {
			over = freed(k)
		}
		for ; from < first; from++ {
			p.over[from] = over
		}
		from = i
	}
}

func (p *Pass) isBackward(site lifetime.SiteID) bool { return p.program.At(site).Backward() }

// leastSteps is the minimum number of steps from which sites with one cause retain buffers, and of buffers of a cache.
const leastSteps = 4

// misses is the value of Laplace's test below which the allocations of a cache get rarer, because its keys repeat.
const misses = -1

// ofCache reports whether no two allocations of the group have the same size, none was freed, and allocations get
// rarer, or there is one for each size of another call site. A list of results whose sizes vary grows in every step.
func (p *Pass) ofCache(g *causeGroup) bool {
	sizes, n := map[int64]bool{}, 0
	for _, f := range g.findings {
		for _, site := range f.Sites {
			h := p.histories.sites[site]
			if len(h.freed) > 0 {
				return false
			}
			for _, i := range h.buffers {
				sizes[p.Space.Buffers[i].Requested] = true
				n++
			}
		}
	}
	if n < leastSteps || len(sizes) < n {
		return false
	}
	all := p.merged(g.findings[0].Sites)
	return laplace(p.rises(all), p.histories.end.work) < misses || p.anyHasSizes(n)
}

// anyHasSizes reports whether a call site allocated more than n buffers, of n sizes.
func (p *Pass) anyHasSizes(n int) bool {
	return slices.ContainsFunc(p.histories.order, func(site lifetime.SiteID) bool {
		buffers := p.histories.sites[site].buffers
		if n < 2*leastSteps || len(buffers) <= n {
			return false
		}
		sizes := map[int64]bool{}
		for _, i := range buffers {
			sizes[p.Space.Buffers[i].Requested] = true
		}
		return len(sizes) == n
	})
}
