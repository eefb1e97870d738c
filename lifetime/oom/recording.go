package oom

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/lifetime/selection"
)

// recorded judges a recorded failure from the recording until it: a leak, other settings of the allocator, or less memory of the
// largest holder would have helped.
type recorded struct {
	*Diagnosis
	t      *lifetime.Tables
	facts  Facts
	until  *lifetime.Space // the recording up to the failure
	grown  []Grown         // until the failure
	fitted bool            // with another setting the request would have fitted, and for long what comes next
	delay  string          // how long another setting delays the failure; "" = not known, or none does
}

func judgeRecording(t *lifetime.Tables, d *Diagnosis, facts Facts) {
	alone := &lifetime.Capture{Tables: *t, Spaces: []*lifetime.Space{d.Space}}
	alone = selection.Slice(alone, d.Space.Begin, d.Mark.Begin+1)
	j := &recorded{Diagnosis: d, t: t, facts: facts, until: alone.Spaces[0]}
	d.Released, d.Retries = j.retries()
	if d.Space.Axis == lifetime.ProgramOrder {
		return
	}
	j.grown = facts.Leaks(j.until)
	j.holding()
	if d.Reason == Fragmented {
		d.Words = j.pieces()
	}
	if d.Reason != Limit && d.Reason != Larger {
		j.replay()
	}
	if d.Reason == Fragmented && d.Mark.Requested <= mib && d.usable.Largest >= d.Mark.Requested {
		d.Words += "; the largest free block is for requests of more than 1 MiB"
	}
	if free := d.Mark.Free.Or(-1); d.Reason == Fragmented && free >= segmentFor(d.Mark.Requested) {
		d.Words += "; the device had " + units.Bytes(free) + " more, which a limit of the program keeps from it"
	}
	cycle, waiting := j.cycles()
	fits := waiting > 0 && leakFilled(&j.Failure, j.Mark, j.Reason, waiting, j.fitted)
	j.nameLeak()
	if j.delay != "" {
		j.Proof = strings.TrimPrefix(j.Proof+"; "+j.delay, "; ")
	}
	if fits {
		j.Proof = j.without(waiting)
		j.Advice = fmt.Sprintf("Break the cycle %s with del or weakref, or call gc.collect(): %s wait in it.", cycle, units.Bytes(waiting))
	}
}

// cycles returns the classes of the largest reference cycle at the failure, and the bytes that wait in all for the garbage collector, as
// the recorder saw.
func (j *recorded) cycles() (largest string, waiting int64) {
	bytes := map[string]int64{}
	for _, i := range j.Space.LiveAt(j.Mark.Begin) {
		h := j.t.HolderOf(j.Space, i)
		if h == nil || h.Kind != holder.ByCycle {
			continue
		}
		by, size := holder.FoldIndexes(h.Path), j.Space.Buffers[i].Size
		bytes[by], waiting = units.AddSat(bytes[by], size), units.AddSat(waiting, size)
		if bytes[by] > bytes[largest] || bytes[by] == bytes[largest] && by < largest {
			largest = by
		}
	}
	return largest, waiting
}

// retries returns the bytes that the allocator gave back to the device right before the failure, to make room, and how often it
// had done this before with success.
func (j *recorded) retries() (released, earlier int64) {
	s := j.until
	type event struct {
		t    int64
		kind int8 // 0 = a buffer began or ended, or a request failed, 1 = a segment was reserved, 2 = one was given back
		size int64
	}
	var events []event
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Begin > s.Begin {
			events = append(events, event{r.Begin, 1, 0})
		}
		if r.Edge&(lifetime.EndOpen|lifetime.EndInferred) == 0 {
			events = append(events, event{r.End, 2, r.Size})
		}
	}
	for i := range s.Marks {
		if mark := &s.Marks[i]; mark.Kind == lifetime.OOM && mark.Begin < j.Mark.Begin {
			events = append(events, event{mark.Begin, 0, 0})
		}
	}
	for c := range s.Changes() {
		if c.T > s.Begin && c.T < s.End {
			events = append(events, event{c.T, 0, 0})
		}
	}
	slices.SortStableFunc(events, func(x, y event) int { return cmp.Compare(x.t, y.t) })
	for _, e := range events {
		switch {
		case e.kind == 2:
			released = units.AddSat(released, e.size)
			continue
		case e.kind == 1 && released > 0:
			earlier++
		}
		released = 0
	}
	return released, earlier
}

