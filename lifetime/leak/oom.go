package leak

import (
	"fmt"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// The thresholds of outOfMemory.
const (
	// maxHolders is how many of those that held the memory are named.
	maxHolders = 3
	// outsideShare is the share of the device that others must hold to be the
	// reason of a failure.
	outsideShare = 0.1
	// closeToLimit is the share of the limit from which on a peak is worth a word.
	closeToLimit = 0.95
)

// outOfMemory says why an allocation failed and who held the memory then: the
// last failure of a space, or a program that needs more than there is.
func outOfMemory(l Look) []Finding {
	if l.Function != nil { // it is about the whole space
		return nil
	}
	if l.Space.Axis == lifetime.ProgramOrder {
		return l.tooLarge()
	}
	var last *lifetime.Mark
	failed := 0
	for i := range l.Space.Marks {
		if m := &l.Space.Marks[i]; m.Kind == lifetime.OOM {
			failed++
			last = m
		}
	}
	if last == nil {
		return l.close()
	}
	f := Finding{Severity: Critical, Confidence: 0.95}
	at := last.Begin
	level := l.Space.LevelAt(at, lifetime.Occupied)
	f.Evidence = []Evidence{{Name: "failures", Value: float64(failed)}, {Name: "after", Value: float64(at - l.Space.Begin)},
		{Name: "requested", Value: float64(last.Requested)}, {Name: "in_use", Value: float64(level)}}
	wanted := fmt.Sprintf("%s were wanted at %s", units.Exact(last.Requested), l.since(at))
	if failed > 1 {
		wanted = fmt.Sprintf("%s allocations failed; the last wanted %s at %s", units.Count(int64(failed)), units.Exact(last.Requested), l.since(at))
	}
	kind, why, fix := l.reason(&f, last, level)
	f.say("reason", kind)
	l.inPieces = kind == fragmented
	held, sites, amount := l.holders(at)
	f.Sites, f.Amount = distinct(append(f.Sites, sites...)), amount
	f.Description = wanted + ": " + kind + ". " + why
	if held != "" {
		f.Description += ". Then held: " + held
	}
	f.Suggestions = fix
	return []Finding{f}
}

// The reasons of a failed allocation.
const (
	fragmented = "fragmented"
	outside    = "held outside the allocator"
	exhausted  = "exhausted"
)

// reason says why an allocation failed when level bytes were in use. Sites that stand beside the largest hole
// come first in the finding.
func (l Look) reason(f *Finding, m *lifetime.Mark, level int64) (kind, why string, fix []string) {
	s := l.Space
	var reserved int64
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Begin <= m.Begin && (r.End > m.Begin || r.Edge&lifetime.EndOpen != 0) {
			reserved = lifetime.AddSat(reserved, r.Size)
		}
	}
	holes := lifetime.Holes{}
	if s.Facts&lifetime.Addresses != 0 && len(s.Regions) > 0 {
		holes = s.FreeAt(m.Begin)
		f.addEvidence("reserved", float64(reserved))
		f.addEvidence("free_in_reserved", float64(holes.Total))
		f.addEvidence("largest_hole", float64(holes.Largest))
	}
	if m.Free >= 0 {
		f.addEvidence("device_free", float64(m.Free))
	}
	limit := l.limit()
	others := limit - reserved - m.Free
	switch {
	case holes.Total >= m.Requested && holes.Largest < m.Requested:
		f.addEvidence("hole_address", float64(holes.At))
		why = fmt.Sprintf("%s of the %s that the allocator has reserved are free, but the largest hole has %s (at %#x)",
			units.Bytes(holes.Total), units.Bytes(reserved), units.Bytes(holes.Largest), holes.At)
		if site, bytes, ok := l.pinning(m.Begin, holes); ok {
			f.Sites = append(f.Sites, site)
			why += fmt.Sprintf("; %s of %s beside it pin it", units.Bytes(bytes), l.PlaceOf(site))
		}
		return fragmented, why, []string{"Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that free memory is not cut into segments.",
			"Allocate what lives long before the loop, so that it does not lie between what is freed; keep the sizes of batches to a few."}
	case limit > 0 && m.Free >= 0 && reserved > 0 && float64(others) >= outsideShare*float64(limit):
		f.addEvidence("outside", float64(others))
		why = fmt.Sprintf("of the %s of the device the allocator has %s, %s were free, and %s are held by others: another process, the CUDA context, NCCL",
			units.Bytes(limit), units.Bytes(reserved), units.Bytes(m.Free), units.Bytes(others))
		return outside, why, []string{"See who else uses the device (nvidia-smi): another process, a leftover of one, or libraries that allocate by themselves."}
	}
	why = fmt.Sprintf("%s were in use", units.Bytes(level))
	if reserved > 0 {
		why += fmt.Sprintf(" of %s reserved", units.Bytes(reserved))
	}
	if m.Free >= 0 {
		why += fmt.Sprintf("; the device had %s free", units.Bytes(m.Free))
	}
	if m.Free >= m.Requested && m.Requested > 0 {
		why += ", which would do: the process has a limit of its own (set_per_process_memory_fraction), or the memory is in pieces"
	}
	return exhausted, why, []string{"Hold less at that moment: a smaller batch, activation checkpointing, or what is named first below in a narrower type.",
		"memlane peak --at oom lists all of it."}
}

