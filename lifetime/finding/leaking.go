package finding

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/program"
)

// The thresholds of leaking.
const (
	// minRises is the minimum number of rises of the floor. Three retained buffers are too common in healthy programs.
	minRises = 4
	// fewSteps is the number of marked steps of a short capture. If each of them retains the same, three are enough.
	fewSteps = 3
	// minSpan is the minimum spread of the rises as a share of the window: a burst is loaded data, not a leak.
	minSpan = 0.2
	// A floor has plateaued if its last rise is longer ago than maxSilence times the longest pause between two rises,
	// or than maxSilentShare of the window.
	maxSilence     = 3
	maxSilentShare = 1.0 / 3
	// minTailRate is the minimum rate of rises in the last third of the growth, as a share of the mean rate: a cache
	// fills more and more slowly. minFadingRate replaces it if the rises come early by Laplace's trend test at fading
	// (the one-sided 10 % point of the normal distribution): a cache may have filled at the site of a leak.
	minTailRate   = 0.25
	minFadingRate = 0.6
	fading        = -1.28
	// With fewer than enough rises, the longest pause is at most regular mean pauses: a few random rises may be a pool
	// that reaches its size.
	enough  = 6
	regular = 2
	// late is the age of an overdue buffer in lags.
	late = 1.3
	// queueShare is the minimum share of buffers that a queue frees in order of allocation.
	queueShare = 0.9
	// longer is the minimum ratio of the last waiting times of a backlog to the first ones.
	longer = 1.5
	// settled is the value of Laplace's test from which the second half of a rise is steady.
	settled = -1
	// lag is patience times the usual quantile of the lifetimes of the freed buffers.
	patience = 1.5
	usual    = 0.9
	// suspected is the number of rises that makes a suspected leak if the site freed nothing.
	suspected = minRises - 1
)

// leaking finds sites whose survivors grow in number until the end of the window.
//
// It measures progress in steps if the program marks them (see stepClock), else in work: the number of allocations so
// far, anywhere in the space, whose buffers were freed again. If nothing is ever freed, there are no iterations to
// compare and no verdict. For each stack, the floor at a moment is the lowest number of live buffers from then on: the
// buffers that were never freed. A leak is a floor that
//
//   - rises at least minRises times, spread over the window (not a burst, not a single allocation),
//   - rises until the end (not a plateau: a full cache, a buffer pool), at a rate that does not fade,
//   - without counting buffers that may still be freed, given the usual lifetime of their site (late frees: reference
//     cycles, buffers that are flushed from time to time, work in flight).
//
// The floor of a bounded cache is level, whichever of its buffers survive. Buffers that one forward pass retains until
// its end do not leak either: see calls.
//
// Stacks with too few rises are judged together with the others of their line: see leakTogether. A leak with one rise too few is suspected.
func leaking(p *Pass) []Finding {
	confirmed, suspicions := newPlaces(), newPlaces()
	lines, order := p.linesOf()
	leaks := map[lifetime.SiteID]bool{}
	for site, h := range p.unexplained() {
		least, sure := p.verdict(h)
		if least == 0 || p.isState(site) || p.inOneCall(site) || len(h.freed) > 0 && !p.gains(lines[p.PlaceOf(site)], p.rises(h)) {
			continue
		}
		if kept := p.survivors(h); p.grew(site, h, kept, int64(least)) && !p.inOneStep(kept) {
			to := suspicions
			if sure {
				to, leaks[site] = confirmed, true
			}
			to.at(p.PlaceOf(site)).merge(p.Space, site, kept, h)
		}
	}
	for _, place := range order {
		few := slices.DeleteFunc(lines[place].few, func(site lifetime.SiteID) bool { return leaks[site] })
		for _, site := range p.leakTogether(lines[place], few) {
			h := p.histories.sites[site]
			leaks[site] = true
			confirmed.at(place).merge(p.Space, site, p.survivors(h), h)
		}
		for _, site := range p.leakToo(lines[place], leaks) {
			h := p.histories.sites[site]
			confirmed.at(place).merge(p.Space, site, p.survivors(h), h)
		}
	}
	findings := confirmed.conclude(func(place lifetime.Place, f *Finding) bool {
		doubt := ""
		if p.loading(f) {
			doubt, f.loads = ", nothing else but their staging was freed: a leak, or a model that is loaded", true
		} else {
			f.Severity = Warning
		}
		p.concludeLeak(place, f, doubt)
		return true
	})
	findings = append(findings, suspicions.conclude(func(place lifetime.Place, f *Finding) bool {
		p.concludeLeak(place, f, ", too few to confirm a leak")
		return confirmed.found[place] == nil // a place has one finding
	})...)
	p.explain(findings)
	for i := range findings {
		if findings[i].loads {
			findings[i].Suggestions = []string{"Record the iterations after it too: loading ends, a leak goes on."}
		}
	}
	return findings
}

