package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of outOfMemory.
const (
	maxHolders   = 3    // places that the text names
	outsideShare = 0.1  // share of the device that others must use to be the cause
	closeToLimit = 0.95 // share of the limit at which a peak is a finding
)

// outOfMemory explains the failed allocation that ended a program, and which call sites held the memory at that time. For a
// compiled program it compares the peak with the limit.
func outOfMemory(p *Pass) []Finding {
	if p.compiled() {
		return p.tooLarge()
	}
	last, failed := p.lastFailure()
	if last == nil {
		return p.nearLimit()
	}
	f := Finding{Severity: Critical, Confidence: 0.95}
	at := last.Begin
	level := p.Space.LevelAt(at, lifetime.Occupied)
	f.add(figure(FigFailures, failed), figure(FigAfter, at-p.Space.Begin), figure(FigRequested, last.Requested), figure(FigInUse, level))
	of := ""
	if last.Requested > 0 {
		of = " of " + units.Bytes(last.Requested)
	}
	if last.Site != 0 {
		of += " by " + p.PlaceOf(last.Site).String()
	}
	text := fmt.Sprintf("an allocation%s failed at %s", of, p.since(at))
	if failed > 1 {
		text = fmt.Sprintf("%s allocations failed, one%s at %s", units.Count(int64(failed)), of, p.since(at))
	}
	cause := WhyFailed(p.Space, last)
	f.Cause = cause.Reason.Cause()
	why := p.evidenceOfFailure(&f, last, level)
	leaks := p.filling(last, cause.Reason)
	if leaks != "" {
		f.Cause, why = Exhausted, append([]string{leaks}, why...)
	}
	if f.Cause == Recovered {
		f.Severity = Info
	}
	reason := f.Cause.String()
	f.Suggestions = []string{f.Cause.Advice()}
	if cause.Reason == ReasonPrivatePools && leaks == "" { // no cause of its own
		text += ": " + cause.Reason.Words()
		f.Suggestions = []string{cause.Reason.Advice("")}
	}
	if said := last.Failure; said != nil { // a text, which has no regions
		f.Cause, f.Confidence, reason, why = cause.Reason.Cause(), cause.Confidence, cause.Reason.Words(), nil
		f.Suggestions = []string{cause.Reason.Advice(said.Source)}
	}
	largest, sites, amount := p.holders(at)
	f.Sites, f.Amount = distinct(append(f.Sites, sites...)), amount
	replayed, place := p.replayed(&f, at), len(why)
	if state := StateAt(p.Space, last); cause.Reason == ReasonExhausted && f.Cause == Exhausted && leaks == "" && f.Value(FigReplayedExact) == 1 && InPieces(state.Unallocated, state.Reserved) {
		f.Cause, reason = Fragmented, Fragmented.String()
	}
	f.add(textFigure(FigReason, reason))
	p.fragmented = f.Cause == Fragmented
	if f.Text(FigReplayedConf) != "" {
		place = min(1, place) // before details
	}
	why = slices.Insert(why, place, replayed...)
	f.describe("", text+": "+reason, append(why, largest...)...)
	return []Finding{f}
}

// InPieces reports whether fragmentation is the reason for a failure that other settings prevent, as a replay shows: a twentieth of
// the reserved bytes is free.
func InPieces(unallocated, reserved int64) bool { return unallocated > 0 && unallocated >= reserved/20 }

// lastFailure returns the first failed allocation that the program did not survive, else the last one, nil if there is none; and
// the number of all.
func (p *Pass) lastFailure() (last *lifetime.Mark, failed int) {
	fatal := false
	for i := range p.Space.Marks {
		m := &p.Space.Marks[i]
		if m.Kind != lifetime.OOM || m.Failure != nil && m.Failure.Survived {
			continue
		}
		if failed++; !fatal {
			last, fatal = m, m.Failure == nil && !wentOn(p.Space, m)
		}
	}
	return last, failed
}

// filling returns, as a part of the text, the largest leak if leaks are the reason for a failure that has another one without them;
// else "".
func (p *Pass) filling(failed *lifetime.Mark, without Reason) string {
	sum, largest := int64(0), (*Finding)(nil)
	for _, f := range p.leaking() {
		if f.Severity > Info && f.Credible() {
			sum = units.AddSat(sum, f.Amount.Bytes)
			if largest == nil || f.Amount.Bytes > largest.Amount.Bytes {
				largest = &f
			}
		}
	}
	if largest == nil || failed.Failure != nil || !LeakFilled(p.Space, failed, without, sum, true) {
		return ""
	}
	return fmt.Sprintf("a leak filled it: %s %s", p.PlaceOf(largest.Sites[0]), units.Bytes(largest.Amount.Bytes))
}