// nameLeak makes leaks the reason if the request would have fit without them, and names the largest in any case.
func (j *recorded) nameLeak() {
	found := slices.DeleteFunc(slices.Clone(j.grown), func(g Grown) bool { return g.Loads })
	if len(found) == 0 {
		return
	}
	leaked := j.bytesOf(found)
	top := slices.MaxFunc(found, func(x, y Grown) int { return cmp.Compare(x.Amount.Bytes, y.Amount.Bytes) })
	j.Leak = &top
	if !leakFilled(&j.Failure, j.Mark, j.Reason, leaked, j.fitted) {
		return
	}
	j.because(j.t, &row{reason: Leak})
	j.Confidence = min(j.Confidence, top.Confidence)
	j.Advice = cmp.Or(top.Advice, "Fix the leak in "+j.t.PlaceOf(top.Site).String()+".")
	j.Proof = j.without(leaked)
}

func (j *recorded) bytesOf(grown []Grown) (bytes int64) {
	seen := map[int]bool{}
	for i := range grown {
		for _, b := range grown[i].Kept {
			if !seen[b] {
				bytes = units.AddSat(bytes, j.until.Buffers[b].Size)
			}
			seen[b] = true
		}
	}
	return bytes
}

// without says what would have been in use at the failure.
func (j *recorded) without(bytes int64) string {
	return fmt.Sprintf("without it %s would be in use instead of %s", units.Bytes(j.Live-bytes), units.Bytes(j.Live))
}

// leakFilled reports whether a recorded failure is due to leaked bytes: without them the request would have fit. without is the
// reason that the failure has else. Pieces of free memory must weigh less than the leak if they can be joined by other settings.
func leakFilled(state *failure.Failure, failed *lifetime.Mark, without Reason, leaked int64, joined bool) bool {
	const notable = 0.05 // of the live bytes
	unallocated := max(state.Unallocated, 0)
	fits := false
	switch without {
	case Exhausted, Outside:
		fits = units.AddSat(leaked, units.AddSat(unallocated, failed.Free.Or(0))) >= failed.Requested
	case Limit: // keeps what the device has free from the program
		fits = units.AddSat(leaked, unallocated) >= failed.Requested
	case Fragmented, PrivatePools:
		fits = leaked >= failed.Requested && (!joined || leaked >= unallocated)
	default:
		return false
	}
	return fits && float64(leaked) >= notable*float64(state.Live)
}

// holding advises to hold less at the place that held most, and computes the peak up to the failure without its buffers.
func (j *recorded) holding() {
	if j.Reason != Exhausted || j.single() || j.until.UsageOnly() {
		return
	}
	held := map[lifetime.Place]int64{}
	var top lifetime.Place
	for _, row := range j.Space.Breakdown(j.Mark.Begin) {
		place := j.t.PlaceOf(row.Site)
		if row.Kind.OfBuffers() && ofProgram(place) {
			if held[place] = units.AddSat(held[place], row.Bytes); held[place] > held[top] {
				top = place
			}
		}
	}
	if held[top] == 0 {
		return
	}
	name, sizes := top.String(), sizesOf(j.until)
	all, matches := peakWith(j.until, sizes), map[lifetime.SiteID]bool{}
	for i := range sizes {
		site := j.until.Buffers[i].Site
		yes, known := matches[site]
		if !known {
			yes = j.t.PlaceOf(site) == top
			matches[site] = yes
		}
		if yes {
			sizes[i] = 0
		}
	}
	without := peakWith(j.until, sizes)
	j.Advice = fmt.Sprintf("Hold less at %s: a smaller batch, activation checkpointing, or a narrower type.", name)
	j.Proof = fmt.Sprintf("without the buffers of %s the peak until then is %s instead of %s", name, units.Bytes(without), units.Bytes(all))
}