// verdict returns the number of survivors from which a site leaks, and whether the leak is then confirmed; 0 if the site does not leak.
func (p *Pass) verdict(h *history) (least int, sure bool) {
	switch rises, all := p.rises(h), p.histories; {
	case p.keepsMore(rises, h):
		return minRises, true
	case p.inEveryStep(h):
		return fewSteps, true
	case len(h.lifetimes) == 0 && h.older == 0 && len(rises) == suspected && all.keepsRising(rises, 0, suspected):
		return suspected, false
	}
	return 0, false
}

// inOneStep reports whether one of the known steps allocated all of some buffers: nothing grew from step to step.
func (p *Pass) inOneStep(kept []int) bool {
	return len(p.steps.Begins) > 0 && len(p.stepsOf(kept)) == 1
}

// grew reports whether a site gained at least so many survivors. If the window opens on a pool or cache in use, its new buffers have a site, but those
// that they replace are older and of unknown origin. The rest is growth; it must be at least half.
func (p *Pass) grew(site lifetime.SiteID, h *history, kept []int, least int64) bool {
	n := int64(len(kept))
	return n >= least && (site == 0 || n-p.histories.replaced(p.Space, h, kept) >= max(least, n/2))
}

// concludeLeak completes the finding of a place. doubt is the text of a suspected leak.
func (p *Pass) concludeLeak(place lifetime.Place, f *Finding, doubt string) {
	n := float64(f.Amount.Count)
	f.add(figure(FigSurvivors, n), figure(FigMeanBytes, float64(f.Amount.Bytes)/n))
	number := units.Count(f.Amount.Count)
	if f.Value(FigFreed) > 0 {
		number += " of " + units.Count(int64(f.Value(FigAllocated)))
	}
	parts := p.outlook(f, p.began(f), 0)
	if older := p.olderAt(place, f.Kept); older.Count >= minRises {
		parts = slices.Insert(parts, 0, fmt.Sprintf("%s older ones (%s) are alive, too", units.Count(older.Count), units.Bytes(older.Bytes)))
	}
	f.describe(place.String(), fmt.Sprintf("%s buffers (%s) were never freed%s", number, units.Bytes(f.Amount.Bytes), doubt), parts...)
}

// olderAt returns the live buffers of a place that are older than the recording and have a size of some others: they may have leaked, too.
func (p *Pass) olderAt(place lifetime.Place, like []int) (all lifetime.Amount) {
	sizes := map[int64]bool{}
	for _, i := range like {
		sizes[p.Space.Buffers[i].Requested] = true
	}
	for _, i := range p.olderAlive(place) {
		if b := &p.Space.Buffers[i]; sizes[b.Requested] {
			all.Add(amountOf(b))
		}
	}
	return all
}

