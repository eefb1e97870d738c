package finding

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// The thresholds of trend.
const (
	maxSlices  = 48   // slices of the window whose lowest levels are compared
	minSlices  = 18   // minimum number of slices after the first third
	leastShare = 0.1  // of the growth that a named call site must have
	leastGrown = 0.05 // minimum growth as a share of the peak

	flatFrom       = 0.1 // share of the window that has all allocations and frees of a flat line
	minAllocations = 10  // minimum number of allocations of a flat line
)

// trend finds memory in use whose lowest level rises from slice to slice of the window, if no site leaks or sites are
// unknown. It compares lowest levels because a regression over all levels finds trends in noise.
//
// It also reports the opposite: a flat line, because everything was allocated at the beginning.
func trend(p *Pass) []Finding {
	if p.compiled() {
		return nil
	}
	if p.Space.UsageOnly() && p.Space.Axis == lifetime.Event && len(p.Space.Marks) == 0 {
		return p.printed()
	}
	if share, flat := p.flat(); flat {
		return []Finding{p.flatLine(share)}
	}
	if p.leaks || p.Space.Facts&lifetime.History == 0 && !p.Space.UsageOnly() {
		return nil
	}
	floors := p.floors()
	tail := floors[len(floors)/3:]
	if len(tail) < minSlices {
		return nil
	}
	fell := 0
	for i := 1; i < len(tail); i++ {
		if tail[i] <= tail[i-1] {
			fell++
		}
	}
	grew := tail[len(tail)-1] - tail[0]
	if fell > 1 || shareOf(grew, p.highest().Bytes) < leastGrown { // of 17 coins at most one tails: 1 in 7,000
		return nil
	}
	f := Finding{basedOn: inGeneral, Amount: lifetime.Amount{Bytes: grew},
		Evidence:    []Evidence{figure(FigSlices, len(tail)), figure(FigNotHigher, fell), figure(FigGrown, grew)},
		Suggestions: []string{"Record allocations one by one with stacks, over more steps."}}
	unknown := "no call site shows why"
	if p.Space.UsageOnly() {
		f.Severity = Warning
		unknown = "only totals were recorded, no call sites"
	}
	var who []string
	if p.dynamic() {
		changes := p.changes()
		if p.passes(changes) {
			return nil
		}
		who, f.Sites = p.growers(changes, grew)
	}
	if len(who) > 0 {
		unknown = "most by " + strings.Join(who, ", ")
		f.Suggestions = []string{"Look at what keeps these buffers, and record over more steps."}
	}
	f.describe("", fmt.Sprintf("the lowest memory in use rose by %s over the last %d slices of the recording", units.Bytes(grew),
		len(tail)), unknown)
	return []Finding{f}
}

// printed finds memory that grows between lines of a log with the same words. Their numbers are the instants.
func (p *Pass) printed() []Finding {
	const most = 4 // lines that are named
	var bytes []int64
	var lines []string
	for _, level := range p.usage() {
		bytes = append(bytes, level.Bytes)
		lines = append(lines, fmt.Sprintf("%s in line %d", units.Bytes(level.Bytes), level.At))
	}
	n := len(bytes)
	if !failure.Grows(bytes) {
		return nil
	}
	if n > most {
		lines = slices.Concat(lines[:most-2], lines[n-2:])
	}
	grew := bytes[n-1] - bytes[0]
	f := Finding{basedOn: inGeneral, Severity: Warning, Amount: lifetime.Amount{Bytes: grew}, Evidence: []Evidence{figure(FigSlices, n), figure(FigGrown, grew)},
		Suggestions: []string{"Record a snapshot at two of these lines; memlane diff shows what stays."}}
	f.describe("", fmt.Sprintf("memory in use grew by %s over %s lines with the same words", units.Bytes(grew), units.Count(int64(n))), strings.Join(lines, ", "))
	return []Finding{f}
}

