package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Info writes the contents of captures.
func Info(w io.Writer, a *answer.Info, ranks *answer.RankSummary, s Style) error {
	p := NewPage(s)
	for i := range a.Captures {
		if i > 0 {
			p.Line("")
		}
		p.capture(&a.Captures[i])
	}
	p.ranks(ranks)
	return p.To(w)
}

func (p *Page) capture(c *answer.Capture) {
	from := Printable(c.Format)
	if c.Producer != "" {
		from += ", " + Printable(c.Producer)
	}
	p.Line("%s: %s", Printable(c.File), from)
	for i := range c.Spaces {
		if s := &c.Spaces[i]; s.Program == nil {
			p.Line("\n%s", Printable(s.ID))
			p.space(s)
		}
	}
	p.programs(c)
	for i := range c.Losses {
		if i == 0 {
			p.Line("\nwarnings")
		}
		p.Para("  ", "    ", LossText(&c.Losses[i]))
	}
}

// maxOOMs is the maximum number of failed allocations. Programs that retry have many.
const maxOOMs = 5

// row writes a row about a space.
func (p *Page) row(name, format string, args ...any) {
	p.Para(fmt.Sprintf("  %-10s ", name), strings.Repeat(" ", 13), fmt.Sprintf(format, args...))
}

func (p *Page) space(s *answer.Space) {
	length := units.Span(s.End-s.Begin-1, s.Unit)
	switch {
	case s.Allocations+s.Frees > 0:
		p.row("recording", "%s, %s, %s", length, units.Plural(s.Allocations, "allocation"), units.Plural(s.Frees, "free"))
	case s.UsageOnly:
		p.row("recording", "%s, %s", length, units.Plural(s.Totals, "total"))
	default:
		p.row("recording", "none: no allocation or free was recorded")
	}
	if s.Steps != nil {
		how := ""
		switch {
		case s.Steps.Annotated:
			how = " of the optimizer"
		case s.Steps.Inferred:
			how = fmt.Sprintf(" (inferred; confidence %.0f %%)", 100*s.Steps.Confidence)
		}
		p.row("", "%s%s", units.Plural(s.Steps.Count, "step"), how)
	}
	p.levels(s)
	p.reserved(s)
	p.pools(s)
	for i, o := range s.OOMs {
		if i == maxOOMs {
			p.row("", "%s", more(len(s.OOMs)-i, "failed allocation"))
		}
		if i >= maxOOMs || p.failed {
			break
		}
		asked, free := units.Bytes(o.RequestedBytes), ""
		if o.RequestedBytes == 0 {
			asked = "an unknown size"
		}
		if o.DeviceFreeBytes != nil {
			free = fmt.Sprintf(", the device had %s free", units.Bytes(*o.DeviceFreeBytes))
		}
		p.row(map[bool]string{true: "OOM"}[i == 0], "%s requested at %s%s", asked, When(s.Of, o.At), free)
	}
	if s.Replay != nil {
		p.row("replay", "%s", s.Replay.Text())
		if s.Replay.Refused != "" {
			p.row("", "%s", s.Replay.Refused)
		}
	}
	p.row("recorded", "%s", strings.Join(s.Facts, ", "))
}

const usageOnly = "usage only: the buffers were not recorded"

// levels writes rows on the memory in use.
func (p *Page) levels(s *answer.Space) {
	if s.UsageOnly && s.Allocations+s.Frees > 0 { // see plot.Relative
		p.row("rose by", "%s at %s; what was in use before is not recorded", units.Exact(s.Peak.Bytes), When(s.Of, s.Peak.At))
	} else if p.row("peak", "%s at %s", units.Exact(s.Peak.Bytes), When(s.Of, s.Peak.At)); s.UsageOnly {
		p.row("at end", "%s", units.Exact(s.EndBytes))
	}
	if s.UsageOnly {
		p.row("", usageOnly)
		return
	}
	if s.Peak.RequestedBytes != s.Peak.Bytes {
		p.row("", "%s requested", units.Exact(s.Peak.RequestedBytes))
	}
	if len(s.AtPeak.Categories) > 0 && s.Program == nil {
		p.row("", "%s", PartsText(s.AtPeak))
	}
	if s.BaseBytes != 0 {
		p.row("", "%s %s", units.Exact(s.BaseBytes), purpose.Words(lifetime.FromBase.String()))
	}
	if s.StackBytes != nil {
		p.row("", "%s %s", units.Exact(*s.StackBytes), purpose.Words(lifetime.FromStack.String()))
	}
	if s.LifetimePeakBytes != nil {
		p.row("", "%s heap peak since program start, maybe before the recording", units.Bytes(*s.LifetimePeakBytes))
	}
	if s.EndBytes == s.Live.Bytes {
		p.row("at end", "%s in %s", units.Exact(s.Live.Bytes), units.Plural(s.Live.Count, "buffer"))
	} else {
		p.row("at end", "%s", units.Exact(s.EndBytes))
		p.row("", "%s recorded in %s", units.Exact(s.Live.Bytes), units.Plural(s.Live.Count, "buffer"))
	}
	if s.Live.RequestedBytes != s.Live.Bytes {
		p.row("", "%s requested", units.Exact(s.Live.RequestedBytes))
	}
	if len(s.HeldBy) > 0 {
		p.row("held by", "%s", partsText(s.HeldBy))
	}
	if s.Live.PendingFreeCount > 0 {
		p.row("", "%s with a pending free", units.Exact(s.Live.PendingFreeBytes))
	}
}

