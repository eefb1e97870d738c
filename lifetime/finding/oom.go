package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
)

const (
	maxHolders   = 3    // places that the text names
	closeToLimit = 0.95 // share of the limit at which a peak is a finding
)

// LeaksUntil returns what grows in one space, the part of a whole one until a failure: the leaks that may be named as the cause of the failure, and what
// may be loaded. of is what the program did in it. A program that fails in its first forward pass retains everything that it allocated, so a leak needs
// steps, and more of them if no step was recorded. Where no steps are known, a place that retained as many as steps that make a leak certain did not load
// them, and one that freed more than it retained ran as often, and so do forward passes. No pass has a container that the recorder saw to hold them.
func LeaksUntil(of *program.Program, whole *lifetime.Space) (all []oom.Grown) {
	const known, inferred = 7, 15 // steps
	p := newPass(of, of.Spaces[0], Settings{})
	for _, r := range LeakRules() {
		for _, f := range p.run(r) {
			steps, kept := f.Value(FigSteps), float64(f.Amount.Count)
			again := steps >= inferred || steps >= known && f.Value(FigInferred) == 0 || steps == 0 && (kept >= certainSteps ||
				kept >= inferred && (f.Value(FigFreed) > kept || inContainer(f.Held) || len(p.program.Passes(p.Space)) >= inferred))
			p.leaveOut(&f, whole)
			if f.loads || f.IsLeak() && again {
				all = append(all, oom.Grown{Site: f.Place(), Amount: f.Amount, PerStep: f.BytesPerStep, Confidence: f.Confidence,
					Advice: f.Advice(&of.Tables), Kept: f.Kept, Loads: f.loads})
			}
		}
	}
	return all
}

// leaveOut leaves out of a leak until a failure what the step that failed had allocated and the whole recording shows
// to be freed: it was in use, so the leak is the same as at the end of the recording.
func (p *Pass) leaveOut(f *Finding, whole *lifetime.Space) {
	done := int64(-1) // the end of the last step that ended
	for _, end := range p.steps.Ends {
		if end < p.Space.End {
			done = max(done, end)
		}
	}
	f.Kept = slices.DeleteFunc(f.Kept, func(i int) bool {
		b := &p.Space.Buffers[i]
		at := allocatedBefore(whole, b.Begin)
		if done < 0 || b.Begin < done || at == len(whole.Buffers) || whole.Buffers[at].Begin != b.Begin ||
			whole.Buffers[at].Edge&lifetime.EndOpen != 0 {
			return false
		}
		f.BytesPerStep -= f.BytesPerStep * shareOf(b.Size, f.Amount.Bytes)
		f.Amount = lifetime.Amount{Count: f.Amount.Count - 1, Bytes: f.Amount.Bytes - b.Size,
			Requested: f.Amount.Requested - b.Requested}
		return true
	})
}

// outOfMemory explains the failed allocation that ended a program, and which call sites held the memory at that time.
// For a compiled program it compares the peak with the limit.
func outOfMemory(p *Pass) []Finding {
	all := p.facts.Failures(p.Space)
	if all == nil {
		return p.nearLimit()
	}
	d := &all[0]
	m, instant := d.Mark, d.Mark.Begin
	if d.Caught() && m.Failure != nil {
		return nil // a warning
	}
	f := Finding{Severity: Critical, Suggestions: []string{d.Advice}, Failures: all}
	if d.Caught() {
		f.Severity = Info
	}
	f.add(textFigure(FigReason, string(d.Reason)).known(d.How()))
	largest, sites, amount := p.holders(instant)
	f.Sites, f.Amount = sites, amount
	if d.Inferred {
		return p.inferred(f, d, largest)
	}
	level := p.Space.LevelAt(instant, lifetime.Occupied)
	if m.Failure == nil && d.Live >= 0 {
		level = d.Live // with what blocks have more than was requested
	}
	f.add(figure(FigFailures, len(all)), figure(FigAfter, instant-p.Space.Begin), figure(FigRequested, m.Requested),
		figure(FigInUse, level))
	of := ""
	if m.Requested > 0 {
		of = " of " + units.Bytes(m.Requested)
	}
	if m.Site != 0 {
		of += " by " + p.PlaceOf(m.Site).String()
	}
	text := fmt.Sprintf("an allocation%s failed at %s", of, p.since(instant))
	if len(all) > 1 {
		text = fmt.Sprintf("%s allocations failed, one%s at %s", units.Count(int64(len(all))), of, p.since(instant))
	}
	parts := p.evidenceOfFailure(&f, d, level)
	if d.Leak != nil {
		parts = append([]string{fmt.Sprintf("leak: %s %s", p.PlaceOf(d.Leak.Site), units.Bytes(d.Leak.Amount.Bytes))}, parts...)
	}
	f.Sites = distinct(f.Sites)
	if r := d.Replayed; r != nil {
		f.add(figure(FigReplayedOwn, r.Recorded))
		if r.Conf != "" {
			f.add(textFigure(FigReplayedConf, r.Conf), figure(FigReplayed, r.Peak), figure(FigReplayedExact, 1))
		}
	}
	p.fragmented = d.Reason == oom.Fragmented || d.Reason == oom.PrivatePools
	f.describe("", text+": "+d.Why(), append(append(parts, d.Proof), largest...)...)
	return []Finding{f}
}