// changes returns by how much each site grew from the lowest level after the first third of the window to that at its end.
func (p *Pass) changes() map[lifetime.SiteID]int64 {
	levels := p.usage()
	lowest := func(from, to int) int64 {
		return slices.MinFunc(levels[from:to], func(x, y lifetime.Level) int { return cmp.Compare(x.Bytes, y.Bytes) }).At
	}
	n := len(levels)
	each := max(n/maxSlices, 1)
	changes := p.bytesBySite(lowest(n-each, n))
	for site, bytes := range p.bytesBySite(lowest(n/3, n/3+each)) {
		changes[site] = units.AddSat(changes[site], -bytes)
	}
	return changes
}

func (p *Pass) bytesBySite(at int64) map[lifetime.SiteID]int64 {
	all := map[lifetime.SiteID]int64{}
	for _, i := range p.Space.LiveAt(at) {
		b := &p.Space.Buffers[i]
		all[b.Site] = units.AddSat(all[b.Site], b.Size)
	}
	return all
}

// passes reports whether most of a rise is what one forward pass saves, waits for a backward pass, or has a role: it
// ends with the pass, or with the first step.
func (p *Pass) passes(changes map[lifetime.SiteID]int64) bool {
	all, known := int64(0), int64(0)
	for site, bytes := range changes {
		if bytes > 0 {
			all = units.AddSat(all, bytes)
			open := p.histories.sites[site].open
			if p.inOneCall(site) || p.haveRole(open) || len(p.program.Settled(p.Space, open)) == 0 {
				known = units.AddSat(known, bytes)
			}
		}
	}
	return known > all/2
}

// growers returns the places that explain most of a rise of the lowest level, with their share, and their sites.
func (p *Pass) growers(changes map[lifetime.SiteID]int64, grew int64) (who []string, sites []lifetime.SiteID) {
	type grower struct {
		place lifetime.Place
		bytes int64
		first lifetime.SiteID
	}
	var all []grower
	index := map[lifetime.Place]int{}
	for _, site := range slices.Sorted(maps.Keys(changes)) {
		place := p.PlaceOf(site)
		g := keyed.At(index, &all, place, grower{place: place})
		g.bytes, g.first = units.AddSat(g.bytes, changes[site]), cmp.Or(g.first, site)
	}
	slices.SortFunc(all, func(x, y grower) int { return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.first, y.first)) })
	for _, g := range all[:min(len(all), maxHolders)] {
		if share := shareOf(g.bytes, grew); share >= leastShare && g.first != 0 {
			who = append(who, fmt.Sprintf("%s (%.0f %%)", g.place, 100*min(share, 1)))
			sites = append(sites, g.first)
		}
	}
	return who, sites
}

// floors returns the lowest level of each slice of the window. Slices have equal numbers of changes.
func (p *Pass) floors() []int64 {
	levels := p.usage()
	n := min(maxSlices, len(levels)/2)
	floors := make([]int64, n)
	for i := range floors {
		floors[i] = math.MaxInt64
		for _, level := range levels[i*len(levels)/n : (i+1)*len(levels)/n] {
			floors[i] = min(floors[i], level.Bytes)
		}
	}
	return floors
}

// flat reports whether all allocations and frees happened at the beginning of the window, and in which share of it.
func (p *Pass) flat() (share float64, flat bool) {
	s := p.Space
	if s.Facts&lifetime.History == 0 || s.Allocations < minAllocations || s.Axis != lifetime.Time || len(s.Buffers) == 0 {
		return 0, false
	}
	end, levels := s.End, p.usage()
	for i := range s.Marks { // they may follow the last event
		end = max(end, s.Marks[i].End)
	}
	share = float64(levels[len(levels)-1].At-s.Begin) / float64(end-s.Begin)
	return share, share < flatFrom
}

func (p *Pass) flatLine(share float64) Finding {
	s := p.Space
	f := Finding{Amount: lifetime.Amount{Bytes: p.atEnd()}, Evidence: []Evidence{figure(FigShareOfWindow, share)},
		Suggestions: []string{"Look at the compiled programs: memlane peak --module NAME."}}
	f.describe("", fmt.Sprintf("all %s allocations and %s frees happened in the first %.1f %% of the recording; "+
		"memory in use is flat afterwards, "+
		"as in programs whose memory is planned at compile time (TPU), so this is not a leak",
		units.Count(int64(s.Allocations)), units.Count(int64(s.Frees)),
		math.Max(0.1, 100*share)))
	return f
}
