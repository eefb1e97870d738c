package finding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
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

// collections is the minimum number of places at which the garbage collector runs: it runs wherever the program makes objects.
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

// ofGraph reports whether a group retains what passes with gradients save for their backward pass: several tensors of each step from several operations,
// and most of what is alive when a backward pass begins. Who stores results, features or batches retains a few of many, and who copies gradients or
// parameters does so in one line. A program without a backward pass may have switched gradients off; what a graph retains then comes from modules of many
// kinds, or from within functions.
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

// causeGroup is a group of leaks that probably have one cause: see alike.
type causeGroup struct {
	findings []*Finding
	steps    []int    // in which the retained buffers of the first leak were allocated, sorted
	held     *Held    // what the recorder saw hold them; nil = nothing
	rare     bool     // few steps retain something
	graph    bool     // a graph may hold them
	by       Cause    // a hook or a backward pass allocated them, NoCause: neither
	in       function // the hook
}

// together is the minimum share of common steps of two leaks with one cause.
const together = 0.9

// explain groups leaks by cause and sets the probable cause of each group. Example: a summed loss whose graph retains several tensors of every step.
func (p *Pass) explain(findings []Finding) {
	for _, g := range p.causeGroups(findings) {
		largest := slices.MaxFunc(g.findings, func(x, y *Finding) int { return cmp.Compare(x.Amount.Bytes, y.Amount.Bytes) })
		place, cause := p.PlaceOf(largest.Sites[0]), p.causeOf(g)
		if g.held != nil {
			cause = g.heldCause()
		}
		for _, f := range g.findings {
			f.blame(cause, place)
			if f.Held != nil && largest.Held != nil { // by one variable
				f.Evidence[f.index(FigCausePlace)].How = min(f.Held[0].How, largest.Held[0].How)
			}
			if cause == Gradients && p.clearsGradients() {
				f.Suggestions = []string{"Do not store gradients: zero_grad frees the others."}
			}
		}
	}
}

// heldCause returns the cause that follows from the holders of a group: if the graph of a variable holds some, it holds the variable, too.
func (g *causeGroup) heldCause() (cause Cause) {
	for _, f := range g.findings {
		if f.Held == nil {
			continue
		}
		if one, _ := f.Held[0].cause(); cause == NoCause || one == LossGraph {
			cause = one
		}
	}
	return cause
}

// blame sets the cause of a finding. place is that of the largest finding with the same cause.
func (f *Finding) blame(cause Cause, place lifetime.Place) {
	f.Cause = cause
	f.add(textFigure(FigCausePlace, place.String()), textFigure(FigLikelyCause, cause.String()))
	f.Suggestions = []string{cause.Advice()}
}

// causeGroups groups leaks that are alike. What a graph may hold, but is none, are single leaks again.
func (p *Pass) causeGroups(findings []Finding) (all []*causeGroup) {
	var groups []*causeGroup
	for i := range findings {
		f := &findings[i]
		one := p.groupOf(f)
		at := slices.IndexFunc(groups, one.alike)
		if at < 0 {
			groups = append(groups, one)
			continue
		}
		g := groups[at]
		g.findings, g.held = append(g.findings, f), cmp.Or(g.held, one.held)
	}
	for _, g := range groups {
		if g.held != nil || g.rare || g.by != NoCause || p.causeOf(g) == LossGraph {
			all = append(all, g)
			continue
		}
		for _, f := range g.findings {
			all = append(all, p.groupOf(f))
		}
	}
	return all
}

func (p *Pass) groupOf(f *Finding) *causeGroup {
	g := &causeGroup{findings: []*Finding{f}, steps: p.stepsOf(f.Kept)}
	if f.Held = p.heldOf(f.Kept); f.Held != nil {
		g.held = &f.Held[0]
	}
	g.rare = 2*len(g.steps) <= len(p.steps.Begins)
	switch {
	case p.ofHook(g):
		g.by, g.in = Hook, p.functionOf(f.Sites[0])
	case p.ofGradients(g):
		g.by = Gradients
	default:
		saved := 0
		for _, i := range f.Kept {
			if p.saved(i) {
				saved++
			}
		}
		g.graph = 2*saved >= len(f.Kept)
	}
	return g
}

