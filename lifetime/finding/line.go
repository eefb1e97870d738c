package finding

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
)

type line struct {
	sites []lifetime.SiteID
	few   []lifetime.SiteID // those that retain buffers, with too few rises for a verdict of their own

	rises []moment // of all stacks together; computed when first needed
}

// minTogether is the minimum number of survivors of a line that is judged as a whole.
const minTogether = 2 * minRises

// linesOf returns the lines of the sites that no earlier rule has explained.
func (p *Pass) linesOf() (lines map[lifetime.Place]*line, order []lifetime.Place) {
	lines = map[lifetime.Place]*line{}
	for site, h := range p.unexplained() {
		if p.isState(site) {
			continue
		}
		place := p.PlaceOf(site)
		l := lines[place]
		if l == nil {
			l = &line{}
			lines[place], order = l, append(order, place)
		}
		l.sites = append(l.sites, site)
		if rises := p.rises(h); len(h.open) > 0 && (len(rises) < enough || len(rises) < 2*enough && p.recent(rises)) {
			l.few = append(l.few, site)
		}
	}
	return lines, order
}

// isState reports whether the producer recorded that the buffers of a site are parameters or the state of an optimizer.
func (p *Pass) isState(site lifetime.SiteID) bool {
	h := p.histories.sites[site]
	if len(h.buffers) == 0 {
		return false
	}
	of := p.Purpose(p.Space.PurposeOf(h.buffers[0]))
	return of.Evidence == purpose.FromRecord && (of.Category == purpose.ModelParameter || of.Category == purpose.OptimizerState)
}

// recent reports whether a floor rose in the last third of the window.
func (p *Pass) recent(rises []moment) bool {
	end := p.histories.end.work
	return float64(end-rises[len(rises)-1].work) <= maxSilentShare*float64(end)
}

// leakTogether judges some stacks of a line as one: a line that leaks through many call paths may retain few buffers through each. It returns those with
// survivors, none if they do not leak. Paths with one buffer each are a loop over different callers, such as the layers of a model.
func (p *Pass) leakTogether(l *line, sites []lifetime.SiteID) (with []lifetime.SiteID) {
	var kept []int
	for _, site := range sites {
		if more := p.survivors(p.histories.sites[site]); len(more) > 0 {
			kept, with = append(kept, more...), append(with, site)
		}
	}
	if len(kept) < minTogether || len(with) < 2 || len(kept) <= len(with) && len(kept) <= p.callers(with) {
		return nil
	}
	all := p.merged(sites)
	rises := p.rises(all)
	if !p.keepsMore(rises, all) || !p.gains(l, rises) || slices.ContainsFunc(sites, p.inOneCall) ||
		!p.grew(sites[0], all, kept, minTogether) {
		return nil
	}
	return with
}

// byChance is the probability below which it is no chance that a stack of a leaking line retains nothing more.
const byChance = 0.01

// leakToo returns the stacks of a line that retain buffers like those of the line that leak. Some have the same frames
// but those of the interpreter, which runs a call in another way when it has seen it often. Others free nothing, and
// their last buffer is long ago by chance: a line that leaks through many call paths goes on through others.
func (p *Pass) leakToo(l *line, leaks map[lifetime.SiteID]bool) (more []lifetime.SiteID) {
	first, end := math.MaxInt, p.histories.end.work
	same := map[int]bool{}
	for _, site := range l.sites {
		if leaks[site] {
			first = min(first, p.rises(p.histories.sites[site])[0].work)
			same[p.callPath(site)] = true
		}
	}
	if first == math.MaxInt {
		return nil
	}
	for _, site := range l.sites {
		h := p.histories.sites[site]
		rises := p.rises(h)
		if leaks[site] || len(h.freed) > 0 || len(rises) == 0 || len(p.survivors(h)) == 0 {
			continue
		}
		going := float64(rises[len(rises)-1].work-first) / float64(max(end-first, 1)) // share of the time
		if going > 0 && math.Pow(going, float64(len(rises)))*float64(len(l.sites)) >= byChance || same[p.callPath(site)] {
			more = append(more, site)
		}
	}
	return more
}

// callPath returns the number of the stack of a site without its native frames, 0 if it has no others.
func (p *Pass) callPath(site lifetime.SiteID) int {
	return p.python.number(&p.Tables, p.Sites[site].Stack, func(f *frame.Frame) (string, bool) {
		return f.Function, f.Kind <= frame.Framework
	})
}

