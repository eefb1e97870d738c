package leak

import (
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// Cause is the probable reason why the buffers of a leak stay alive, or why an allocation failed. The list is closed.
type Cause uint8

const (
	NoCause Cause = iota // for findings that are neither leaks nor failed allocations

	FailedAllocations // causes of leaks, in the order in which causeOf tries them
	Gradients
	Hook
	ReferenceCycle
	LossGraph
	UnboundedCache
	Collection // if no other fits
	Concatenation

	Fragmented // causes of failed allocations
	HeldOutside
	LargerThanDevice
	Recovered
	Exhausted
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
	Gradients: {"gradients", "a backward pass allocated the buffers",
		"Call zero_grad(set_to_none=True) in every step; do not store gradients.", (*Pass).ofGradients},
	Hook: {"hook", "a module hook or tensor hook allocated the buffers",
		"Store .detach().cpu() in the hook, limit how much it stores, remove() it.", (*Pass).ofHook},
	ReferenceCycle: {"reference cycle", "the call site frees other buffers in bursts, as the garbage collector frees cycles",
		"Break the reference cycle with del or weakref.", (*Pass).ofCycle},
	LossGraph: {"graph of a loss", "several call sites retain a tensor from the same steps, as the graph of a loss does",
		"Call .item() or .detach() before you store the loss.", (*Pass).ofGraph},
	UnboundedCache: {"cache without bound", "nearly every buffer has a different size, as in a cache keyed by shape",
		"Limit the size of the cache, or round its keys to a few sizes.", (*Pass).ofCache},
	Collection: {"kept in a list, dict or attribute", "no other cause fits",
		"Clear the list, dict or attribute that retains them, or limit its size.", func(*Pass, *causeGroup) bool { return true }},
	Concatenation: {"grown by concatenation", "each buffer is larger than the one it replaces",
		"Keep only the last entries, or allocate the full size once and fill it.", nil},
	Fragmented: {"fragmented", "the allocator had enough free memory, but in smaller pieces", adviceFragmented, nil},
	HeldOutside: {"held outside the allocator", "at least a tenth of the device memory is in use outside this allocator",
		"Run nvidia-smi to see who else uses the device.", nil},
	LargerThanDevice: {"larger than the device", "the request alone is larger than the memory of the device",
		"Split the operation: smaller chunks, a shorter sequence, no full matrix.", nil},
	Recovered: {"recovered", "the program went on allocating after the failure",
		"Nothing must be done; a smaller batch avoids the retry.", nil},
	Exhausted: {"exhausted", "the program needs more memory than is available",
		"Use a smaller batch or checkpointing; see memlane peak --at oom.", nil},
}

// Causes returns all causes but NoCause.
func Causes() (all []Cause) {
	for c := range causes[1:] {
		all = append(all, Cause(c+1))
	}
	return all
}

// String returns the name used in JSON.
func (c Cause) String() string { return causes[c].name }

// Doc returns how a capture shows the cause, in one line.
func (c Cause) Doc() string { return causes[c].doc }

// Advice returns what to do about the cause, in one line of at most 76 columns.
func (c Cause) Advice() string { return causes[c].advice }

// causeOf returns the first cause that fits a group of leaks. Most causes are specific to PyTorch, so leaks of
// operations (XProf) get Collection.
func (p *Pass) causeOf(g *causeGroup) Cause {
	if site := g.findings[0].Sites[0]; p.PlaceOf(site).Op != "" && p.OperatorOf(p.Sites[site].Stack) == "" {
		return Collection
	}
	c := FailedAllocations
	for !causes[c].fits(p, g) {
		c++
	}
	return c
}

// ofFailures reports whether at least half of the steps with a retained buffer have a failed allocation.
func (p *Pass) ofFailures(g *causeGroup) bool {
	_, failed := p.lastFailure()
	return failed >= minRises && 2*failed > len(g.steps)
}

// anySite reports whether is returns true for a site of a group.
func (g *causeGroup) anySite(is func(lifetime.SiteID) bool) bool {
	return slices.ContainsFunc(g.findings, func(f *Finding) bool { return slices.ContainsFunc(f.Sites, is) })
}

// ofGradients reports whether a backward pass allocated the buffers.
func (p *Pass) ofGradients(g *causeGroup) bool {
	if slices.ContainsFunc(g.findings, func(f *Finding) bool { return strings.EqualFold(p.Sites[f.Sites[0]].Region, "gradient") }) {
		return true
	}
	return g.anySite(func(site lifetime.SiteID) bool {
		return p.anyFrame(site, func(f *lifetime.Frame) bool {
			return f.Kind == lifetime.Node || f.Kind == lifetime.Engine ||
				strings.Contains(f.File, "/torch/autograd/") && strings.Contains(f.Function, "backward")
		})
	})
}

// ofHook reports whether a module hook or tensor hook allocated the buffers.
func (p *Pass) ofHook(g *causeGroup) bool {
	return g.anySite(func(site lifetime.SiteID) bool {
		return p.anyFrame(site, func(f *lifetime.Frame) bool {
			return strings.HasSuffix(f.File, "torch/utils/hooks.py") ||
				f.Kind == lifetime.User && strings.Contains(strings.ToLower(f.Function), "hook")
		})
	})
}

// ofCycle reports whether a site of the group frees its other buffers in bursts.
func (p *Pass) ofCycle(g *causeGroup) bool {
	return g.anySite(func(site lifetime.SiteID) bool { return p.bursts(p.histories.sites[site]).share >= burstShare })
}

// ofGraph reports whether several places retain buffers from the same steps.
func (p *Pass) ofGraph(g *causeGroup) bool { return len(g.findings) > 1 }

// ofCache reports whether more than 80 % of the buffers differ in size.
func (p *Pass) ofCache(g *causeGroup) bool {
	sizes, n := map[int64]bool{}, 0
	for _, f := range g.findings {
		for _, i := range f.Kept {
			sizes[p.Space.Buffers[i].Requested] = true
			n++
		}
	}
	return n >= leastSteps && 5*len(sizes) > 4*n
}
