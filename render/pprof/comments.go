package pprof

import (
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// addComments adds the origin of the numbers: each file, each space, the losses of the captures, then the lines
// of the caller. Each line begins with a word, because pprof hides comments that begin with '#'.
func (b *builder) addComments(parts []part) {
	var lines []string
	files := map[string]bool{}
	for i, p := range parts {
		src := p.capture.Sources[p.space.Source]
		line := fmt.Sprintf("file %s: format %s", src.File, src.Format)
		if src.Producer != "" {
			line += ", producer " + src.Producer
		}
		if !files[line] {
			files[line] = true
			lines = append(lines, line)
		}
		lines = append(lines, b.describe(p, b.inuse[i]))
	}
	if len(parts) > 1 {
		lines = append(lines, "totals add up different memories, each at its own instant; the outermost frame of a stack is its memory")
	}
	if !b.options.byFunction {
		lines = append(lines, "functions are named with their line, so that every call site has a row")
	}
	seen := map[*lifetime.Capture]bool{}
	for _, p := range parts {
		if !seen[p.capture] {
			seen[p.capture] = true
			lines = append(lines, losses(p.capture)...)
		}
	}
	if b.options.Marks != nil {
		lines = append(lines, b.options.Marks.Comments...)
	}
	for _, line := range append(lines, b.options.Comments...) {
		b.profile.Comments = append(b.profile.Comments, shorten.Clean(line))
	}
}

// describe returns the comment of one space: what is in use, when, and the window.
func (b *builder) describe(p part, inuse int64) string {
	s, unit := p.space, p.space.Axis.Unit()
	if !p.inside {
		return fmt.Sprintf("space %s: time %d is outside its recording [%d, %d); nothing counts as in use", name(s),
			p.at, s.Begin, s.End)
	}
	if s.Axis == lifetime.ProgramOrder && b.options.At == Peak {
		when := "from the beginning"
		if p.at >= 0 {
			when = fmt.Sprintf("instruction %d of %d", p.at, s.End)
		}
		return fmt.Sprintf("space %s: %s in use at its peak, %s", name(s), units.Exact(inuse), when)
	}
	when := "at its peak, " + units.Span(length(s.Begin, p.at), unit) + " into a recording of "
	switch b.options.At {
	case End:
		when = "at the end of its recording of "
	case Fixed:
		when = units.Span(length(s.Begin, p.at), unit) + " into a recording of "
	}
	return fmt.Sprintf("space %s: %s in use %s%s", name(s), units.Exact(inuse), when, units.Span(length(s.Begin, s.End), unit))
}

// losses returns the comments on data that a capture lacks. Remarks, which omit nothing, stay in the reports.
func losses(c *lifetime.Capture) []string {
	var lines []string
	for _, l := range c.Losses {
		if l.Reason.Class() > loss.Remark {
			lines = append(lines, fmt.Sprintf("loss %s", l))
		}
	}
	return lines
}

// epoch separates clocks that count from 1970 from clocks that count from a start: it is the year 2001 on the
// former and 31 years on the latter.
const epoch = 1e18 // nanoseconds

// setTimes sets the time and duration of the profile from the spaces with a clock: the earliest window that begins at a
// time of day, and the longest window. Windows are not combined, because the clocks of several captures may differ.
func setTimes(to *profile.Profile, parts []part) {
	for _, p := range parts {
		s := p.space
		if s.Axis != lifetime.Time {
			continue
		}
		to.DurationNanos = max(to.DurationNanos, length(s.Begin, s.End))
		if s.Begin >= epoch && (to.TimeNanos == 0 || s.Begin < to.TimeNanos) {
			to.TimeNanos = s.Begin
		}
	}
}