func (p *Pass) olderAlive(place lifetime.Place) []int {
	if p.before == nil {
		p.before = map[lifetime.Place][]int{}
		for i, b := range p.Space.Buffers[:p.histories.older] {
			if b.Edge&lifetime.EndOpen != 0 && b.Site != 0 {
				at := p.PlaceOf(b.Site)
				p.before[at] = append(p.before[at], i)
			}
		}
	}
	return p.before[place]
}

// began returns the instant at which a leak began: when its first survivor was allocated. The survivors of a backlog
// are recent, so there it is the first rise of its floor.
func (p *Pass) began(f *Finding) int64 {
	first := slices.Min(f.Kept) // buffers are in order of allocation
	for _, site := range f.Sites {
		h := p.histories.sites[site]
		if rises := p.rises(h); len(rises) > 0 && len(h.freed) > len(h.open) && p.inOrder(h) {
			first = min(first, p.histories.older+max(rises[0].allocations-1, 0))
		}
	}
	return p.Space.Buffers[first].Begin
}

// keepsMore reports whether a site leaks: its floor rises, and buffers are overdue. Overdue buffers rule out a site with long, random lifetimes that is
// still filling. A backlog frees in order, later and later, and leaks without an overdue buffer.
func (p *Pass) keepsMore(rises []moment, h *history) bool {
	all, lag := p.histories, h.lag()
	if all.keepsRising(rises, lag, minRises) {
		return p.overdue(h) >= minRises || p.inOrder(h) && p.waitsLonger(h)
	}
	return all.steadyAtLast(rises, lag) && p.overdue(h) >= minRises
}

// overdue counts the survivors that are too old for a free that is merely late.
func (p *Pass) overdue(h *history) (n int) {
	lag := h.lag()
	for _, i := range h.open {
		if p.Space.Buffers[i].Edge&lifetime.Pending == 0 && float64(p.histories.age(i)) >= late*float64(lag) {
			n++
		}
	}
	return n
}

// inOrder reports whether a site frees its buffers in order of allocation. Those that it frees before its second next
// allocation are steps of a computation and wait in no queue.
func (p *Pass) inOrder(h *history) bool {
	n, waited, last := 0, 0, int32(-1)
	for _, f := range h.freed {
		next := sort.SearchInts(h.buffers, int(f.buffer)) + 2
		if next < len(h.buffers) && h.buffers[next]-p.histories.older >= int(f.allocations) {
			continue
		}
		waited++
		if f.buffer > last {
			n, last = n+1, f.buffer
		}
	}
	return float64(n) >= queueShare*float64(waited)
}

// waitsLonger reports whether a site frees its buffers later and later, as a backlog does. A working set that is
// replaced in every step may grow too, but each buffer lives as many steps as before. Without steps, work is the time.
func (p *Pass) waitsLonger(h *history) bool {
	third := len(h.freed) / 3
	if third == 0 {
		return true
	}
	wait := func(all []freed) (sum int) {
		for _, f := range all {
			b := &p.Space.Buffers[f.buffer]
			if len(p.steps.Begins) < leastLoop {
				sum += int(f.work - p.histories.borns[f.buffer])
				continue
			}
			sum += p.steps.At(b.End) - p.steps.At(b.Begin)
		}
		return sum
	}
	early, late := wait(h.freed[:third]), wait(h.freed[len(h.freed)-third:])
	return float64(late) > longer*float64(early) && late-early >= third // by a step, or an allocation, on average
}

// steadyAtLast reports whether a floor that rose faster at first rises at a steady rate in the second half. A cache that fills does not.
func (h *histories) steadyAtLast(rises []moment, lag int) bool {
	if len(rises) == 0 {
		return false
	}
	until := h.end.work - lag
	middle := (rises[0].work + until) / 2
	half := rises[sort.Search(len(rises), func(i int) bool { return rises[i].work >= middle }):]
	return len(half) >= 2*minRises && h.keepsRising(half, lag, minRises) && laplace(half, until) > settled
}

