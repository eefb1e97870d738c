package whatif

import (
	"cmp"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/replay"
)

// Engine answers for one memory ID.
type Engine struct {
	Law      replay.Law // how much of the recording the rules of the allocator predict
	Peak     int64      // as recorded
	Reserved int64      // the same of reserved memory
	Recorded Result     // without edits: the peak is what the allocator counts, as far as a replay knows it, with requests that failed
	Needs    Result     // Recorded, or with another step if OneStep is set: what savings are of

	// OneStep is set if the only whole step of the recording makes what the next one has from its beginning, mostly the state of the optimizer. All
	// results but Recorded are with another step after it.
	OneStep bool

	// Unfinished is set if the recording ends in the middle of what the program does, mostly as memory ran out: all results are those until then.
	Unfinished bool

	base     *model // as recorded
	program  *model // what edits change
	short    *model // the same, without most of the steps that it repeats; nil = it repeats none
	least    int64  // bytes that the program requested at once
	history  *replay.History
	remedies []Remedy
	replayed int // events, since a search began

	// of the last scenario: its figures and its levels are mostly asked for one after the other
	last struct {
		edits  string
		of     *model // that was edited
		m      *model // nil = none, or refused
		result Result
	}
}

// New returns the engine of a space of a program, with its recording, nil for none. refused says why there is no engine.
func New(of *program.Program, s *lifetime.Space, r *replay.Recording) (e *Engine, refused string) {
	switch {
	case r == nil:
		return nil, "no history of PyTorch's allocator was recorded: torch.cuda.memory._record_memory_history()"
	case r.Refused != "":
		return nil, r.Refused
	}
	e = &Engine{history: r.History, Law: r.Law, Reserved: r.History.PeakReserved()}
	e.base, e.least = modelOf(of, s, r.History), s.Peak(lifetime.Requested).Bytes
	e.program = e.base
	var first int
	if first, e.OneStep = e.base.firstStep(); e.OneStep {
		e.program = e.base.clone()
		e.program.addStep(first)
	}
	e.Unfinished = e.program.isUnfinished()
	e.Recorded = e.Run(nil, replay.Device{})
	e.Peak = s.Peak(lifetime.Occupied).Bytes
	if e.Needs = e.Recorded; e.OneStep {
		e.Needs = e.Run(e.Start(), replay.Device{})
		return e, ""
	}
	if e.short = e.base.shorten(); e.Run(nil, replay.Device{}) != e.Recorded {
		e.short = nil
	}
	return e, ""
}

// Capacity returns the bytes that the allocator could reserve when an allocation failed; 0 = not known.
func (e *Engine) Capacity() int64 { return e.history.Capacity() }

// Lowers reports whether a peak of at most so many bytes is below that of the recording, as recorded and as replayed; with a request that failed, or of
// the next step, below what that needs.
func (e *Engine) Lowers(high int64) bool {
	if e.OneStep || e.Capacity() > 0 {
		return high < e.Needs.Peak
	}
	return high < min(e.Peak, e.Needs.Peak)
}

// known reports whether the recording has all that the allocator did, and its rules predict it.
func (e *Engine) known() bool { return e.Law.First < 0 && e.history.FromStart() }

// Start returns the scenario in which nothing is changed: the recording, or with another step if OneStep is set.
func (e *Engine) Start() Scenario {
	if e.OneStep {
		return Scenario{nextStep}
	}
	return nil
}

// Scenario is a list of edits, as Parse returns them. Without edits it is the recording.
type Scenario []Edit

// Result is what a program would need. Sizes are bytes.
type Result struct {
	Peak         int64 // allocated: torch.cuda.max_memory_allocated
	Low, High    int64 // range of Peak
	Exact        bool  // Low == Peak == High, to the byte on all programs that were tried
	Reserved     int64 // highest reserved memory
	ReservedLow  int64
	ReservedHigh int64
	OOM          bool // a request fails on the device, with the figures as they are

	Recomputed int64 // buffers that are computed again in a pass
	Copied     int64 // bytes to and from the host in a pass
	Passes     int   // passes of each step, beside the recorded ones

	Refused string // why there are no figures; "" = there are
}