// Credible reports whether a leak may be named as the cause of a failure. A program that fails while it loads a model or fills its
// first forward pass retains everything that it allocated, so a leak needs steps, and more certainty if no step was marked.
func (f *Finding) Credible() bool {
	const marked, inferred = 0.35, 0.5 // confidence
	return f.Value(FigSteps) > 0 && (f.Confidence >= inferred || f.Confidence >= marked && f.Value(FigInferred) == 0)
}

// LeakFilled reports whether a recorded failure is due to leaked bytes: without them the request would have fit. without is the
// reason that the failure has else. Pieces of free memory must weigh less than the leak if they can be joined by other settings.
func LeakFilled(s *lifetime.Space, failed *lifetime.Mark, without Reason, leaked int64, joined bool) bool {
	const notable = 0.05 // of the live bytes
	unallocated := max(StateAt(s, failed).Unallocated, 0)
	fits := units.AddSat(leaked, units.AddSat(unallocated, max(failed.Free, 0))) >= failed.Requested
	switch without {
	case ReasonExhausted, ReasonLimit, ReasonOutside:
	case ReasonFragmented:
		fits = leaked >= failed.Requested && (!joined || leaked >= unallocated)
	default:
		return false
	}
	return fits && float64(leaked) >= notable*float64(s.LevelAt(failed.Begin, lifetime.Occupied))
}

// evidenceOfFailure adds the evidence of a failure with level bytes in use, and returns it as parts of the text. The site next to
// the largest hole becomes the first site of a finding about fragmentation.
func (p *Pass) evidenceOfFailure(f *Finding, m *lifetime.Mark, level int64) []string {
	reserved, holes := p.reservedAt(f, m.Begin)
	if m.Free >= 0 {
		f.add(figure(FigDeviceFree, m.Free))
	}
	limit := p.limit()
	others := limit - reserved - m.Free
	switch {
	case f.Cause == Fragmented:
		f.add(figure(FigHoleAddress, float64(holes.At)))
		why := []string{fmt.Sprintf("%s of %s reserved were free, but the largest hole was %s", units.Bytes(holes.Total), units.Bytes(reserved),
			units.Bytes(holes.Largest))}
		if site, bytes, ok := p.pinning(m.Begin, holes); ok {
			f.Sites = append(f.Sites, site)
			why = append(why, fmt.Sprintf("next to it: %s %s", p.PlaceOf(site), units.Bytes(bytes)))
		}
		return why
	case limit > 0 && m.Free >= 0 && reserved > 0 && float64(others) >= outsideShare*float64(limit) && (f.Cause == Exhausted || f.Cause == HeldOutside):
		f.Cause = HeldOutside // the limit may be that of the settings
		f.add(figure(FigOutside, others))
		return []string{fmt.Sprintf("of the %s on the device, this allocator reserved %s, others used %s, and %s were free", units.Bytes(limit),
			units.Bytes(reserved), units.Bytes(others), units.Bytes(m.Free))}
	}
	return exhaustion(m, level, reserved)
}

// exhaustion returns how much memory was in use, reserved and free, as parts of the text.
func exhaustion(m *lifetime.Mark, level, reserved int64) []string {
	used, free := units.Bytes(level)+" were in use", ""
	if reserved > 0 {
		used = fmt.Sprintf("%s of %s reserved were in use", units.Bytes(level), units.Bytes(reserved))
	}
	if m.Free >= 0 {
		free = fmt.Sprintf("the device had %s free", units.Bytes(m.Free))
	}
	if m.Free >= m.Requested && m.Requested > 0 {
		free += ": the process has its own limit, or the free memory is fragmented"
	}
	return []string{used, free}
}

// reservedAt returns the reserved bytes at an instant and the holes in them, and adds both to a finding. Without
// addresses there are no holes.
func (p *Pass) reservedAt(f *Finding, at int64) (reserved int64, holes lifetime.Holes) {
	s := p.Space
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Begin <= at && (r.End > at || r.Edge&lifetime.EndOpen != 0) {
			reserved = units.AddSat(reserved, r.Size)
		}
	}
	if s.Facts&lifetime.Addresses != 0 && len(s.Regions) > 0 {
		holes = s.FreeAt(at)
		f.add(figure(FigReserved, reserved), figure(FigFree, holes.Total), figure(FigLargestHole, holes.Largest))
	}
	return reserved, holes
}