// inEveryStep reports whether a site retains the same number of buffers from each of fewSteps steps, and no others.
func (p *Pass) inEveryStep(h *history) bool {
	steps := p.steps
	if len(h.lifetimes) > 0 || h.older > 0 || steps.Source != program.Marked || len(steps.Begins) != fewSteps {
		return false
	}
	kept := map[int]int{} // buffers by step
	for _, i := range h.buffers {
		begin := p.Space.Buffers[i].Begin
		step := steps.At(begin)
		if step < 0 || begin >= steps.Ends[step] {
			return false
		}
		kept[step]++
	}
	for _, n := range kept {
		if len(kept) != fewSteps || n*fewSteps != len(h.buffers) {
			return false
		}
	}
	return len(kept) > 0
}

// keepsRising applies the thresholds to the moments at which a floor rose. Buffers allocated less than lag (in work)
// before the end may still be freed, so rises since then do not count.
func (h *histories) keepsRising(rises []moment, lag, least int) bool {
	until := h.end.work - lag
	counted := rises[:sort.Search(len(rises), func(i int) bool { return rises[i].work > until })]
	n := len(counted)
	if n < least {
		return false
	}
	first, last := counted[0], counted[n-1]
	distinct, pause := h.pauses(counted)
	minRate := minTailRate
	if laplace(counted, until) < fading {
		minRate = minFadingRate
	}
	tail := n - sort.Search(n, func(i int) bool { return counted[i].work >= until-(until-first.work)/3 })
	silent := until - last.work
	// Rises after until show that the floor is not level yet. The floor of a cache of long-lived buffers rises only
	// before.
	level := h.end.work - rises[len(rises)-1].work
	return distinct >= least &&
		float64(last.work-first.work) >= minSpan*float64(until) &&
		max(silent, level) <= maxSilence*pause.work &&
		float64(silent) <= maxSilentShare*float64(until) && float64(level) <= maxSilentShare*float64(h.end.work) &&
		(n >= enough || float64(pause.work)*float64(n-1) <= regular*float64(last.work-first.work)) &&
		// Without lag, the other clock shows whether the program moved on to other work.
		(lag > 0 || h.between(last.allocations, h.end.allocations) <= maxSilence*pause.allocations) &&
		float64(tail) >= minRate*float64(n)/3
}

// pauses returns the number of rises at distinct moments (in distinct steps, if steps are known) and the longest pause between two rises on each clock.
func (h *histories) pauses(rises []moment) (distinct int, longest moment) {
	distinct = 1
	for i := 1; i < len(rises); i++ {
		x, y := rises[i-1], rises[i]
		if y.work != x.work && (h.steps == nil || h.stepOf(y.work) != h.stepOf(x.work)) {
			distinct++
		}
		longest.work = max(longest.work, y.work-x.work)
		longest.allocations = max(longest.allocations, h.between(x.allocations, y.allocations))
	}
	return distinct, longest
}

// laplace returns the statistic of Laplace's trend test for a series of events, observed from the first one until a
// moment: about standard normal at a steady rate, negative if the events get rarer.
func laplace(rises []moment, until int) float64 {
	first, sum := rises[0].work, 0.0
	for _, r := range rises {
		sum += float64(r.work - first)
	}
	n := float64(len(rises))
	return (sum/n/float64(max(until-first, 1)) - 0.5) * math.Sqrt(12*n)
}

// The thresholds of loading.
const (
	stagingShare = 4    // a line belongs to the loop if it frees a buffer for each stagingShare retained ones
	maxPerKept   = 1.25 // freed buffers for each retained one
	manyRounds   = 200  // rounds that no model and no pass has
)

