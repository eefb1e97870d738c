package build

import (
	"github.com/memlane/memlane/lifetime"
)

// FunctionCall records a call of a function in a space. Calls keep their order.
func (b *Builder) FunctionCall(space SpaceRef, call lifetime.Call) {
	call.Space = int(space)
	b.capture.Calls = append(b.capture.Calls, call)
}

// Sample records a measurement of the device of a space. Samples keep their order.
func (b *Builder) Sample(space SpaceRef, s lifetime.Sample) {
	s.Space = int(space)
	b.capture.Samples = append(b.capture.Samples, s)
}

// settleCalls replaces the SpaceRef of calls and samples by the final index of the
// space. made has the spaces by SpaceRef. Calls and samples of spaces that were left out
// (nil) are dropped.
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