// pinning returns the site and size of the smaller buffer next to the largest hole. Freeing it would enlarge the hole.
func (p *Pass) pinning(at int64, holes lifetime.Holes) (site lifetime.SiteID, bytes int64, ok bool) {
	for _, i := range p.Space.LiveAt(at) {
		b := &p.Space.Buffers[i]
		adjacent := b.Addr+uint64(b.Size) == holes.At || b.Addr == holes.At+uint64(holes.Largest)
		if adjacent && (!ok || b.Size < bytes) {
			site, bytes, ok = b.Site, b.Size, true
		}
	}
	return site, bytes, ok
}

// holders returns the places that held most memory at an instant, as parts of the text, and the sum of all.
func (p *Pass) holders(at int64) (names []string, sites []lifetime.SiteID, all lifetime.Amount) {
	type holder struct {
		place string
		site  lifetime.SiteID // the largest of the place
		bytes int64
	}
	var held []*holder // in order of their largest site
	byPlace := map[string]*holder{}
	for _, row := range p.Space.Breakdown(at) {
		all.Add(row.Amount)
		if !row.Kind.OfBuffers() {
			continue
		}
		place := instructionPlace(p.Capture, row.Site).String()
		if byPlace[place] == nil {
			byPlace[place] = &holder{place, row.Site, 0}
			held = append(held, byPlace[place])
		}
		byPlace[place].bytes = units.AddSat(byPlace[place].bytes, row.Bytes)
	}
	slices.SortStableFunc(held, func(x, y *holder) int { return cmp.Compare(y.bytes, x.bytes) })
	for _, h := range held[:min(len(held), maxHolders)] {
		names = append(names, h.place+" "+units.Bytes(h.bytes))
		sites = append(sites, h.site)
	}
	if len(names) > 0 {
		names[0] = "largest: " + names[0]
	}
	return names, sites, all
}

// nearLimit finds a peak close to the limit if no failure was recorded: a program that died may leave no other trace.
func (p *Pass) nearLimit() []Finding {
	limit, peak := p.limit(), p.highest()
	if limit <= 0 || float64(peak.Bytes) < closeToLimit*float64(limit) {
		return nil
	}
	largest, sites, amount := p.holders(peak.At)
	f := Finding{Severity: Info, Confidence: 0.7, Sites: sites, Amount: amount, Evidence: []Evidence{figure(FigPeak, peak.Bytes), figure(FigLimit, limit)},
		Suggestions: []string{"Run memlane peak to see what makes up the peak."}}
	left, side := limit-peak.Bytes, "below"
	if left < 0 {
		left, side = -left, "above"
	}
	f.describe("", fmt.Sprintf("the peak of %s at %s is %s %s the limit of %s", units.Bytes(peak.Bytes), p.since(peak.At), units.Bytes(left), side,
		units.Bytes(limit)), largest...)
	return []Finding{f}
}

// tooLarge finds a compiled program whose peak is above the limit.
func (p *Pass) tooLarge() []Finding {
	limit, peak := p.limit(), p.highest()
	if limit <= 0 || peak.Bytes <= limit {
		return nil
	}
	largest, sites, amount := p.holders(peak.At)
	waste, padded := newWaste(p.Space), int64(0)
	for _, i := range p.Space.LiveAt(peak.At) {
		padded = units.AddSat(padded, waste.of(i))
	}
	f := Finding{Severity: Critical, Confidence: 1, Sites: sites, Amount: amount, Cause: Exhausted,
		Evidence:    []Evidence{figure(FigPeak, peak.Bytes), figure(FigLimit, limit), figure(FigPadding, padded), textFigure(FigReason, Exhausted.String())},
		Suggestions: []string{"Shard it over devices, recompute (jax.checkpoint) or donate arguments."}}
	if padded > 0 {
		largest = append([]string{units.Bytes(padded) + " of this is padding"}, largest...)
	}
	f.describe("", fmt.Sprintf("the program needs %s, %s more than the limit of %s", units.Bytes(peak.Bytes), units.Bytes(peak.Bytes-limit),
		units.Bytes(limit)), largest...)
	return []Finding{f}
}
