package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/replay"
)

// judge finds out why a recorded allocation failed and what would have helped, from the recording up to the failure: a leak,
// other settings of the allocator, or less memory of the largest holder.
type judge struct {
	t *lifetime.Tables
	s *lifetime.Space // the whole recording
	m *lifetime.Mark
	f *Failure

	until *lifetime.Space   // the recording up to the failure
	leaks []finding.Finding // confirmed ones, in until

	fitted bool // with another setting the request would have fitted
}

// judgeRecording completes the answer for a recorded failure.
func judgeRecording(t *lifetime.Tables, s *lifetime.Space, m *lifetime.Mark, f *Failure) {
	alone := &lifetime.Capture{Tables: *t, Spaces: []*lifetime.Space{s}}
	alone = alone.Slice(s.Begin, m.Begin+1)
	j := &judge{t: t, s: s, m: m, f: f, until: alone.Spaces[0]}
	f.ReleasedBytes, f.Retries = j.retries()
	if static(&s.SpaceInfo) {
		return
	}
	for _, found := range finding.Find(alone, alone.Spaces, finding.Settings{}) {
		if found.IsLeak() && found.Credible() {
			j.leaks = append(j.leaks, found)
		}
	}
	j.holding()
	if f.Reason == string(finding.ReasonFragmented) && valueOf(f.UnallocatedBytes) < m.Requested {
		f.Why = inPieces
	}
	if f.Reason != string(finding.ReasonLimit) && f.Reason != string(finding.ReasonLarger) {
		j.replay()
	}
	j.nameLeak()
}