// inferred completes the finding of a program that is larger than the limit, and of a recording that ends close to it.
func (p *Pass) inferred(f Finding, d *oom.Diagnosis, largest []string) []Finding {
	f.add(figure(FigPeak, p.highest().Bytes), figure(FigLimit, d.Capacity))
	if !p.compiled() {
		f.Severity = Info
		f.describe("", d.Why(), append(largest, d.Proof)...)
		return []Finding{f}
	}
	f.add(figure(FigReserved, d.Needed))
	padded := int64(0)
	for _, i := range p.Space.LiveAt(d.Mark.Begin) {
		padded = units.AddSat(padded, p.paddingOf(i))
	}
	if f.add(figure(FigPadding, padded)); padded > 0 {
		largest = append([]string{units.Bytes(padded) + " of this is padding"}, largest...)
	}
	f.describe("", fmt.Sprintf("the program needs %s, %s more than the capacity of %s: %s", units.Bytes(d.Needed),
		units.Bytes(d.Exceeded),
		units.Bytes(d.Capacity), d.Why()), append(largest, d.Proof)...)
	return []Finding{f}
}

// evidenceOfFailure adds the evidence of a failure with level bytes in use, and returns it as parts of the text. The
// site next to the largest hole becomes the first site of a finding about fragmentation.
func (p *Pass) evidenceOfFailure(f *Finding, d *oom.Diagnosis, level int64) []string {
	m := d.Mark
	reserved, holes := p.reservedAt(f, m.Begin)
	if m.Free.Known() {
		f.add(figure(FigDeviceFree, m.Free.Or(0)))
	}
	others := d.Capacity - reserved - m.Free.Or(0)
	switch {
	case m.Failure != nil: // a text has no regions
		return nil
	case d.Reason == oom.Fragmented && holes.Total > 0:
		f.add(figure(FigHoleAddress, float64(holes.At)))
		why := []string{fmt.Sprintf("the largest hole of %s was %s", units.Bytes(holes.Total), units.Bytes(holes.Largest))}
		if site, bytes, ok := p.pinning(m.Begin, holes); ok {
			f.Sites = append([]lifetime.SiteID{site}, f.Sites...)
			why = append(why, fmt.Sprintf("next to it: %s %s", p.PlaceOf(site), units.Bytes(bytes)))
		}
		return why
	case d.Reason == oom.Outside && m.Free.Known() && others > 0:
		f.add(figure(FigOutside, others))
		return []string{fmt.Sprintf("of the %s on the device, this allocator reserved %s, others used %s, and %s were free",
			units.Bytes(d.Capacity),
			units.Bytes(reserved), units.Bytes(others), units.Bytes(m.Free.Or(0)))}
	}
	return exhaustion(m, level, reserved)
}

