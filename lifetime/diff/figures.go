package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/purpose"
)

// AllocatedOf returns the bytes that a place allocated in the window; with perStep and marked steps, the mean per step.
func AllocatedOf(f *Figures, side *Side, perStep bool) float64 {
	if side == nil {
		return 0
	}
	if perStep && side.Steps > 0 {
		return float64(f.Allocated.Bytes) / float64(side.Steps)
	}
	return float64(f.Allocated.Bytes)
}

// Line is a formatted figure of a pair of spaces. Before or After is "" if a side lacks it.
type Line struct{ Name, Before, After, Change string }

// Figured returns the figures of a pair as text, without those that both sides lack.
func Figured(p *Pair) (lines []Line) {
	bytes := func(name string, of func(*Side) int64) {
		l := p.plain(name, func(s *Side) string { return units.Bytes(of(s)) })
		if p.Before != nil && p.After != nil {
			l.Change = Difference(of(p.Before), of(p.After))
		}
		if p.Before != nil && of(p.Before) != 0 || p.After != nil && of(p.After) != 0 {
			lines = append(lines, l)
		}
	}
	bytes("peak", func(s *Side) int64 { return s.Peak })
	padded := func(s *Side) bool { return s != nil && s.Peak != s.PeakRequested }
	if padded(p.Before) || padded(p.After) {
		bytes("peak, requested", func(s *Side) int64 { return s.PeakRequested })
	}
	for _, c := range p.notable() {
		lines = append(lines, Line{"  " + c.Name, units.Bytes(c.Before), units.Bytes(c.After), Difference(c.Before, c.After)})
	}
	bytes("at the end", func(s *Side) int64 { return s.End })
	bytes("reserved", func(s *Side) int64 { return s.Reserved })
	bytes("reserved but free", func(s *Side) int64 { return s.Free.Total })
	bytes("its largest piece", func(s *Side) int64 { return s.Free.Largest })
	bytes("allocated", func(s *Side) int64 { return s.Allocated })
	if !static(cmp.Or(p.After, p.Before).Space) { // a plan has no events
		lines = append(lines, p.plain("allocations", func(s *Side) string { return units.Count(int64(s.Allocations)) }),
			p.plain("frees", func(s *Side) string { return units.Count(int64(s.Frees)) }))
	}
	if l := p.plain("time per step", stepTime); l.Before+l.After != "" {
		lines = append(lines, l)
	}
	return lines
}

// plain returns a line without Change.
func (p *Pair) plain(name string, of func(*Side) string) Line {
	l := Line{Name: name}
	if p.Before != nil {
		l.Before = of(p.Before)
	}
	if p.After != nil {
		l.After = of(p.After)
	}
	return l
}

func stepTime(s *Side) string {
	if s.Steps == 0 {
		return ""
	}
	return units.Span(s.Window/int64(s.Steps), s.Space.Axis.Unit())
}

// Difference formats the change of a figure: "-24.1 MiB (-33.8 %)", and "+3.05 MiB (33 times)" from ten times as much
// on.
func Difference(before, after int64) string {
	change := after - before
	text := units.Signed(change)
	if before == 0 || change == 0 {
		return text
	}
	if times := float64(after) / float64(before); times >= 10 {
		return fmt.Sprintf("%s (%s times)", text, units.Count(int64(math.Round(min(times, 1<<53)))))
	}
	return fmt.Sprintf("%s (%+.1f %%)", text, 100*float64(change)/float64(before))
}

// CategoryChange is the change of one category of memory at the peak.
type CategoryChange struct {
	Name          string
	Before, After int64 // bytes
	How           purpose.How
}

// Delta returns the change in bytes.
func (c *CategoryChange) Delta() int64 { return units.AddSat(c.After, -c.Before) }

// Categories returns the categories of a pair, largest change first; none unless they are known on both sides.
func (p *Pair) Categories() (all []CategoryChange) {
	if p.Before == nil || p.After == nil || len(p.Before.Categories) == 0 || len(p.After.Categories) == 0 {
		return nil
	}
	at := map[string]int{}
	change := func(name string) *CategoryChange {
		return keyed.At(at, &all, name, CategoryChange{Name: name, How: purpose.Recorded})
	}
	for _, c := range p.Before.Categories {
		of := change(c.Name)
		of.Before, of.How = c.Bytes, min(of.How, c.How)
	}
	for _, c := range p.After.Categories {
		of := change(c.Name)
		of.After, of.How = c.Bytes, min(of.How, c.How)
	}
	size := func(c CategoryChange) int64 { return max(c.Delta(), -c.Delta()) }
	slices.SortFunc(all, func(x, y CategoryChange) int {
		return cmp.Or(cmp.Compare(size(y), size(x)), cmp.Compare(y.After, x.After), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// notable returns the categories whose change is at least a hundredth of the higher peak, the first few.
func (p *Pair) notable() (all []CategoryChange) {
	for _, c := range p.Categories() {
		if d := c.Delta(); max(d, -d) >= max(p.Before.Peak, p.After.Peak)/100 && d != 0 && len(all) < maxNamed {
			all = append(all, c)
		}
	}
	return all
}
