package whatif

import "github.com/memlane/memlane/lifetime/purpose"

var statesKind = Kind{
	Name: "states", Values: "bf16", Doc: "keep what the optimizer keeps in 16 bits, not 32", check: isOneOf("bf16"), off: offOptimizer,
	apply: func(m *model, _ string) string { return m.halveStates() },
}

// halveStates has two bytes for what an optimizer keeps in four.
func (m *model) halveStates() string {
	kept := filter(m.buffers, func(b *buffer) bool { return b.category == purpose.OptimizerState && b.size > smallest })
	if len(kept) == 0 {
		return "no state of an optimizer is known"
	}
	for _, b := range kept {
		b.size /= 2
	}
	return ""
}