// replay tries settings of PyTorch's allocator, and makes fragmentation the reason if the request would have fit with one.
func (j *recorded) replay() {
	h := j.facts.Replay(j.until)
	if h == nil || h.Capacity() == 0 || h.Refused != "" {
		j.unproved()
		return
	}
	device := replay.Device{Capacity: h.Capacity()}
	own := h.RunBoth(h.Settings, device)
	if !own.OOM { // the replay does not have the failure
		j.unproved()
		return
	}
	j.Replayed = &Replayed{Recorded: own.PeakReserved}
	if own.Exact { // a snapshot has no longer the sizes of blocks that were given back
		j.Live, j.Unallocated = own.Live, max(j.Reserved-own.Live-max(j.Idle, 0), 0)
		j.LargestFree = min(j.LargestFree, j.Unallocated)
	}
	o, sure := h.Past(device)
	switch {
	case sure && !o.OOM && j.delays(&o, h.Capacity()):
		j.holding()
		return
	case sure && !o.OOM:
		j.proved(&o, &h.Law)
		return
	case j.Reason != Fragmented || !o.OOM || j.elsewhere >= j.Mark.Requested:
		j.unproved()
		return
	}
	if j.Advice = j.fewSizes(); sure {
		j.Proof = "other settings would not have helped, replayed exactly"
	}
	if pool := Apart(j.t, j.until, h.History, device, &own, j.Mark.Begin); pool != nil && !pool.Least.OOM && pool.Least.Exact {
		j.Advice = pool.Advice()
		j.Proof = strings.TrimPrefix(fmt.Sprintf("%s; with %s in a pool of its own it would have fit", j.Proof, pool.Place), "; ")
	}
}

// delays reports whether other settings with which the request fits are no remedy: what grew until the failure fills the rest, too, before
// it has grown as much again. It says how far they get at most, as if no byte were lost to pieces.
func (j *recorded) delays(o *replay.Outcome, capacity int64) bool {
	grown, perStep, room := j.bytesOf(j.grown), 0.0, max(capacity-j.Live, 0)
	if grown < max(j.Mark.Requested, j.Unallocated, 1) {
		return false
	}
	for i := range j.grown {
		perStep += j.grown[i].PerStep
	}
	by := fmt.Sprintf("%.0f %%", 100*share(room, grown))
	if perStep > 0 {
		by = fmt.Sprintf("%s (%s)", units.Plural(int(float64(room)/perStep), "step"), by)
	}
	j.delay = fmt.Sprintf("%s only delays it, by at most %s", cmp.Or(o.Settings.String(), `""`), by)
	if j.Reason == Fragmented {
		j.because(j.t, &row{reason: Exhausted})
	}
	return true
}

func (j *recorded) pieces() string {
	switch {
	case j.Unallocated >= j.Mark.Requested:
		return Fragmented.Words()
	case j.Mark.Free.Or(0) > 0:
		return "enough is free, but in pieces: on the device and in the allocator"
	}
	return "the recorded settings leave too little: with others less is lost"
}

// proved sets the advice and its proof: with other settings the request fits, so enough was free.
func (j *recorded) proved(o *replay.Outcome, law *replay.Law) {
	conf, then := cmp.Or(o.Settings.String(), `""`), ""
	j.fitted, j.Replayed.Conf, j.Replayed.Peak = true, conf, o.PeakReserved
	if j.Reason == Exhausted {
		before, words := j.Advice, j.pieces()
		if little := j.Unallocated < max(j.Reserved/20, 1) && !j.single(); little {
			words, then = j.Words+", but for a little that is free in pieces", " It helps a little; then: "+before
		}
		j.because(j.t, &row{reason: Fragmented})
		j.Words = words
	}
	j.Advice = "Set PYTORCH_CUDA_ALLOC_CONF=" + conf + "." + then
	j.Proof = fmt.Sprintf("with %s it would have fit, replayed exactly (%s of %s addresses)", conf, units.Count(int64(law.Equal)), units.Count(int64(law.Addresses)))
}

