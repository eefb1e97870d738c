package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/replay"
)

// The thresholds of fragmentation.
const (
	minGap    = 0.3      // minimum free share of the reserved memory if no replay shows that another way needs less
	minPieces = 0.5      // minimum share of the free memory outside the largest hole
	minGain   = 0.1      // minimum share of the reserved memory that is free, or that another way saves
	leastGap  = 64 << 20 // minimum free bytes: PyTorch reserves 20 MiB for a buffer of 1 MiB

	// stableShare is the share of the allocations, at the end, during which a stable allocator reserves nothing more.
	stableShare = 1.0 / 3
)

// fragmentation finds reserved memory that is free, but in pieces, when the program needs most: what is free at other instants
// costs nothing. Only a replay proves that it is too much: it is a warning if another way of allocating needs less, and reserved
// memory still grows. A gap between reserved and allocated memory that grows and then stays is not a leak: the allocator keeps
// what it reserved. Regions without a buffer, which it gives back before it fails, count only if a replay shows a gain.
func fragmentation(p *Pass) []Finding {
	s := p.Space
	switch {
	case p.fragmented || p.compiled():
		return nil
	case len(s.Regions) == 0 || s.Facts&lifetime.Addresses == 0:
		return p.reportedFragmentation()
	}
	at, grown, when := s.AtEnd(), int64(0), "are free at the end"
	if p.dynamic() {
		at, grown = p.fullest()
		when = "were free at " + p.since(at) + ", when most was in use"
	}
	reserved, holes := region.ReservedAt(s, at), region.FreeAt(s, at)
	if !inPieces(holes, reserved, minGain) {
		return nil
	}
	pieces, _ := holes.Fragmentation()
	f := Finding{Amount: lifetime.Amount{Bytes: holes.Total}, Suggestions: []string{adviceFragmented},
		Evidence: []Evidence{figure(FigReserved, reserved), figure(FigFree, holes.Total),
			figure(FigLargestHole, holes.Largest), figure(FigFragmentation, pieces)}}
	replayed := p.replayed(&f, at, false)
	if shareOf(replayed.gain, reserved) < minGain && !inPieces(region.PiecesAt(s, at), reserved, minGap) {
		return nil
	}
	state := p.grewLately(&f, grown, replayed, reserved)
	parts := slices.Insert(replayed.parts, min(1, len(replayed.parts)), state)
	f.describe("", fmt.Sprintf("%s of %s reserved %s; largest hole %s", units.Bytes(holes.Total), units.Bytes(reserved), when,
		units.Bytes(holes.Largest)), parts...)
	return []Finding{f}
}

// grewLately says whether reserved memory still grows, where grown is the instant at which it last did. It makes the finding a warning if
// another way of allocating needs much less for sure, and reserved memory still grows or that is critical.
func (p *Pass) grewLately(f *Finding, grown int64, r replayed, reserved int64) string {
	if !p.dynamic() {
		return "without a history it is unknown how much was free when memory was short"
	}
	n := len(p.Space.Buffers)
	after := n - allocatedBefore(p.Space, grown)
	stable := float64(after) >= stableShare*float64(n)
	f.add(figure(FigSinceReserved, after))
	if shareOf(r.gain, reserved) >= minGain && r.exact && r.gain >= leastGap && (!stable || r.gain >= p.critical()) {
		f.Severity = Warning
	}
	switch {
	case stable && grown == 0:
		return "reserved memory did not grow during the recording, so this is not a leak"
	case stable:
		return fmt.Sprintf("reserved memory has been stable since %s, so this is not a leak", p.since(grown))
	}
	return "reserved memory is still growing at the end"
}

// inPieces reports whether a share of the reserved memory is free, most of it outside the largest hole.
func inPieces(holes region.Holes, reserved int64, share float64) bool {
	pieces, ok := holes.Fragmentation()
	return ok && holes.Total >= leastGap && shareOf(holes.Total, reserved) >= share && pieces >= minPieces
}

// fullest returns the instant at which most memory was in use, of those at which nearly as much was reserved as ever, and when the
// reserved memory last grew, 0 if it did not. Where less was reserved, another way would not save minGain.
func (p *Pass) fullest() (at, grown int64) {
	s := p.Space
	steps := region.Levels(s)
	_, most := region.Reserved(s)
	at = s.AtEnd()
	reserved, used := int64(0), int64(-1)
	for _, level := range p.usage() {
		for ; len(steps) > 0 && steps[0].At <= level.At; steps = steps[1:] {
			if steps[0].Bytes > reserved && steps[0].At > s.Begin+1 {
				grown = steps[0].At
			}
			reserved = steps[0].Bytes
		}
		if level.Bytes > used && float64(reserved) >= (1-minGain)*float64(most) {
			at, used = level.At, level.Bytes
		}
	}
	return at, grown
}

// reportedFragmentation uses the fragmentation that the allocator reported at the peak (XProf profiles).
func (p *Pass) reportedFragmentation() []Finding {
	peak, highest, limit := p.highest(), float32(0), p.limit()
	atPeak := float32(0)
	for _, t := range p.Space.Totals {
		if t.HasFragmentation {
			highest = max(highest, t.Fragmentation)
			if t.T <= peak.At {
				atPeak = t.Fragmentation
			}
		}
	}
	if !(atPeak >= minPieces) || limit == 0 || float64(peak.Bytes) < (1-minGap)*float64(limit) { // NaN: nothing is free
		return nil
	}
	f := Finding{Amount: lifetime.Amount{Bytes: limit - peak.Bytes},
		Evidence: []Evidence{figure(FigFragmentation, float64(atPeak)), figure(FigMaxFragmentation, float64(highest)),
			figure(FigPeak, peak.Bytes), figure(FigLimit, limit)},
		Suggestions: []string{"Use few sizes, or set TF_GPU_ALLOCATOR=cuda_malloc_async."}}
	f.describe("",
		fmt.Sprintf("at the peak, %.0f %% of the free %s were outside the largest hole, as the allocator reported", 100*atPeak,
			units.Bytes(limit-peak.Bytes)))
	return []Finding{f}
}