// exhaustion returns how much memory was in use, reserved and free, as parts of the text.
func exhaustion(m *lifetime.Mark, level, reserved int64) []string {
	used, free := units.Bytes(level)+" were in use", ""
	if reserved > 0 {
		used = fmt.Sprintf("%s of %s reserved were in use", units.Bytes(level), units.Bytes(reserved))
	}
	if m.Free.Known() {
		free = fmt.Sprintf("the device had %s free", units.Bytes(m.Free.Or(0)))
	}
	return []string{used, free}
}

// reservedAt returns the reserved bytes at an instant and the holes in them, and adds both to a finding. Without addresses there are no holes.
func (p *Pass) reservedAt(f *Finding, at int64) (reserved int64, holes region.Holes) {
	s := p.Space
	reserved = region.ReservedAt(s, at)
	if s.Facts&lifetime.Addresses != 0 && len(s.Regions) > 0 {
		holes = region.FreeAt(s, at)
		f.add(figure(FigReserved, reserved), figure(FigFree, holes.Total), figure(FigLargestHole, holes.Largest))
	}
	return reserved, holes
}

// pinning returns the site and size of the smaller buffer next to the largest hole. Freeing it would enlarge the hole.
func (p *Pass) pinning(at int64, holes region.Holes) (site lifetime.SiteID, bytes int64, ok bool) {
	for _, i := range p.Space.LiveAt(at) {
		b := &p.Space.Buffers[i]
		adjacent := b.Addr+uint64(b.Size) == holes.At || b.Addr == holes.At+uint64(holes.Largest)
		if adjacent && (!ok || b.Size < bytes) {
			site, bytes, ok = b.Site, b.Size, true
		}
	}
	return site, bytes, ok
}

// failures returns the number of failed allocations, and whether the program did not survive one.
func (p *Pass) failures() (failed int, fatal bool) {
	for i := range p.Space.Marks {
		m := &p.Space.Marks[i]
		if m.Kind != lifetime.OOM {
			continue
		}
		if p.survived == nil {
			p.survived = oom.Survivors(p.Space)
		}
		failed, fatal = failed+1, fatal || !p.survived(m)
	}
	return failed, fatal
}

// holders returns the places that held most memory at an instant, as parts of the text, and the sum of all.
func (p *Pass) holders(at int64) (names []string, sites []lifetime.SiteID, all lifetime.Amount) {
	type holder struct {
		place string
		site  lifetime.SiteID // the largest of the place
		bytes int64
	}
	var held []holder // in order of their largest site
	index := map[string]int{}
	for _, row := range p.Space.Breakdown(at) {
		all.Add(row.Amount)
		if !row.Kind.OfBuffers() {
			continue
		}
		place := p.PlaceOf(row.Site).String()
		h := keyed.At(index, &held, place, holder{place, row.Site, 0})
		h.bytes = units.AddSat(h.bytes, row.Bytes)
	}
	slices.SortStableFunc(held, func(x, y holder) int { return cmp.Compare(y.bytes, x.bytes) })
	for _, h := range held[:min(len(held), maxHolders)] {
		names = append(names, h.place+" "+units.Bytes(h.bytes))
		sites = append(sites, h.site)
	}
	if len(names) > 0 {
		names[0] = "largest: " + names[0]
	}
	return names, sites, all
}

// nearLimit finds a peak close to the limit after which the program went on.
func (p *Pass) nearLimit() []Finding {
	limit, peak := p.limit(), p.highest()
	if limit <= 0 || p.compiled() || float64(peak.Bytes) < closeToLimit*float64(limit) {
		return nil
	}
	largest, sites, amount := p.holders(peak.At)
	f := Finding{Severity: Info, Sites: sites, Amount: amount,
		Evidence:    []Evidence{figure(FigPeak, peak.Bytes), figure(FigLimit, limit)},
		Suggestions: []string{"Run memlane peak to see what makes up the peak."}}
	left, side := limit-peak.Bytes, "below"
	if left < 0 {
		left, side = -left, "above"
	}
	f.describe("", fmt.Sprintf("the peak of %s at %s is %s %s the capacity of %s", units.Bytes(peak.Bytes), p.since(peak.At),
		units.Bytes(left), side,
		units.Bytes(limit)), largest...)
	return []Finding{f}
}