// loading reports whether a finding may be data that a program loads: steps are not marked, and all that the program
// frees, on all devices, are staging buffers, if any, that a line of the retaining function allocates. One layer, shard
// or request after the other, and one step after the other of a leak, then look the same.
func (p *Pass) loading(f *Finding) bool {
	loader, known := p.userFrame(f.Sites[0])
	if !known || p.program.At(f.Sites[0]).Computes() || len(p.steps.Begins) > 0 && !p.steps.Inferred() {
		return false
	}
	freed := p.freedSites()
	lines, all := map[lifetime.Place]int64{}, int64(0)
	for site, n := range freed {
		lines[p.PlaceOf(site)] += n
	}
	maps.DeleteFunc(lines, func(_ lifetime.Place, n int64) bool { return n*stagingShare < f.Amount.Count })
	for _, n := range lines {
		all += n
	}
	if len(freed) == 0 {
		return true // no step did any work
	}
	if len(lines) != 1 || float64(all) > maxPerKept*float64(f.Amount.Count) || p.diedLate(f, all) {
		return false
	}
	for site := range freed {
		if lines[p.PlaceOf(site)] > 0 && (p.program.At(site).Computes() ||
			!p.anyFrame(site, func(o *frame.Frame) bool { return o.Function == loader.Function && o.File == loader.File })) {
			return false
		}
	}
	return true
}

// diedLate reports whether the program ran out of memory after many rounds of what a finding is about: certainSteps that are known, as many buffers in a
// container that the recorder saw, or manyRounds that each freed a buffer. Few models have as many equal pieces; fewer say neither.
func (p *Pass) diedLate(f *Finding, freed int64) bool {
	if _, fatal := p.failures(); !fatal || f.Amount.Count < certainSteps {
		return false
	}
	return len(p.steps.Begins) >= certainSteps || inContainer(p.heldOf(f.Kept)) || min(freed, f.Amount.Count) >= manyRounds
}

func (p *Pass) userFrame(site lifetime.SiteID) (user frame.Frame, known bool) {
	for f := range p.FramesOf(p.Sites[site].Stack) {
		if f.Kind == frame.User && f.Function != "<module>" {
			return *f, true
		}
	}
	return frame.Frame{}, false
}

// freedSites returns how many buffers of each site were allocated and freed in the recording, on all devices, without bystanders'.
func (p *Pass) freedSites() map[lifetime.SiteID]int64 {
	freed := map[lifetime.SiteID]int64{}
	for _, s := range p.Spaces {
		e := p.program.Evidence(s)
		for i := range s.Buffers {
			if b := &s.Buffers[i]; e.Has(i) && b.Edge&(lifetime.EndOpen|lifetime.BeginUnseen) == 0 {
				freed[b.Site]++
			}
		}
	}
	return freed
}

const (
	criticalBytes  = 1 << 30  // occupied bytes from which a leak is critical
	leastLeakBytes = 32 << 10 // occupied bytes below which a leak is not worth a warning
	certainSteps   = 50       // steps that make a leak certain: caches of a few dozen entries are full by then

	// A leak is critical if it reaches the limit of the device within horizon steps, or within windows times the
	// recorded steps.
	horizon = 1000
	windows = 10

	early = 10 // the text omits where a leak began if that is in the first tenth of the steps
)

// outlook adds evidence to a leak: since when and how fast it grows, and when it reaches the limit. It returns the same as parts of the text, the most
// important first. replaced is the size of the largest buffer that is copied into a larger one again and again, beside which it is in use; 0 = none is.
func (p *Pass) outlook(f *Finding, began, replaced int64) []string {
	n := len(p.steps.Begins)
	f.add(figure(FigBeganAfter, began-p.Space.Begin), figure(FigSteps, n))
	if f.Severity == Warning && f.Amount.Bytes >= p.critical() {
		f.Severity = Critical
	}
	growth, few, limit := "it grows until the recording ends", "", ""
	if n > 0 {
		first := max(p.steps.At(began), 0)
		f.add(figure(FigBeganStep, first+p.steps.Lost))
		if p.steps.Inferred() {
			f.add(figure(FigInferred, 1))
		}
		growth, limit = p.growth(f, n, first), p.project(f, n, first, replaced)
	}
	if n > 0 && n < certainSteps {
		few = fmt.Sprintf("only %d steps were recorded; about %d are needed to rule out a cache that is still filling", n, certainSteps)
	}
	if lost := p.steps.Lost; lost > 0 {
		few = fmt.Sprintf("the history begins at step %s of %s, the ring buffer dropped what was before",
			units.Count(int64(lost)), units.Count(int64(lost+n)))
	}
	if f.Severity == Critical { // perhaps because of the limit
		few, limit = limit, few
	}
	return []string{growth, few, limit, p.released(f, began)}
}