// reserved writes rows on the capacity, the reserved memory and its fragmentation.
func (p *Page) reserved(s *answer.Space) {
	if s.LimitBytes != nil {
		p.row("capacity", "%s", units.Exact(*s.LimitBytes))
	}
	if s.ReservedBytes != nil {
		p.row("reserved", "%s at the end, maximum %s", units.Exact(*s.ReservedBytes), units.Bytes(*s.ReservedPeakBytes))
	}
	if s.FreeBytes != nil {
		p.row("free", "%s of reserved memory at the end, largest hole %s", units.Exact(*s.FreeBytes), units.Bytes(*s.LargestFreeBytes))
	}
	if s.FragmentationMax != nil { // the allocator reports a share, not bytes
		p.row("fragmented", "%s at the peak, maximum %s, %s at the end", freeShare(s.Peak.Fragmentation),
			freeShare(s.FragmentationMax), freeShare(s.Fragmentation))
	}
}

// maxPools is the maximum number of pools, by reserved memory.
const maxPools = 15

// pools writes the memory of pools and streams at the peak, and what is alive in them at the end.
func (p *Page) pools(s *answer.Space) {
	if len(s.Pools) == 0 {
		return
	}
	p.row("pools", "at the peak; free memory serves no other pool or stream")
	var rows [][]string
	for i := range s.Pools[:min(len(s.Pools), maxPools)] {
		o := &s.Pools[i]
		name := o.Pool
		if o.Stream != nil && *o.Stream != 0 {
			name += fmt.Sprintf(", stream %d", *o.Stream)
		}
		rows = append(rows, []string{"", size(o.Peak.LiveBytes), size(o.Peak.ReservedBytes), size(o.Peak.FreeBytes),
			size(o.Peak.LargestFreeBytes), size(o.End.LiveBytes), Printable(name)})
	}
	p.Table([]string{"", "live", "reserved", "free", "hole", "at end", "pool"}, rows)
	if n := len(s.Pools) - len(rows); n > 0 {
		p.row("", "%s", more(n, "pool"))
	}
}

// freeShare returns a fragmentation; nil means that no reserved memory is free.
func freeShare(share *float64) string {
	if share == nil {
		return "nothing free"
	}
	return Percent(*share)
}

// maxPrograms is the maximum number of compiled programs, by peak.
const maxPrograms = 15

func (p *Page) programs(c *answer.Capture) {
	var all []*answer.Space
	for i := range c.Spaces {
		if c.Spaces[i].Program != nil {
			all = append(all, &c.Spaces[i])
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y *answer.Space) int { return cmp.Compare(y.Peak.Bytes, x.Peak.Bytes) })
	shown := all[:min(len(all), maxPrograms)]
	for len(shown) > 1 && shown[len(shown)-1].Peak.Bytes == 0 { // memory that the program does not use
		shown = shown[:len(shown)-1]
	}
	p.Line("\ncompiled programs, each at its peak")
	var rows [][]string
	for _, s := range shown {
		o := s.Program
		rows = append(rows, []string{size(s.Peak.Bytes), size(o.Inputs), size(o.Outputs), size(o.Temporaries),
			size(o.Constants), size(o.Padding), Printable(o.Memory), Printable(o.Name)})
	}
	p.Table([]string{"peak", "inputs", "outputs", "temps", "consts", "padding", "space", "program"}, rows)
	if n := len(all) - len(shown); n > 0 {
		p.Line("%s", more(n, "program"))
	}
}