// pinning returns the site of the smaller of the two buffers beside the largest
// hole: freeing it would make the hole larger.
func (l Look) pinning(at int64, holes lifetime.Holes) (site lifetime.SiteID, bytes int64, ok bool) {
	for _, i := range l.Space.LiveAt(at) {
		b := &l.Space.Buffers[i]
		beside := b.Addr+uint64(b.Size) == holes.At || b.Addr == holes.At+uint64(holes.Largest)
		if beside && (!ok || b.Size < bytes) {
			site, bytes, ok = b.Site, b.Size, true
		}
	}
	return site, bytes, ok
}

// holders names those who held most memory at an instant.
func (l Look) holders(at int64) (text string, sites []lifetime.SiteID, all lifetime.Amount) {
	var names []string
	seen := map[lifetime.Place]bool{}
	for _, row := range l.Space.Breakdown(at) {
		all.Add(row.Amount)
		if !row.Kind.OfBuffers() {
			continue
		}
		if p := instructionPlace(l.Capture, row.Site); len(names) < maxHolders && !seen[p] {
			seen[p] = true
			sites = append(sites, row.Site)
			names = append(names, fmt.Sprintf("%s %s", p, units.Bytes(row.Bytes)))
		}
	}
	return strings.Join(names, ", "), sites, all
}

// close tells of a peak that nearly reaches the limit, where no failure is
// recorded: the capture of a program that died may hold nothing else.
func (l Look) close() []Finding {
	limit, peak := l.limit(), l.highest()
	if limit <= 0 || float64(peak.Bytes) < closeToLimit*float64(limit) {
		return nil
	}
	held, sites, amount := l.holders(peak.At)
	f := Finding{Severity: Info, Confidence: 0.7, Sites: sites, Amount: amount,
		Evidence: []Evidence{{Name: "peak", Value: float64(peak.Bytes)}, {Name: "limit", Value: float64(limit)}},
		Description: fmt.Sprintf("the peak of %s at %s is %s below the limit of %s: what asks for more than that fails",
			units.Exact(peak.Bytes), l.since(peak.At), units.Bytes(limit-peak.Bytes), units.Bytes(limit)),
		Suggestions: []string{"memlane peak lists what makes up the peak."},
	}
	if held != "" {
		f.Description += ". Then held: " + held
	}
	return []Finding{f}
}

// tooLarge finds a compiled program that needs more memory than there is.
func (l Look) tooLarge() []Finding {
	limit, peak := l.limit(), l.highest()
	if limit <= 0 || peak.Bytes <= limit {
		return nil
	}
	held, sites, amount := l.holders(peak.At)
	waste, padded := newWaste(l.Space), int64(0)
	for _, i := range l.Space.LiveAt(peak.At) {
		padded = lifetime.AddSat(padded, waste.of(i))
	}
	f := Finding{Severity: Critical, Confidence: 1, Sites: sites, Amount: amount,
		Evidence: []Evidence{{Name: "peak", Value: float64(peak.Bytes)}, {Name: "limit", Value: float64(limit)}, {Name: "padding", Value: float64(padded)}},
		Description: fmt.Sprintf("the program needs %s, %s more than the limit of %s; %s of it are padding. Largest: %s",
			units.Exact(peak.Bytes), units.Bytes(peak.Bytes-limit), units.Bytes(limit), units.Bytes(padded), held),
		Suggestions: []string{adviceShard, "Compute large intermediates again in the backward pass (jax.checkpoint), donate arguments, or process in smaller pieces (lax.map)."},
	}
	f.say("reason", exhausted)
	return []Finding{f}
}