// gains reports whether a line gains buffers in the last third of the rises of some of its stacks. A bounded queue
// holds buffers of several stacks, and the share of each varies. What the line allocates in a short time only and
// frees, such as a model that a trainer moves to the device and back, is in no queue.
func (p *Pass) gains(l *line, own []moment) bool {
	if len(l.sites) < 2 || len(own) == 0 {
		return true
	}
	if l.rises == nil {
		last := float64(p.histories.between(0, p.histories.end.allocations))
		l.rises = p.rises(p.merged(slices.DeleteFunc(slices.Clone(l.sites), func(site lifetime.SiteID) bool {
			h := p.histories.sites[site]
			return len(h.open) == 0 && (len(h.buffers) == 0 || float64(p.histories.Between(h.buffers[0], h.buffers[len(h.buffers)-1])) < minSpan*last)
		})))
	}
	all, third := l.rises, own[2*(len(own)-1)/3:]
	since := len(all) - sort.Search(len(all), func(i int) bool { return all[i].allocations >= third[0].allocations })
	return 2*since >= len(third)
}

// merged returns the history of several sites as if they were one. Levels lack buffers that are older than the window if their site retains nothing.
func (p *Pass) merged(sites []lifetime.SiteID) *history {
	all := &history{}
	var buffers, open runs[int]
	var frees runs[freed]
	var changes runs[level]
	for _, site := range sites {
		h := p.histories.sites[site]
		all.allocated += h.allocated
		buffers.add(h.buffers)
		open.add(h.open)
		frees.add(h.freed)
		all.lifetimes = append(all.lifetimes, h.lifetimes...)
		levels, alive := h.levels, int32(h.older)
		if levels == nil {
			levels, alive = p.levelsOf(h), 0
		}
		all.older += int(alive)
		bytes := int64(0)
		for _, l := range levels {
			l.alive, alive = l.alive-alive, l.alive // the change
			l.bytes, bytes = l.bytes-bytes, l.bytes
			changes.all = append(changes.all, l)
		}
		changes.end()
	}
	all.buffers, all.open = buffers.merged(cmp.Compare), open.merged(cmp.Compare)
	all.freed = frees.merged(func(x, y freed) int {
		if c := cmp.Compare(x.allocations, y.allocations); c != 0 { // allocations and ends grow with time
			return c
		}
		return cmp.Compare(p.Space.Buffers[x.buffer].End, p.Space.Buffers[y.buffer].End)
	})
	all.levels = changes.merged(func(x, y level) int { // frees come after the allocation that they are counted from
		if c := cmp.Compare(x.allocations, y.allocations); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(y.alive, x.alive), cmp.Compare(x.work, y.work))
	})
	alive, bytes := int32(all.older), int64(0)
	for i := range all.levels {
		l := &all.levels[i]
		alive, bytes = alive+l.alive, units.AddSat(bytes, l.bytes)
		l.alive, l.bytes = alive, bytes
	}
	return all
}

// runs are sorted lists, one after the other. A stable sort, which does not know where they begin, takes three times as long to merge them.
type runs[T any] struct {
	all  []T
	ends []int
}

func (r *runs[T]) add(list []T) {
	r.all = append(r.all, list...)
	r.end()
}

func (r *runs[T]) end() { r.ends = append(r.ends, len(r.all)) }

// merged returns the elements of all lists in order, equal ones in that of their lists.
func (r *runs[T]) merged(compare func(x, y T) int) []T {
	from, to, ends := r.all, make([]T, len(r.all)), r.ends
	for len(ends) > 1 {
		begin, longer := 0, ends[:0] // in the places of those that are merged
		for i := 0; i < len(ends); i += 2 {
			middle, end := ends[i], ends[min(i+1, len(ends)-1)]
			first, second, out := from[begin:middle], from[middle:end], to[begin:end]
			for ; len(first) > 0 && len(second) > 0; out = out[1:] {
				if compare(first[0], second[0]) <= 0 {
					out[0], first = first[0], first[1:]
				} else {
					out[0], second = second[0], second[1:]
				}
			}
			copy(out[copy(out, first):], second)
			begin, longer = end, append(longer, end)
		}
		from, to, ends = to, from, longer
	}
	return from
}

// levelsOf returns the levels of a site that retains nothing, which newHistories omits.
func (p *Pass) levelsOf(h *history) (levels []level) {
	now, next := level{}, 0
	free := func(until int) {
		for ; next < len(h.freed) && int(h.freed[next].allocations) <= until; next++ {
			f := &h.freed[next]
			now = level{f.work, f.allocations, now.alive - 1, now.bytes - p.Space.Buffers[f.buffer].Requested}
			levels = append(levels, now)
		}
	}
	for _, i := range h.buffers {
		free(i - p.histories.older)
		now = level{p.histories.borns[i], int32(i-p.histories.older) + 1, now.alive + 1, now.bytes + p.Space.Buffers[i].Requested}
		levels = append(levels, now)
	}
	free(math.MaxInt)
	return levels
}
