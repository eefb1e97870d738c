package perfetto

import (
	"cmp"
	"iter"
	"math"

	"github.com/memlane/memlane/lifetime"
)

// noOrigin is the origin of a capture without a clock.
const noOrigin = math.MaxInt64

// originOf returns the first instant of the capture on a clock.
func originOf(c *lifetime.Capture) int64 {
	origin := int64(noOrigin)
	for _, s := range c.Spaces {
		if s.Axis == lifetime.Time {
			origin = min(origin, s.Begin)
		}
	}
	return origin
}

// clock converts instants of a space to times of the trace.
type clock struct {
	origin int64  // time 0 of what is on a clock
	zero   int64  // time 0 of the space at hand
	unit   uint64 // of its axis, in nanoseconds of the trace
}

func (t *clock) enter(s *lifetime.Space) {
	t.zero, t.unit = s.Begin, 1000
	if s.Axis == lifetime.Time {
		t.zero, t.unit = t.origin, 1
	}
}

// since returns the units between time 0 and an instant. Spans of damaged captures may exceed an int64.
func (t *clock) since(at int64) uint64 {
	return uint64(max(at, t.zero)) - uint64(t.zero) // a mark may begin before its window
}

// title returns the name of the process of a space.
func title(s *lifetime.Space) string {
	name := cmp.Or(s.ID(), "(unnamed)")
	if s.Axis != lifetime.Time {
		name += " (1 µs: 1 " + s.Axis.Unit() + ")"
	}
	return name
}

// lastOfEach yields the last level of each instant.
func lastOfEach(levels iter.Seq[lifetime.Level]) iter.Seq[lifetime.Level] {
	return func(yield func(lifetime.Level) bool) {
		var last lifetime.Level
		any := false
		for level := range levels {
			if any && level.At != last.At && !yield(last) {
				return
			}
			last, any = level, true
		}
		if any {
			yield(last)
		}
	}
}

// textsOf yields the arguments of a buffer that its site has, by name. Some are empty.
func textsOf(s *lifetime.Site) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		_ = yield("op", s.Op) && yield("shape", s.Shape) && yield("dtype", s.DType) && yield("region", s.Region) &&
			yield("module", s.Module) && yield("instr", s.Instr) && yield("opcode", s.Opcode)
	}
}