// alike reports whether a leak has the cause of a group. What the recorder saw hold them decides alone. Else they retain buffers from the same steps,
// which says little if most steps do: then one hook or backward pass allocated all, or a graph may hold all. Suspected and confirmed leaks stay apart.
func (g *causeGroup) alike(o *causeGroup) bool {
	switch {
	case g.findings[0].Severity > Info != (o.findings[0].Severity > Info):
		return false
	case g.held != nil && o.held != nil:
		return g.held.root() == o.held.root()
	case len(g.steps) < leastSteps || g.by != o.by || g.in != o.in || !overlaps(g.steps, o.steps):
		return false
	case g.held != nil || o.held != nil: // the recorder does not see all that a graph holds
		return g.graph && o.graph && cmp.Or(g.held, o.held).Kind == holder.ByGraph
	}
	return g.rare || g.by != NoCause || g.graph && o.graph
}

func (p *Pass) stepsOf(buffers []int) []int {
	steps := make([]int, len(buffers))
	for i, b := range buffers {
		steps[i] = p.steps.At(p.Space.Buffers[b].Begin)
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// overlaps reports whether two sorted lists of steps have enough in common. It stops early once they differ too much:
// programs with thousands of leaks compare each with many others.
func overlaps(x, y []int) bool {
	both, most := 0, (1-together)*float64(len(x)+len(y))
	for i, j := 0, 0; i < len(x) && j < len(y) && float64(i+j-2*both) <= most; {
		switch {
		case x[i] < y[j]:
			i++
		case x[i] > y[j]:
			j++
		default:
			i, j, both = i+1, j+1, both+1
		}
	}
	return float64(both)/float64(len(x)+len(y)-both) >= together
}

// graphBuilding is the range in which TensorFlow traces a tf.function (tensorflow/python/eager/polymorphic_function/tracing_compilation.py).
const graphBuilding = "tf.function-graph_building"

// traceOf returns the name of a trace of a tf.function, such as "__inference_step_217", without the number of the trace
// (tensorflow/python/eager/polymorphic_function/concrete_function.py); ok is false for other names.
func traceOf(name string) (function string, ok bool) {
	if !slices.ContainsFunc([]string{"__inference_", "__forward_", "__backward_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return "", false
	}
	function = strings.TrimRight(name, "0123456789")
	return function, len(function) < len(name) && strings.HasSuffix(function, "_")
}

// callers returns the number of distinct stacks of some sites. Traces of one tf.function are one: TensorFlow numbers
// them, so each would be another caller.
func (p *Pass) callers(sites []lifetime.SiteID) int {
	distinct := map[int]bool{}
	for _, site := range sites {
		distinct[p.traced.number(&p.Tables, p.Sites[site].Stack, func(f *frame.Frame) (string, bool) {
			if function, ok := traceOf(f.Function); ok {
				return function, true
			}
			return f.Function, true
		})] = true
	}
	return len(distinct)
}

// ofRetracing reports whether each leak of a group is of new traces of a tf.function: allocated while it is traced, or
// by its traces, several of which retain buffers.
func (p *Pass) ofRetracing(g *causeGroup) bool {
	return !slices.ContainsFunc(g.findings, func(f *Finding) bool {
		traces := map[string]bool{}
		for _, site := range f.Sites {
			if p.anyFrame(site, func(f *frame.Frame) bool { return f.Function == graphBuilding }) {
				return false
			}
			for f := range p.FramesOf(p.Sites[site].Stack) {
				if _, ok := traceOf(f.Function); ok {
					traces[f.Function] = true
				}
			}
		}
		return len(traces) < minRises
	})
}

// Held says what the recorder found to hold buffers of a finding.
type Held struct {
	By        string // the reference, with "*" for indexes
	Kind      holder.Kind
	Where     string // where the reference begins: a module or a call
	Container string // class of the list, dict and so on that it leads through; "" = none
	Count     int    // buffers that By holds, of Of that are alive at the end
	Of        int
	How       purpose.How
}

const (
	maxHeld   = 3    // holders that a text names
	leastHeld = 0.05 // share of the buffers that each but the first holds: the step that failed holds some, too
)

// heldOf returns what holds buffers that are alive at the end, most buffers first; none if it is not known for half of them.
func (p *Pass) heldOf(buffers []int) (all []Held) {
	index := map[string]int{}
	alive, known := 0, 0
	for _, i := range buffers {
		if p.Space.Buffers[i].Edge&lifetime.EndOpen == 0 {
			continue
		}
		alive++
		h := p.HolderOf(p.Space, i)
		if h == nil || h.Kind == holder.Unreached {
			continue
		}
		known++
		by := holder.FoldIndexes(h.By())
		keyed.At(index, &all, by, Held{By: by, Kind: h.Kind, Where: h.Where, Container: h.Container, How: purpose.Recorded}).Count++
	}
	if 2*known < alive {
		return nil
	}
	for i := range all {
		all[i].Of = alive
	}
	slices.SortStableFunc(all, func(x, y Held) int { return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.By, y.By)) })
	return all
}

// hold sets what holds the buffers of a leak: it is the cause, and comes first.
func (p *Pass) hold(f *Finding) {
	explained := f.Held != nil
	if f.Kind == KindLeak && !explained {
		f.Held = p.heldOf(f.Kept)
	}
	if f.Held == nil {
		return
	}
	named := f.Held[:min(len(f.Held), maxHeld)] // most first
	for n := len(named) - 1; n > 0 && float64(named[n].Count) < leastHeld*float64(named[n].Of); n-- {
		named = named[:n]
	}
	var texts, advice []string
	for i := range named {
		_, one := named[i].cause()
		if texts = append(texts, named[i].text()); !slices.Contains(advice, one) {
			advice = append(advice, one)
		}
	}
	if !explained {
		f.Cause, _ = named[0].cause()
	}
	if i := f.index(FigLikelyCause); i >= 0 {
		f.Evidence[i].Text, f.Evidence[i].How = f.Cause.String(), named[0].How
	}
	if !f.loads {
		f.Suggestions = advice
	}
	place := p.PlaceOf(f.Place()).String()
	was, hasPlace := strings.CutPrefix(f.Description, place+": ")
	if !hasPlace {
		place = ""
	}
	parts := strings.Split(was, "; ")
	if len(texts) == 1 {
		texts[0] += f.pace()
	}
	f.describe(place, strings.Join(texts, ", "), parts...)
}

// grows returns the first container of the reference whose members differ.
func (h *Held) grows() string {
	for at := 0; at < len(h.By); at++ {
		if inside, _, _ := strings.Cut(h.By[at:], "]"); h.By[at] == '[' && (strings.Contains(inside, "*") || inside == "[...") {
			return h.By[:at]
		}
	}
	return h.By
}

// inContainer reports whether a container holds most of some buffers, as the recorder saw.
func inContainer(held []Held) bool { return held != nil && held[0].grows() != held[0].By }

// root returns the variable or container that must let go of the buffers, itself or of their graph.
func (h *Held) root() string { return h.Where + " " + strings.TrimPrefix(h.grows(), "the graph of ") }

func (h *Held) text() string {
	text := "held by " + h.By
	switch {
	case h.Kind == holder.ByCycle:
		text = "waits for the garbage collector in " + h.By
	case h.Where != "__main__" && h.Where != "":
		text += " of " + h.Where
	}
	return text + fmt.Sprintf(" (%s of %s)", units.Count(int64(h.Count)), units.Count(int64(h.Of)))
}

// pace says how the container of the only holder grows, if it grows by a whole number in each step.
func (f *Finding) pace() string {
	h := &f.Held[0]
	if h.Container == "" || h.Kind != holder.ByVariable {
		return ""
	}
	mean := float64(f.Amount.Bytes) / float64(f.Amount.Count)
	if n := math.Round(f.BytesPerStep / mean); mean > 0 && n >= 1 && math.Abs(f.BytesPerStep/mean-n) < 0.05*n {
		return fmt.Sprintf(", a %s that grows by %.0f each step", h.Container, n)
	}
	return ", a " + h.Container
}

func (h *Held) cause() (Cause, string) {
	switch {
	case h.Kind == holder.ByGraph:
		return LossGraph, fmt.Sprintf("Store .item() or .detach() of %s: its graph keeps them.",
			strings.TrimPrefix(h.By, "the graph of "))
	case h.Kind == holder.ByCycle:
		return ReferenceCycle, ReferenceCycle.Advice()
	case strings.Contains(h.By, ".__traceback__") || strings.HasPrefix(h.Where, "exception "):
		return FailedAllocations, FailedAllocations.Advice()
	case strings.Contains(h.By, "_hooks["):
		return Hook, Hook.Advice()
	case strings.HasSuffix(h.By, ".grad"):
		return Gradients, Gradients.Advice()
	case strings.Contains(h.By, ".<lru_cache>"):
		return UnboundedCache, fmt.Sprintf("Limit %s with maxsize.", strings.TrimSuffix(h.By, ".<lru_cache>[*]"))
	case h.Container != "":
		return Collection, fmt.Sprintf("Clear or bound %s.", h.grows())
	}
	return Collection, fmt.Sprintf("Delete %s when it is no longer needed.", h.By)
}
