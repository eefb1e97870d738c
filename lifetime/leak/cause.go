package leak

import (
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// Cause is what keeps the buffers of a leak alive, as far as the capture shows, or why
// an allocation failed. The list is closed.
type Cause uint8

const (
	NoCause Cause = iota // of findings that are neither leaks nor failed allocations

	FailedAllocations // of leaks, in the order in which they are tried
	Gradients
	Hook
	ReferenceCycle
	LossGraph
	UnboundedCache
	Collection // where no other fits
	Concatenation

	Fragmented // of failed allocations
	HeldOutside
	Exhausted
)

// causes say of each cause what it is called, how it shows and what to do. fits reports
// whether a group of leaks shows it; nil = explain does not ask.
var causes = [...]struct {
	name, doc, advice string
	fits              func(*Pass, *causeGroup) bool
}{
	NoCause: {},
	FailedAllocations: {"other allocations failed", "the call site kept a buffer for most allocations that failed",
		"Delete the exception: its traceback keeps the variables of every frame.", (*Pass).ofFailures},
	Gradients: {"gradients", "a backward pass allocated the buffers",
		"Call zero_grad(set_to_none=True) in every step; keep no list of gradients.", (*Pass).ofGradients},
	Hook: {"hook", "a hook of a module or tensor allocated the buffers",
		"Store .detach().cpu() in the hook, bound the store, and remove() the hook.", (*Pass).ofHook},
	ReferenceCycle: {"reference cycle", "other buffers of the call site are freed in bursts, as the garbage collector frees cycles",
		"Break the reference cycle with del or weakref.", (*Pass).ofCycle},
	LossGraph: {"graph of a loss", "several call sites keep a tensor of the same steps, as the graph of a loss does",
		"Call .item() or .detach() before you store the loss.", (*Pass).ofGraph},
	UnboundedCache: {"cache without bound", "nearly every buffer has another size, as in a cache keyed by shape",
		"Bound the cache, or round its keys to a few sizes.", (*Pass).ofCache},
	Collection: {"kept in a list, dict or attribute", "no other cause shows",
		"Find the list, dict or attribute that holds them; clear or bound it.", func(*Pass, *causeGroup) bool { return true }},
	Concatenation: {"grown by concatenation", "each buffer is larger than the one that it replaces",
		"Keep only the last entries, or allocate the full size once and fill it.", nil},
	Fragmented: {"fragmented", "the allocator had as much free, but in smaller pieces", adviceFragmented, nil},
	HeldOutside: {"held outside the allocator", "a tenth of the device or more is not held by this allocator",
		"See who else uses the device: nvidia-smi.", nil},
	Exhausted: {"exhausted", "the program needs more memory than there is",
		"Use a smaller batch or checkpointing; memlane peak --at oom lists holders.", nil},
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

// Doc returns how the cause shows in a capture, in one line.
func (c Cause) Doc() string { return causes[c].doc }

// Advice returns what to do about the cause, in one line.
func (c Cause) Advice() string { return causes[c].advice }

// causeOf returns the first cause that fits a group of leaks. Most causes are
// PyTorch's, so leaks of operations have the last.
func (p *Pass) causeOf(g *causeGroup) Cause {
	if p.PlaceOf(g.findings[0].Sites[0]).Op != "" {
		return Collection
	}
	c := FailedAllocations
	for !causes[c].fits(p, g) {
		c++
	}
	return c
}

// ofFailures reports whether something was kept of most allocations that failed.
func (p *Pass) ofFailures(g *causeGroup) bool {
	failed := 0
	for i := range p.Space.Marks {
		if p.Space.Marks[i].Kind == lifetime.OOM {
			failed++
		}
	}
	return failed >= minRises && 2*failed > len(g.steps)
}

// anyFrame reports whether a frame on the stacks of a group is as asked.
func (g *causeGroup) anyFrame(c *lifetime.Capture, is func(f *lifetime.Frame) bool) bool {
	for _, f := range g.findings {
		for _, site := range f.Sites {
			if anyFrame(c, site, is) {
				return true
			}
		}
	}
	return false
}

// ofGradients reports whether a backward pass allocated the buffers.
func (p *Pass) ofGradients(g *causeGroup) bool {
	for _, f := range g.findings {
		if strings.EqualFold(p.Sites[f.Sites[0]].Region, "gradient") {
			return true
		}
	}
	return g.anyFrame(p.Capture, func(f *lifetime.Frame) bool {
		return strings.HasPrefix(f.Function, "backward: ") || strings.Contains(f.File, "/torch/autograd/") && strings.Contains(f.Function, "backward")
	})
}

// ofHook reports whether a hook of a module or tensor allocated the buffers.
func (p *Pass) ofHook(g *causeGroup) bool {
	return g.anyFrame(p.Capture, func(f *lifetime.Frame) bool {
		return strings.HasSuffix(f.File, "torch/utils/hooks.py") || f.Kind == lifetime.User && strings.Contains(strings.ToLower(f.Function), "hook")
	})
}

// ofCycle reports whether a site of the group frees its other buffers in bursts.
func (p *Pass) ofCycle(g *causeGroup) bool {
	for _, f := range g.findings {
		for _, site := range f.Sites {
			if p.bursts(p.histories.sites[site]).share >= burstShare {
				return true
			}
		}
	}
	return false
}

// ofGraph reports whether several places keep something of the same steps.
func (p *Pass) ofGraph(g *causeGroup) bool { return len(g.findings) > 1 }

// ofCache reports whether hardly two buffers have one size.
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