// Advice against fragmentation in PyTorch.
const (
	adviceFragmented = "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket batch sizes."
	adviceBuckets    = "Bucket or pad batch sizes; allocate long-lived buffers first."
	adviceOnePool    = "Share one private pool: torch.cuda.graph(..., pool=POOL), or one MemPool."
)

type replayed struct {
	gain  int64    // bytes that another way of allocating saves for sure, if exact; else as far as is known
	exact bool     // the recording determines it
	parts []string // of the text
}

// replayed replays the space under other settings, with buffers that pin holes in a pool of their own, and with one private pool
// instead of many; pools: only that. The advice of a finding about fragmentation becomes what helps. instant is that of the holes. Without a
// recording that can be replayed, it only removes advice that the program already follows.
func (p *Pass) replayed(f *Finding, instant int64, pools bool) (r replayed) {
	h := p.facts.Replay(p.Space)
	if h == nil || h.Refused != "" {
		isExpandable := slices.Contains(p.Sources[p.Space.Source].Settings, lifetime.Setting{Key: "expandable_segments", Value: "true"}) ||
			slices.ContainsFunc(p.Space.Regions, func(r lifetime.Region) bool { return r.Kind == lifetime.Expandable })
		if slices.Contains(f.Suggestions, adviceFragmented) && isExpandable {
			f.Suggestions = []string{adviceBuckets}
		}
		return r
	}
	d := replay.Device{Capacity: h.Capacity()}
	own, best, better := h.Advise(d)
	if own.OOM && pools {
		return r
	}
	if own.OOM { // the replay has the failure, not what the finding is about
		if better && !best.OOM {
			f.Suggestions = []string{fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s.", best.Settings.String())}
			return replayed{parts: []string{"other settings get past the failure"}}
		}
		f.Suggestions = []string{adviceBuckets}
		return replayed{parts: []string{"no other settings get past the failure"}}
	}
	f.add(figure(FigReplayedOwn, own.PeakReserved))
	advice := ""
	helps := func(change string, o *replay.Outcome, advise string) {
		r.parts = append(r.parts, f.gives(change, &own, o))
		if advice == "" {
			advice, r.gain, r.exact = advise, own.PeakReserved-o.High, own.Exact && o.Exact
		}
	}
	if better && !pools {
		conf, how := cmp.Or(best.Settings.String(), `""`), replayedHow(&best)
		f.add(textFigure(FigReplayedConf, conf).known(how), figure(FigReplayed, best.PeakReserved).known(how), figure(FigReplayedExact, int(how)))
		helps("other settings", &best, fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s to save %s.", conf, units.Bytes(own.PeakReserved-best.High)))
	}
	if one := h.OnePool(); one != nil {
		if o := one.RunBoth(own.Settings, d); saves(&own, &o) {
			f.add(figure(FigOnePool, o.PeakReserved).known(replayedHow(&o)))
			helps("one private pool", &o, adviceOnePool)
		}
	}
	if pools {
		f.Suggestions = []string{cmp.Or(advice, f.Suggestions[0])}
		return r
	}
	if pool := oom.Apart(&p.Tables, p.Space, h.History, d, &own, instant); pool != nil {
		f.add(textFigure(FigPinnedBy, pool.Place.String()), figure(FigPinned, pool.Holes),
			figure(FigApart, pool.Least.PeakReserved).known(replayedHow(&pool.Least)))
		if saves(&own, &pool.Least) {
			helps(pool.Place.String()+" in its own pool", &pool.Least, pool.Advice())
		} else {
			r.parts = append(r.parts, fmt.Sprintf("%s is next to %s of holes", pool.Place, units.Bytes(pool.Holes)))
		}
	}
	if advice == "" {
		r.parts = slices.Insert(r.parts, 0, "a replay shows that no other settings help")
	}
	f.Suggestions = []string{cmp.Or(advice, adviceBuckets)}
	return r
}

// saves reports whether a pool of its own gives enough.
func saves(own, other *replay.Outcome) bool {
	const least = 0.05 // minimum gain
	return !other.OOM && float64(other.High) <= (1-least)*float64(own.PeakReserved)
}

// replayedHow returns how an outcome is known: Derived if the recording determines it.
func replayedHow(o *replay.Outcome) purpose.How {
	if o.Exact {
		return purpose.Derived
	}
	return purpose.Inferred
}

// gives says what a change gives, compared with the recorded outcome, if that is not what the finding is about.
func (f *Finding) gives(change string, own, other *replay.Outcome) string {
	how := "replayed exactly"
	switch {
	case other.Low < other.High:
		how = "as far as a recording from the middle tells"
	case !other.Exact:
		how = "replayed within 5 %"
	}
	least := units.Bytes(other.PeakReserved)
	if float64(own.PeakReserved) != f.Value(FigReserved) {
		least += " instead of " + units.Bytes(own.PeakReserved)
	}
	return fmt.Sprintf("with %s %s suffice, %s", change, least, how)
}