// retries returns the bytes that the allocator gave back to the device right before the failure, to make room, and how often it
// had done this before with success.
func (j *judge) retries() (released, earlier int64) {
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
	if !slices.ContainsFunc(events, func(e event) bool { return e.kind == 2 }) {
		return 0, 0
	}
	for i := range s.Marks {
		if mark := &s.Marks[i]; mark.Kind == lifetime.OOM && mark.Begin < j.m.Begin {
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

// nameLeak makes a leak the reason if the request would have fit without it, and names it in any case.
func (j *judge) nameLeak() {
	if len(j.leaks) == 0 {
		return
	}
	leaked := int64(0)
	seen := map[int]bool{}
	for i := range j.leaks {
		for _, b := range j.leaks[i].Kept {
			if !seen[b] {
				leaked = units.AddSat(leaked, j.until.Buffers[b].Size)
			}
			seen[b] = true
		}
	}
	slices.SortStableFunc(j.leaks, func(x, y finding.Finding) int { return cmp.Compare(y.Amount.Bytes, x.Amount.Bytes) })
	top := &j.leaks[0]
	name := SiteName(j.t, &j.s.SpaceInfo, top.Place())
	j.f.Leak = fmt.Sprintf("%s leaked %s in %s", name, units.Bytes(top.Amount.Bytes), units.Plural(top.Amount.Count, "buffer"))
	if top.BytesPerStep > 0 {
		j.f.Leak += fmt.Sprintf(", %s per step", units.Bytes(int64(top.BytesPerStep)))
	}
	live := j.until.LevelAt(j.m.Begin, lifetime.Occupied)
	if !finding.LeakFilled(j.until, j.m, finding.Reason(j.f.Reason), leaked, j.fitted) {
		return
	}
	j.f.setReason(finding.ReasonLeak, top.Confidence)
	j.f.Next = nextStep(j.f, true)
	j.f.Why = "a leak filled the memory"
	j.f.Advice = "Fix the leak in " + name + "."
	if len(top.Suggestions) > 0 {
		j.f.Advice = top.Suggestions[0]
	}
	proof := fmt.Sprintf("without it %s would be in use instead of %s", units.Bytes(live-leaked), units.Bytes(live))
	j.f.Proof = &proof
}

// holding advises to hold less at the place that held most, and computes the peak up to the failure without its buffers.
func (j *judge) holding() {
	if j.f.Reason != string(finding.ReasonExhausted) || len(j.f.Holders) == 0 || j.until.UsageOnly() {
		return
	}
	top := slices.IndexFunc(j.f.Holders, func(h Holder) bool {
		place := j.t.PlaceOf(h.site)
		return place.Frame.Kind == lifetime.User && place.Frame != lifetime.Frame{} && place.Node == ""
	})
	if top < 0 || j.f.Holders[top].Bytes == 0 {
		return
	}
	name := j.f.Holders[top].Name
	matches := map[lifetime.SiteID]bool{}
	is := func(site lifetime.SiteID) bool {
		yes, known := matches[site]
		if !known {
			yes = SiteName(j.t, &j.s.SpaceInfo, site) == name
			matches[site] = yes
		}
		return yes
	}
	all, without := int64(0), int64(0)
	level, held := j.until.Base, int64(0)
	for c := range j.until.Changes() {
		b := &j.until.Buffers[c.Buffer]
		size := b.Size
		if !c.Begin {
			size = -size
		}
		if c.T >= j.until.End {
			break
		}
		if level += size; is(b.Site) {
			held += size
		}
		all, without = max(all, level), max(without, level-held)
	}
	j.f.Advice = fmt.Sprintf("Hold less at %s: a smaller batch, activation checkpointing, or a narrower type.", name)
	proof := fmt.Sprintf("without the buffers of %s the peak until then is %s instead of %s", name, units.Bytes(without), units.Bytes(all))
	j.f.Proof = &proof
}

const maxReplayed = 2_000_000 // buffers of a recording that are replayed for the answer

// replay tries settings of PyTorch's allocator, and makes fragmentation the reason if the request would have fit with one.
func (j *judge) replay() {
	if len(j.until.Buffers) > maxReplayed {
		return
	}
	h := replay.Of(j.until, j.t.Sources[j.s.Source].Settings)
	if h == nil || h.Capacity() == 0 {
		j.unproved()
		return
	}
	law := h.Verify()
	if h.Refusal(&law) != "" {
		j.unproved()
		return
	}
	device := replay.Device{Capacity: h.Capacity()}
	if own := h.RunBoth(h.Settings, device); !own.OOM { // the replay does not have the failure
		j.unproved()
		return
	}
	tried, exact, fits := candidates(h.Settings), true, false
	for _, s := range tried {
		o := h.RunBoth(s, device)
		exact, fits = exact && o.Exact, fits || !o.OOM
		if o.Exact && !o.OOM {
			j.proved(s, &law)
			return
		}
	}
	if j.f.Reason != string(finding.ReasonFragmented) || len(tried) == 0 || fits || j.otherStreams() >= j.m.Requested {
		j.unproved()
		return
	}
	j.f.Advice = withoutSetting
	if exact {
		proof := fmt.Sprintf("%s would not have helped, replayed exactly", confOf(tried[0], h.Settings))
		j.f.Proof = &proof
	}
}

// inPieces are the words of fragmentation if the reserved but free bytes alone do not suffice.
const inPieces = "enough is free, but in pieces: on the device and in the allocator"

// withoutSetting is the advice about fragmentation if no setting helps.
const withoutSetting = "Use few sizes, and allocate long-lived buffers first."

// candidates returns the settings to try: those that serve most programs, and that the capture does not have.
func candidates(own replay.Settings) (all []replay.Settings) {
	if !own.Expandable {
		s := own
		s.Expandable = true
		all = append(all, s)
	}
	for _, split := range []int64{512 << 20, 128 << 20} {
		if s := own; split < own.MaxSplit {
			s.MaxSplit = split
			all = append(all, s)
		}
	}
	return all
}

// confOf returns the part of the settings that is not in own.
func confOf(s, own replay.Settings) string {
	had := strings.Split(own.String(), ",")
	var parts []string
	for _, part := range strings.Split(s.String(), ",") {
		if !slices.Contains(had, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ",")
}

// proved sets the advice and its proof.
func (j *judge) proved(s replay.Settings, law *replay.Law) {
	proof := fmt.Sprintf("with %s it would have fit, replayed exactly (%s of %s addresses)", confOf(s, replay.Default()), units.Count(int64(law.Equal)), units.Count(int64(law.Addresses)))
	j.fitted = true
	advice := "Set PYTORCH_CUDA_ALLOC_CONF=" + s.String() + "."
	switch {
	case j.f.Reason == string(finding.ReasonExhausted) && finding.InPieces(valueOf(j.f.UnallocatedBytes), valueOf(j.f.ReservedBytes)):
		j.f.setReason(finding.ReasonFragmented, 0.95)
		j.f.Why = inPieces
	case j.f.Reason == string(finding.ReasonExhausted):
		j.f.Why += ", but for a little that is free in pieces"
		advice += " It helps a little; then: " + j.f.Advice
	}
	j.f.Advice, j.f.Next, j.f.Proof = advice, commandLine("tune", j.f.File), &proof
}

// unproved removes advice that the capture already follows.
func (j *judge) unproved() {
	if j.f.Reason != string(finding.ReasonFragmented) {
		return
	}
	settings := j.t.Sources[j.s.Source].SettingsByKey()
	if other := j.otherStreams(); other >= j.m.Requested {
		j.f.Why = units.Bytes(other) + " are free, but for other streams"
		j.f.Advice = "Allocate on one stream: each stream keeps its own free memory."
		return
	}
	if strings.EqualFold(settings["expandable_segments"], "true") || strings.Contains(settings["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True") {
		j.f.Advice = withoutSetting
	}
}

// otherStreams returns the reserved but free bytes of other streams than that of the request, if its own has too little; else 0.
func (j *judge) otherStreams() (other int64) {
	own := int64(0)
	for _, use := range j.until.PoolsAt(j.m.Begin) {
		switch {
		case use.Stream == j.m.Stream:
			own = units.AddSat(own, use.Free.Total)
		case use.Pool == "":
			other = units.AddSat(other, use.Free.Total)
		}
	}
	if own >= j.m.Requested {
		return 0
	}
	return other
}

// step returns the step of a failure and what the program named around it: "in step 7", "during eval"; "" if nothing was marked.
func stepOf(s *lifetime.Space, at int64) string {
	steps, name, inner := 0, "", (*lifetime.Mark)(nil)
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Begin > at {
			break
		}
		switch {
		case m.Kind == lifetime.Step && (m.End > at || m.End == m.Begin):
			name = m.Text
			fallthrough
		case m.Kind == lifetime.Step:
			steps++
		case m.Kind == lifetime.Annotation && m.End > at:
			inner = m
		}
	}
	var parts []string
	if steps > 0 {
		parts = append(parts, "in step "+units.Count(int64(steps)))
		if name != "" && !strings.HasSuffix(name, fmt.Sprint(steps)) {
			parts[0] += " (" + name + ")"
		}
	}
	if inner != nil && inner.Text != "" {
		parts = append(parts, "during "+inner.Text)
	}
	return strings.Join(parts, ", ")
}

// phaseOf returns the phase of training that a call stack is in; "" if it does not show.
func phaseOf(t *lifetime.Tables, site lifetime.SiteID) string {
	return [...]string{lifetime.Backward: "backward pass", lifetime.OptimizerPhase: "optimizer step", lifetime.OtherPhase: ""}[program.PhaseOf(t, site)]
}

func valueOf(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
