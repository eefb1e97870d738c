package whatif

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// Remedy is a change that may lower the peak.
type Remedy struct {
	Scenario Scenario
	Advice   string          // what to do, in a sentence
	Held     lifetime.SiteID // line that it is about; 0 = none

	edits   string
	instead string // of those with equal letters a combination has one
}

// remedies are changes of any training, in order of what they cost: each costs more than all before it together.
var remedies = [...]Remedy{
	// free of charge
	{edits: "set_to_none=on", instead: "z", Advice: "Free gradients right after the step: call zero_grad(set_to_none=True) there."},
	{edits: "no_grad=evaluation", instead: "n", Advice: "Run passes without a backward pass under torch.no_grad()."},
	{edits: "foreach=fused", instead: "o", Advice: "Step the optimizer with fused=True, which needs no temporaries of all parameters at once."},
	// the product before the loss twice
	{edits: "loss.chunks=8", instead: "l", Advice: "Compute the loss in 8 chunks, with the product before it, under torch.utils.checkpoint."},
	// smaller kernels
	{edits: "batch=0.5,accumulate=2", instead: "b", Advice: "Halve the batch and accumulate gradients over 2 passes."},
	{edits: "batch=0.25,accumulate=4", instead: "b", Advice: "Quarter the batch and accumulate gradients over 4 passes."},
	// a forward pass more
	{edits: "checkpoint=blocks", instead: "a", Advice: "Checkpoint the layers (torch.utils.checkpoint)."},
	// training may converge otherwise
	{edits: "optimizer=adam8bit", instead: "o", Advice: "Keep the state of the optimizer in 8 bits, as bitsandbytes does."},
	// copies in each pass
	{edits: "offload=activations", instead: "a", Advice: "Keep activations on the host: torch.autograd.graph.save_on_cpu()."},
	// a step on the host
	{edits: "optimizer.device=host", instead: "o", Advice: "Keep the state of the optimizer on the host."},
}

// Remedies returns the changes that the program allows, the cheapest first. They may also raise its peak: see Lowers.
func (e *Engine) Remedies() []Remedy {
	if e.remedies != nil {
		return e.remedies
	}
	e.remedies = slices.Clone(remedies[:])
	if line, site := e.base.longestHeld(); site != 0 {
		e.remedies = slices.Insert(e.remedies, 0, Remedy{edits: "free-early=" + line, instead: "d", Held: site,
			Advice: "Delete the result of a pass before the next one: " + line + " holds it until then (del, or detach() what it needs)."})
	}
	for i := range e.remedies {
		e.remedies[i].Scenario, _ = Parse(e.remedies[i].edits)
	}
	e.remedies = slices.DeleteFunc(e.remedies, func(r Remedy) bool {
		_, of := e.change(cmp.Or(e.short, e.program), r.Scenario)
		return r.Scenario == nil || of.Refused != "" // a name that edits cannot have, or a change that the program does not allow
	})
	return e.remedies
}
