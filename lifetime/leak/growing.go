package leak

import (
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of growing.
const (
	// minRises is how often the floor of a site must rise. Three kept buffers
	// are too common in healthy programs.
	minRises = 4
	// fewSteps is the number of marked steps of which each must keep as much,
	// where there are no more: three kept buffers are then no chance.
	fewSteps = 3
	// minSpan is the share of the window over which the rises must spread: a
	// burst is something that was loaded, not a leak.
	minSpan = 0.2
	// maxSilence bounds the time since the last rise, in longest pauses between
	// two rises, and maxSilentShare as a share of the window: a floor that is
	// silent for longer has plateaued.
	maxSilence     = 3
	maxSilentShare = 1.0 / 3
	// minTailRate is the rate of rises in the last third of the growth, as a
	// share of the mean rate: a cache that fills gets slower and slower. Where
	// the rises as a whole come early, by Laplace's trend test at fading (the
	// one-sided 10 % point of the normal distribution), it is minFadingRate: a
	// cache may have filled at the site of a leak, but the leak must show.
	minTailRate   = 0.25
	minFadingRate = 0.6
	fading        = -1.28
	// regular is how many mean pauses the longest one may last where there are
	// fewer rises than enough: a few that come at random may as well be a pool on
	// its way to its size.
	enough  = 6
	regular = 2
	// late is how many lags a buffer must be old to be overdue.
	late = 1.3
	// queueShare is the share of its buffers that a queue frees in the order of their
	// allocation.
	queueShare = 0.9
	// settled is the trend from which on the second half of a rise is steady.
	settled = -1
	// patience is how much older than the usual freed buffer of its site a
	// buffer must be before its free is overdue. usual is the quantile taken.
	patience = 1.5
	usual    = 0.9
	// suspected is the number of rises that is worth a word where nothing that a
	// site allocated was freed.
	suspected = minRises - 1
)

// growing finds sites whose survivors keep piling up to the end of the window.
//
// Progress is measured in work: the number of allocations so far, anywhere in
// the space, whose buffers were freed again. Where nothing is ever freed there
// are no iterations to compare, and no verdict. For each stack, the floor at a
// moment is the lowest number of its live buffers from then on: what was never
// given back. A leak is a floor that
//
//   - rises at least minRises times, spread over the window (not a burst, not
//     something allocated once),
//   - rises to the end (not a plateau: a cache that is full, a buffer pool), at
//     a rate that does not fade,
//   - not counting buffers that are younger than the usual lifetime of their
//     site allows (frees that lag: reference cycles, buffers that are flushed
//     now and then, work in flight).
//
// A bounded cache keeps its floor level, whichever of its buffers survive. What
// piles up during one forward pass is no leak either: see calls.
//
// A leak with one rise too few is a suspicion.
func growing(l Look) []Finding {
	if !l.dynamic() {
		return nil
	}
	h := l.history()
	confirmed, suspicions := newPlaces(), newPlaces()
	for _, site := range h.order {
		hist := h.sites[site]
		least, sure := l.verdict(hist)
		if least == 0 || !l.wants(site) || l.inOneCall(site) {
			continue
		}
		to := confirmed
		if !sure {
			to = suspicions
		}
		kept := l.survivors(hist)
		n := int64(len(kept))
		if n < int64(least) {
			continue
		}
		// Where the window opens on a buffer pool or cache in use, what is added
		// shows under its site, but what goes is older and of unknown origin. The
		// rest is what has grown; it must be the larger part.
		if site != 0 && n-h.replaced(l.Space, hist, kept) < max(int64(least), n/2) {
			continue
		}
		to.at(l.PlaceOf(site)).merge(l.Space, site, kept, hist)
	}
	var findings []Finding
	for i, p := range append(confirmed.order, suspicions.order...) {
		f, severity := confirmed.found[p], Warning
		if i >= len(confirmed.order) {
			if f != nil { // there is more to say of the place
				continue
			}
			f, severity = suspicions.found[p], Info
		}
		f.Severity = severity
		l.conclude(f, p)
		findings = append(findings, *f)
	}
	l.explain(findings)
	return findings
}

// verdict returns how many survivors a site must have to leak, and whether it then
// does for sure; 0 where it does not leak.
func (l Look) verdict(hist *history) (least int, sure bool) {
	switch rises, h := hist.rises(), l.history(); {
	case l.keepsMore(rises, hist):
		return minRises, true
	case l.inEveryStep(hist):
		return fewSteps, true
	case len(hist.lifetimes) == 0 && hist.older == 0 && len(rises) == suspected && h.keepsRising(rises, 0, suspected):
		return suspected, false
	}
	return 0, false
}

// keepsMore reports whether a site leaks: its floor rises, and buffers are
// overdue. A site whose buffers live long and end at random may have as many
// young ones as it likes while it fills. A queue is another matter: it frees in
// order, so that one that gets longer has no old buffer, and will not get short.
func (l Look) keepsMore(rises []moment, hist *history) bool {
	h, lag := l.history(), hist.lag()
	if h.keepsRising(rises, lag, minRises) {
		return l.overdue(hist) >= minRises || hist.inOrder()
	}
	return h.steadyAtLast(rises, lag) && l.overdue(hist) >= minRises
}

// overdue counts the survivors that are too old to be freed in time.
func (l Look) overdue(hist *history) (n int) {
	h, lag := l.history(), hist.lag()
	for _, i := range hist.open {
		if l.Space.Buffers[i].Edge&lifetime.Pending == 0 && float64(h.end.work-h.born(i)) >= late*float64(lag) {
			n++
		}
	}
	return n
}

// inOrder reports whether a site frees its buffers in the order of their
// allocation.
func (h *history) inOrder() bool {
	n, last := 0, int32(-1)
	for _, f := range h.freed {
		if f.buffer > last {
			n++
			last = f.buffer
		}
	}
	return float64(n) >= queueShare*float64(len(h.freed))
}

// steadyAtLast reports whether a floor that rose faster at first has settled to a
// steady rate in the second half of its rise: a cache that fills does not.
func (h *histories) steadyAtLast(rises []moment, lag int) bool {
	if len(rises) == 0 {
		return false
	}
	until := h.end.work - lag
	middle := (rises[0].work + until) / 2
	half := rises[sort.Search(len(rises), func(i int) bool { return rises[i].work >= middle }):]
	return len(half) >= 2*minRises && h.keepsRising(half, lag, minRises) && trend(half, until) > settled
}

// places are the findings of a rule by place, in order of their appearance.
type places struct {
	found map[lifetime.Place]*Finding
	order []lifetime.Place
}

func newPlaces() *places { return &places{found: map[lifetime.Place]*Finding{}} }

func (p *places) at(where lifetime.Place) *Finding {
	f := p.found[where]
	if f == nil {
		f = &Finding{}
		p.found[where] = f
		p.order = append(p.order, where)
	}
	return f
}

// inEveryStep reports whether a site keeps the same number of buffers of every
// one of the few steps that the capture has, and nothing else.
func (l Look) inEveryStep(h *history) bool {
	if len(h.lifetimes) > 0 || h.older > 0 || len(l.markedSteps()) != fewSteps {
		return false
	}
	kept := map[int]int{} // by step
	for _, i := range h.buffers {
		begin := l.Space.Buffers[i].Begin
		step := slices.IndexFunc(l.markedSteps(), func(m lifetime.Mark) bool { return m.Begin <= begin && begin < m.End })
		if step < 0 {
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

// keepsRising applies the thresholds to the moments at which a floor rose.
// Buffers that were allocated less than lag before the end, in work, may still
// be freed in time: rises since then do not count.
func (h *histories) keepsRising(rises []moment, lag, least int) bool {
	end := h.end
	until := end.work - lag
	counted := rises[:sort.Search(len(rises), func(i int) bool { return rises[i].work > until })]
	n := len(counted)
	if n < least {
		return false
	}
	first, last := counted[0], counted[n-1]
	distinct := 1    // rises that are not of one moment or, where steps are known, of one step
	var pause moment // the longest on each clock
	for i := 1; i < n; i++ {
		if counted[i].work != counted[i-1].work && (h.steps == nil || h.stepOf(counted[i].work) != h.stepOf(counted[i-1].work)) {
			distinct++
		}
		pause.work = max(pause.work, counted[i].work-counted[i-1].work)
		pause.allocations = max(pause.allocations, counted[i].allocations-counted[i-1].allocations)
	}
	minRate := minTailRate
	if trend(counted, until) < fading {
		minRate = minFadingRate
	}
	tail := n - sort.Search(n, func(i int) bool { return counted[i].work >= until-(until-first.work)/3 })
	silent := until - last.work
	// Rises that do not count yet still tell that the floor is not level: a
	// cache of long-lived buffers rises only before until, and then no more.
	level := end.work - rises[len(rises)-1].work
	return distinct >= least &&
		float64(last.work-first.work) >= minSpan*float64(until) &&
		max(silent, level) <= maxSilence*pause.work &&
		float64(silent) <= maxSilentShare*float64(until) && float64(level) <= maxSilentShare*float64(end.work) &&
		(n >= enough || float64(pause.work)*float64(n-1) <= regular*float64(last.work-first.work)) &&
		// Without lag the other clock tells whether the program went on to other things.
		(lag > 0 || end.allocations-last.allocations <= maxSilence*pause.allocations) &&
		float64(tail) >= minRate*float64(n)/3
}

// trend is Laplace's statistic of a series of events that is watched from the
// first one until a moment: about standard normal when they come at a steady
// rate, negative when they come less and less often.
func trend(rises []moment, until int) float64 {
	first := rises[0].work
	sum := 0.0
	for _, r := range rises {
		sum += float64(r.work - first)
	}
	n := float64(len(rises))
	return (sum/n/float64(max(until-first, 1)) - 0.5) * math.Sqrt(12*n)
}

// merge adds the survivors of one stack to the finding of its place.
func (f *Finding) merge(s *lifetime.Space, site lifetime.SiteID, kept []int, h *history) {
	f.Sites = append(f.Sites, site)
	f.Kept = append(f.Kept, kept...)
	for _, i := range kept {
		b := &s.Buffers[i]
		f.Amount.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
	}
	f.addEvidence("allocated", float64(h.allocated))
	f.addEvidence("freed", float64(len(h.lifetimes)))
	f.addEvidence("older_than_window", float64(h.older))
}

// count returns n in digits, 0 as a word.
func count(n int64, zero string) string {
	if n == 0 {
		return zero
	}
	return units.Count(n)
}