// Run returns what the program would need in a scenario.
func (e *Engine) Run(s Scenario, d replay.Device) Result {
	m, r := e.change(cmp.Or(e.short, e.program), s)
	if r.Refused != "" {
		return r
	}
	h, _ := m.program()
	e.replayed += m.n
	o := h.Range(h.Settings, d)
	if !o.Repeats { // as much as it needs may change in what was left out
		m, r = e.whole(s)
		h, _ = m.program()
		o = h.Range(h.Settings, d)
	}
	r.Peak, r.Reserved, r.OOM = o.PeakLive, o.PeakReserved, o.OOM
	exact, onlyAdds, inPasses := e.known(), true, false
	var all off
	for _, edit := range s {
		of := edit.kind.off
		onlyAdds = onlyAdds && edit.kind.adds != nil && edit.kind.adds(edit.Value)
		if exact = exact && of.exact && (len(s) == 1 || of.below+of.above == 0); exact {
			continue
		}
		all.add(of)
		inPasses = inPasses || !of.inSteps && of != off{}
	}
	if inPasses && e.program.isUnnamed() {
		all.add(offUnnamed)
	}
	if e.OneStep && len(s) > 0 {
		all.add(offNextStep)
	}
	if !e.known() {
		all.add(offMiddle)
	}
	r.Exact = exact && m.allocated == open{}
	between := func(peak int64, of float64) int64 { return int64(min(max(0, 1+of)*float64(peak), math.MaxInt64/2)) }
	r.Low = max(0, between(r.Peak, -all.below)-m.allocated.less)
	if onlyAdds && !e.known() { // a program that only takes more has as much in use
		r.Low = max(r.Low, min(e.least, r.Peak))
	}
	r.High = units.AddSat(between(r.Peak, all.above), m.allocated.more)
	r.ReservedLow, r.ReservedHigh = o.Low, o.High
	if len(s) > 0 {
		reserved := e.reserved(s)
		below, above := max(reserved.below, all.below), max(reserved.above, all.above) // at least as wide as of the peak
		r.ReservedLow = max(r.Low, between(o.Low, -below)-m.reserved.less)
		adds := max(0, r.High-e.Recorded.Peak) // a change reserves at most what was reserved, and what it adds, unless a replay shows more
		most := max(o.High, r.High, units.AddSat(e.Recorded.Reserved, between(adds, .1)))
		r.ReservedHigh = min(max(o.High, units.AddSat(between(o.High, above), m.reserved.more)), most)
	}
	return r
}

// Without returns what the program would need if it did not keep some recorded buffers that were never freed. They are freed at once at the
// earliest, and when the next one of their call site is made at the latest. What it keeps from before the recording may be of the same kind.
func (e *Engine) Without(kept []int) Result {
	leaked := map[int32]bool{}
	for _, i := range kept {
		leaked[int32(i)] = true
	}
	isLeaked := func(b *buffer) bool { return leaked[b.like] && !b.isFreed() }
	gone, replaced := e.base.clone(), e.base.clone()
	next := map[int32]*buffer{} // by site
	for _, b := range slices.Backward(replaced.buffers) {
		switch {
		case !isLeaked(b):
		case next[b.site] != nil:
			replaced.until(b, released.at(next[b.site].begin.event))
			fallthrough
		default:
			next[b.site] = b
		}
	}
	gone.drop(isLeaked)
	r := Result{Peak: replaced.run().PeakLive, Low: gone.run().PeakLive}
	r.High = max(r.Peak, r.Low)
	older := filter(e.base.buffers, func(b *buffer) bool { return b.isOlder() && !b.isFreed() })
	r.Low = max(r.Low-sizeOf(older), 0)
	return r
}

// whole returns the program after the edits.
func (e *Engine) whole(s Scenario) (m *model, r Result) { return e.change(e.program, s) }

func (e *Engine) change(of *model, s Scenario) (m *model, r Result) {
	switch {
	case len(s) == 0 && e.OneStep:
		return e.base, r
	case len(s) == 0:
		return of, r
	case e.last.of != of || e.last.edits != s.String():
		e.last.m = nil // not in memory beside the next one
		e.last.m, e.last.result = e.edit(of, s)
		e.last.of, e.last.edits = of, s.String()
	}
	return e.last.m, e.last.result
}

func (e *Engine) edit(of *model, s Scenario) (m *model, r Result) {
	m, r = e.apply(of.clone(), s)
	var others []*model
	for _, apart := range of.readApart(s) {
		if other, _ := e.apply(apart, s); other != nil {
			others = append(others, other)
		}
	}
	switch {
	case m != nil:
		m.leaveOpen(others...)
	case others != nil:
		r.Refused = s.String() + ": " + noOperators
	}
	return m, r
}

func (e *Engine) apply(m *model, s Scenario) (_ *model, r Result) {
	rows := 1.0 // times as many
	for _, edit := range s {
		m.settle()
		if r.Refused = edit.kind.apply(m, edit.Value); r.Refused != "" {
			r.Refused = edit.String() + ": " + r.Refused
			return nil, r
		}
		m.ofBiases, m.isContribution = nil, nil
		switch edit.Name {
		case "accumulate":
			r.Passes = int(number(edit.Value)) - 1
		case "batch", "sequence":
			rows *= number(edit.Value)
		}
	}
	if rows > 1 {
		m.sumMore(rows)
	}
	if e.OneStep {
		m.freedLate()
	}
	r.Recomputed, r.Copied = m.recomputed, m.copied
	return m, r
}

// Fits reports whether a scenario finds memory for all its requests with a capacity; r is its result without a limit, and not refused. It is sure if
// that also holds with as much less or more as predictions were off.
func (e *Engine) Fits(s Scenario, r *Result, capacity int64) (fits, sure bool) {
	if r.Low > capacity {
		return false, true
	}
	fits = e.fits(s, capacity)
	if e.known() && (len(s) == 0 || fits && capacity >= r.ReservedHigh) {
		return fits, true
	}
	of := offFits
	if e.reserved(s) == (off{}) {
		of = offFitsSteps
	}
	by := float64(r.High)/float64(r.Peak) + of.above
	if !fits {
		by = float64(r.Low)/float64(r.Peak) - of.below
	}
	if by <= 0 {
		return fits, false
	}
	return fits, e.fits(s, int64(min(float64(capacity)/by, math.MaxInt64/2))) == fits
}