// unproved removes advice that the capture already follows.
func (j *recorded) unproved() {
	if j.Reason != Fragmented {
		return
	}
	settings := j.t.Sources[j.Space.Source].SettingsByKey()
	if j.elsewhere >= j.Mark.Requested {
		j.Words = units.Bytes(j.elsewhere) + " are free, but for other streams"
		j.Advice = "Allocate on one stream: each stream keeps its own free memory."
		return
	}
	if strings.EqualFold(settings["expandable_segments"], "true") || strings.Contains(settings["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True") {
		j.Advice = j.fewSizes()
	}
}

// fewSizes advises to allocate early what keeps most of the free memory in pieces, if that is enough for the request.
func (j *recorded) fewSizes() string {
	for _, x := range pinningPlaces(j.t, j.until, j.Mark.Begin) {
		if ofProgram(x.place) && !x.place.Unseen && x.holes >= j.Mark.Requested {
			return fmt.Sprintf("Use few sizes. The buffers of %s keep %s of free memory in pieces: allocate them first, or free them together.", x.place, units.Bytes(x.holes))
		}
	}
	return fewSizes
}

func ofProgram(p lifetime.Place) bool {
	return p.Frame.Kind == frame.User && p.Frame != (frame.Frame{}) && p.Node == ""
}

// Pool is what a pool of their own for the buffers of one place gives.
type Pool struct {
	Place lifetime.Place
	Holes int64 // bytes of holes in the regions in which the buffers lie
	Least replay.Outcome
}

// Advice returns what to do if the pool gives enough.
func (p *Pool) Advice() string {
	return fmt.Sprintf("Allocate %s in a pool of its own: torch.cuda.use_mem_pool.", p.Place)
}

// Apart replays the program with the buffers of a place in a pool of their own, for the places that pin most at an instant, and
// returns the one for which that gives most; nil if none pins anything. own is the outcome with the recorded settings.
func Apart(t *lifetime.Tables, s *lifetime.Space, h *replay.History, d replay.Device, own *replay.Outcome, at int64) (best *Pool) {
	const maxPinning = 3 // places that are tried
	places := pinningPlaces(t, s, at)
	for _, x := range places[:min(len(places), maxPinning)] {
		var of []int
		for i := range s.Buffers {
			if x.sites[s.Buffers[i].Site] {
				of = append(of, i)
			}
		}
		o := h.Apart(of).RunBoth(own.Settings, d)
		if best == nil || best.Least.OOM && !o.OOM || best.Least.OOM == o.OOM && o.PeakReserved < best.Least.PeakReserved {
			best = &Pool{x.place, x.holes, o}
		}
	}
	return best
}

type pinned struct {
	place lifetime.Place
	sites map[lifetime.SiteID]bool // with buffers there
	holes int64                    // bytes of holes in the regions in which the buffers lie
}

// pinningPlaces returns the places whose buffers lie in regions with holes, those with most bytes of holes first. Regions for
// small buffers do not count.
func pinningPlaces(t *lifetime.Tables, s *lifetime.Space, at int64) (all []*pinned) {
	of := region.OfBuffers(s)
	free, inside := map[int32]int64{}, map[int32][]lifetime.SiteID{}
	for _, i := range s.LiveAt(at) {
		if r := of[i]; r != region.None && !s.Regions[r].Small {
			if _, ok := free[r]; !ok {
				free[r] = s.Regions[r].Size
			}
			free[r] -= s.Buffers[i].Size
			inside[r] = append(inside[r], s.Buffers[i].Site)
		}
	}
	found := map[lifetime.Place]*pinned{}
	for _, r := range slices.Sorted(maps.Keys(free)) {
		seen, done := map[lifetime.Place]bool{}, map[lifetime.SiteID]bool{}
		for _, site := range inside[r] {
			if done[site] {
				continue
			}
			done[site] = true
			where := t.PlaceOf(site)
			x := found[where]
			if x == nil {
				x = &pinned{place: where, sites: map[lifetime.SiteID]bool{}}
				found[where], all = x, append(all, x)
			}
			if x.sites[site] = true; !seen[where] {
				seen[where] = true
				x.holes = units.AddSat(x.holes, max(free[r], 0))
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *pinned) int { return cmp.Compare(y.holes, x.holes) })
	return all
}
