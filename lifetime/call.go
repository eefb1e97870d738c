package lifetime

import (
	"fmt"
	"math"
)

// Call is one call of a function and what it did to the memory of a device, as
// gpumemprof's ProfileResult has it. Times are seconds on the producer's clock.
type Call struct {
	Site  SiteID // the function
	Space int    // index into Capture.Spaces

	Begin, End float64
	Seconds    float64 // how long it ran

	// Bytes allocated on the device before and after the call, and at most
	// while it ran (0 = not known).
	Before, After, Peak int64
	// Bytes that the allocator had from the device after the call, and of them
	// those in split blocks that were not in use.
	Reserved, Inactive int64

	Allocated, Freed int64 // bytes, by the call
}

// Change returns by how many bytes the memory grew from before the call to
// after it. The lowest int64 cannot be negated, but ^b+1 is -b for the others.
func (c *Call) Change() int64 { return AddSat(AddSat(c.After, ^c.Before), 1) }

// Sample is what one look at a device found: the allocator's own totals beside
// those of the device, which hold what other programs and libraries have. Bytes
// that are not known are -1.
type Sample struct {
	Space   int   // index into Capture.Spaces
	T       int64 // nanoseconds
	Regular bool  // one of a series at equal distances, not the mark of an event

	Allocated, Reserved int64 // by the allocator
	Inactive            int64 // of Reserved, in split blocks that were not in use
	DeviceUsed          int64 // by anybody
	DeviceTotal         int64 // what the device has
}

// Call records a call of a function in a space. Calls keep the order in which
// they come.
func (b *Builder) Call(space SpaceRef, call Call) {
	call.Space = int(space)
	b.capture.Calls = append(b.capture.Calls, call)
}

// Sample records a look at the device of a space. Samples keep the order in
// which they come.
func (b *Builder) Sample(space SpaceRef, s Sample) {
	s.Space = int(space)
	b.capture.Samples = append(b.capture.Samples, s)
}

// settleCalls gives calls and samples the final index of their space in place
// of its SpaceRef. made are the spaces by SpaceRef; what is in one that was left
// out (nil) is left out too.
func (b *Builder) settleCalls(made []*Space) {
	if len(b.capture.Calls)+len(b.capture.Samples) == 0 {
		return
	}
	final := make(map[*Space]int, len(b.capture.Spaces))
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

// checkCalls verifies calls and samples.
func (c *Capture) checkCalls() error {
	for i := range c.Calls {
		call := &c.Calls[i]
		switch {
		case call.Space < 0 || call.Space >= len(c.Spaces):
			return fmt.Errorf("call %d: space %d of %d", i, call.Space, len(c.Spaces))
		case int(call.Site) >= len(c.Sites):
			return fmt.Errorf("call %d: site %d of %d", i, call.Site, len(c.Sites))
		}
		for _, seconds := range []float64{call.Begin, call.End, call.Seconds} {
			if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
				return fmt.Errorf("call %d: %v seconds", i, seconds)
			}
		}
	}
	for i := range c.Samples {
		if s := &c.Samples[i]; s.Space < 0 || s.Space >= len(c.Spaces) {
			return fmt.Errorf("sample %d: space %d of %d", i, s.Space, len(c.Spaces))
		}
	}
	return nil
}

// KeepCalls asks for the calls of functions, where the producer records each
// one. There may be millions. It must be called before the first fact.
func (b *Builder) KeepCalls() { b.keepCalls = true }

// KeepsCalls reports whether KeepCalls was called.
func (b *Builder) KeepsCalls() bool { return b.keepCalls }
