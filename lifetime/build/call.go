package build

import (
	"github.com/memlane/memlane/lifetime"
)

// FunctionCall records a call of a function in a space. Calls keep the order in which
// they come.
func (b *Builder) FunctionCall(space SpaceRef, call lifetime.Call) {
	call.Space = int(space)
	b.capture.Calls = append(b.capture.Calls, call)
}

// Sample records a look at the device of a space. Samples keep the order in
// which they come.
func (b *Builder) Sample(space SpaceRef, s lifetime.Sample) {
	s.Space = int(space)
	b.capture.Samples = append(b.capture.Samples, s)
}

// settleCalls gives calls and samples the final index of their space in place
// of its SpaceRef. made are the spaces by SpaceRef; what is in one that was left
// out (nil) is left out too.
func (b *Builder) settleCalls(made []*lifetime.Space) {
	if len(b.capture.Calls)+len(b.capture.Samples) == 0 {
		return
	}
	final := make(map[*lifetime.Space]int, len(b.capture.Spaces))
	for i, s := range b.capture.Spaces {
		final[s] = i
	}
	calls := b.capture.Calls[:0]
	for _, call := range b.capture.Calls {
		if i, ok := final[made[call.Space]]; ok {
			call.Space = i
			calls = append(calls, call)
		}
	}
	samples := b.capture.Samples[:0]
	for _, s := range b.capture.Samples {
		if i, ok := final[made[s.Space]]; ok {
			s.Space = i
			samples = append(samples, s)
		}
	}
	b.capture.Calls, b.capture.Samples = calls, samples
}