// undecidable reports whether a leak by number may as well be a cache or pool that is still filling: nothing marks the
// steps, fewer than enough buffers were retained, and no cause shows a leak.
func (p *Pass) undecidable(f *Finding) bool {
	return f.Amount.Count < enough && (len(p.steps.Begins) == 0 || p.steps.Inferred()) &&
		(f.Cause == Collection || f.Cause == UnboundedCache)
}

// growth sets BytesPerStep and returns it as a part of the text. What stacks retain of fewer than minRises steps in all, such as an evaluation
// after the loop, or what each run of it makes once, does not grow.
func (p *Pass) growth(f *Finding, n, first int) string {
	var few []int
	for _, site := range f.Sites {
		if kept := p.survivors(p.histories.sites[site]); len(p.stepsOf(kept)) < minRises {
			few = append(few, kept...)
		}
	}
	bytes := int64(0)
	for _, i := range few {
		bytes += p.Space.Buffers[i].Size
	}
	if len(p.stepsOf(few)) >= minRises || bytes >= f.Amount.Bytes { // many call paths, or all is of few steps
		bytes = 0
	}
	f.BytesPerStep = float64(f.Amount.Bytes-bytes) / float64(n)
	rate := units.Bytes(int64(math.Round(f.BytesPerStep)))
	if first > n/early {
		return fmt.Sprintf("it began at step %s of %s and grows %s per step on average over all steps",
			units.Count(int64(first+p.steps.Lost)), units.Count(int64(n+p.steps.Lost)), rate)
	}
	return fmt.Sprintf("it grows %s per step until the recording ends", rate)
}

func (p *Pass) critical() int64 { return cmp.Or(p.Critical, criticalBytes) }

// project returns, as a part of the text, the step in which a leak reaches the limit of the device at its rate since
// its first step; "" if the limit is unknown.
func (p *Pass) project(f *Finding, n, first int, replaced int64) string {
	limit := p.limit()
	rate := f.BytesPerStep * float64(n) / float64(n-first)
	if limit <= 0 || rate <= 0 {
		return ""
	}
	left := math.Max(0, float64(limit-p.atEnd()-replaced))
	more := math.Ceil(left / (rate * (1 + float64(replaced)/float64(f.Amount.Bytes))))
	at := float64(n+p.steps.Lost) + more
	f.add(figure(FigLimit, limit), figure(FigProjected, at))
	if f.Severity == Warning && more <= math.Max(horizon, windows*float64(n)) {
		f.Severity = Critical
	}
	return fmt.Sprintf("it reaches the capacity of %s at about step %s", units.Bytes(limit), units.Count(int64(at)))
}

// released returns, as a part of the text, how many regions the allocator returned to the device after an instant (for
// empty_cache, or to make room); "" for none.
func (p *Pass) released(f *Finding, since int64) string {
	if p.releases == nil {
		p.releases = []int64{}
		for i := range p.Space.Regions {
			if r := &p.Space.Regions[i]; r.Edge&lifetime.EndOpen == 0 {
				p.releases = append(p.releases, r.End)
			}
		}
		slices.Sort(p.releases)
	}
	n := len(p.releases) - sort.Search(len(p.releases), func(i int) bool { return p.releases[i] > since })
	if n == 0 {
		return ""
	}
	f.add(figure(FigOutlives, n))
	return fmt.Sprintf("empty_cache does not help: the buffers outlived %s of cached memory", units.Plural(n, "release"))
}
