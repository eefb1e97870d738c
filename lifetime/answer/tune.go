package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/replay"
)

// Tune is the result of memlane tune: what programs would have needed under other settings of PYTORCH_CUDA_ALLOC_CONF.
// Figures of several memory IDs are for all of them together: peaks are those of the memory ID that needs most.
type Tune struct {
	Schema      string        `json:"schema"`             // "memlane/1"
	Next        string        `json:"next"`               // command that tells more, or what to record for it; empty if none does
	Replay      Replay        `json:"replay"`             // how much of the recordings the rules of the allocator predict
	Settings    []TuneSetting `json:"settings"`           // settings that were replayed: the recorded ones first, then the best first, or as given with --set
	Recommended string        `json:"recommended"`        // the best settings, or the recorded ones if nothing gains 2 %; "" if nothing can be predicted
	Unfinished  bool          `json:"unfinished"`         // a recording ends in the middle of a pass: all figures are until then, and the rest may need more
	Captures    []TuneCapture `json:"captures,omitempty"` // the same for each memory ID, if there are several

	Keep     bool          `json:"-"` // the recorded settings are the best
	Given    bool          `json:"-"` // the settings were given, not searched
	Leak     string        `json:"-"` // the leak that grows fastest from step to step; "" = none was found
	Capacity int64         `json:"-"` // bytes of the first device; 0 = unlimited
	Refused  []tuneRefusal `json:"-"`
}

// Replay says how much of a recording the rules of PyTorch's allocator predict.
type Replay struct {
	Addresses     int    `json:"addresses"`         // recorded allocations
	Equal         int    `json:"equal"`             // allocations at the predicted address
	Segments      int    `json:"segments"`          // recorded events of segments: taken from the device or returned
	SegmentsEqual int    `json:"segments_equal"`    // predicted ones
	Refused       string `json:"refused,omitempty"` // why other settings cannot be predicted
}

// TuneSetting is what a program would have needed under some settings.
type TuneSetting struct {
	Conf              string `json:"conf"`                // value of PYTORCH_CUDA_ALLOC_CONF; "default" if it is empty
	Outcome           string `json:"outcome"`             // "ok", "oom" if an allocation fails, or "later" if none that was recorded fails, but the leak that filled the memory goes on
	PeakReservedBytes int64  `json:"peak_reserved_bytes"` // highest reserved memory
	PeakLiveBytes     int64  `json:"peak_live_bytes"`     // highest allocated memory, as torch.cuda.max_memory_allocated; with the recorded settings as recorded
	ReplayedBytes     int64  `json:"replayed_bytes"`      // the same as a replay counts it: with remainders that the allocator did not split off, without buffers whose free is pending
	Retries           int    `json:"retries"`             // allocations for which all cached memory was released
	SegmentsAtEnd     int    `json:"segments_at_end"`     // segments at the end; an expandable segment counts once
	OOMEvent          *int   `json:"oom_event"`           // index in device_traces of the event that fails; null if none does
	How               string `json:"how"`                 // how it is known: recorded, derived from recorded facts by arithmetic or an exact replay, or inferred
	Exact             bool   `json:"exact"`               // the recording determines the figures

	LowBytes  int64  `json:"peak_reserved_low_bytes"`  // the peak of reserved memory is at least this
	HighBytes *int64 `json:"peak_reserved_high_bytes"` // and at most this; null if nothing bounds it

	Recorded bool `json:"-"`
	Range    bool `json:"-"` // the recording begins in the middle: the range is the result
}

// TuneCapture is the result for one memory ID.
type TuneCapture struct {
	File     string        `json:"file"`     // name on the command line
	ID       string        `json:"id"`       // memory ID
	Replay   Replay        `json:"replay"`   // how much of the recording the rules of the allocator predict
	Settings []TuneSetting `json:"settings"` // in the same order as for all together
}

type tuneRefusal struct{ ID, Why string }

// Tuning collects the recordings that Tune is about.
type Tuning struct {
	Capacity int64   // of each device in bytes; 0 = that of a recorded OOM, else unlimited
	Fraction float64 // set_per_process_memory_fraction; 0 = none

	histories  []*replay.History
	devices    []replay.Device
	spaces     []*lifetime.Space
	filled     []bool // of each recording: a leak is why an allocation failed
	captures   []TuneCapture
	refused    []tuneRefusal
	law        Replay
	unfinished bool    // a recording ends in the middle of a pass
	leak       string  // the fastest leak so far
	rate       float64 // its bytes per step

	// Set by Tune.
	trials []replay.Trial
	names  []string
	best   int
}

// Add adds the spaces of a capture with categories. It fails with a *selection.NothingError if none has a history of
// PyTorch's allocator.
func (t *Tuning) Add(c *judge.Capture) error {
	c.Limits = judge.Asked
	found := false
	for _, s := range c.Spaces {
		source := &c.Sources[s.Source]
		h := c.Replay(s)
		if h == nil {
			continue
		}
		found = true
		law := replayOf(h)
		t.law.Addresses += law.Addresses
		t.law.Equal += law.Equal
		t.law.Segments += law.Segments
		t.law.SegmentsEqual += law.SegmentsEqual
		if h.Refused != "" {
			t.law.Refused = cmp.Or(t.law.Refused, h.Refused)
			t.refused = append(t.refused, tuneRefusal{source.File + ", " + s.ID(), h.Refused})
			continue
		}
		t.histories = append(t.histories, h.History)
		t.devices = append(t.devices, replay.Device{Capacity: cmp.Or(t.Capacity, h.Capacity()), Fraction: t.Fraction})
		t.spaces = append(t.spaces, s)
		if e := autoEngine(c, s); e != nil {
			t.unfinished = t.unfinished || e.Unfinished
		}
		t.captures = append(t.captures, TuneCapture{File: source.File, ID: s.ID(), Replay: law})
	}
	if !found {
		return unreplayed(c, ` and torch.cuda.memory._dump_snapshot("FILE")`)
	}
	t.filled = append(t.filled, make([]bool, len(t.spaces)-len(t.filled))...)
	for _, s := range c.Spaces {
		for _, f := range c.Leaks(s) {
			if f.BytesPerStep > t.rate {
				t.rate = f.BytesPerStep
				t.leak = fmt.Sprintf("%s leaks %s per step", c.PlaceOf(f.Place()), units.Bytes(int64(t.rate)))
			}
		}
		i := slices.Index(t.spaces, s)
		if failed := c.Failures(s); i >= 0 && len(failed) > 0 && failed[0].Reason == oom.Leak {
			t.filled[i], t.leak = true, cmp.Or(t.leak, c.PlaceOf(failed[0].Leak.Site).String()+" leaks")
		}
	}
	return nil
}

// replayOf returns how much of a recording the rules of the allocator predict.
func replayOf(h *replay.Recording) Replay {
	return Replay{h.Law.Addresses, h.Law.Equal, h.Law.Segments, h.Law.SegmentsEqual, h.Refused}
}

// Conf is a value of PYTORCH_CUDA_ALLOC_CONF as the user gave it, and its meaning.
type Conf struct {
	Text     string
	Settings replay.Settings
}

// maxTuned is the maximum number of settings that a search returns, besides the recorded ones.
const maxTuned = 9

// Tune replays the recordings under the given settings, or searches if there are none. An error of stop ends it.
func (t *Tuning) Tune(given []Conf, stop func() error) (*Tune, error) {
	out := &Tune{Schema: schema, Replay: t.law, Settings: []TuneSetting{}, Refused: t.refused, Given: len(given) > 0, Leak: t.leak, Unfinished: t.unfinished}
	if len(t.histories) == 0 {
		return out, nil
	}
	var all []replay.Trial
	var err error
	if len(given) > 0 {
		var settings []replay.Settings
		for _, g := range given {
			settings = append(settings, g.Settings)
		}
		all, err = replay.Try(t.histories, t.devices, settings, stop)
	} else {
		all, err = replay.Search(t.histories, t.devices, stop)
	}
	if err != nil {
		return nil, err
	}
	names := namesOf(all, given)
	best := replay.Recommend(all)
	t.trials, t.names, t.best = all, names, best
	out.Keep, out.Recommended, out.Capacity = best == 0, names[best], t.devices[0].Capacity
	for i := range all {
		if shows(all, i, best, len(given) > 0) {
			t.row(out, names[i], &all[i])
		}
	}
	out.Next = afterTune(out, t.captures[0].File)
	if len(t.captures) > 1 {
		out.Captures = t.captures
	}
	return out, nil
}

// tunePicture is what a picture of two settings shows: the recorded ones and the recommended ones, for the memory ID
// that needs most.
type tunePicture struct {
	Space            lifetime.SpaceInfo
	File             string
	Names            [2]string
	Helps            bool // the second ones are recommended
	Recorded, Chosen *replay.Trace
}

// Picture returns what a picture shows, after Tune. If nothing is recommended, it has the best of the other settings.
// ok is false if nothing was compared.
func (t *Tuning) Picture() (p tunePicture, ok bool) {
	chosen := max(t.best, 1)
	if len(t.trials) <= chosen {
		return p, false
	}
	of := t.trials[0].Outcomes
	most := slices.MaxFunc(of, func(x, y replay.Outcome) int { return cmp.Compare(x.PeakReserved, y.PeakReserved) }).PeakReserved
	k := slices.IndexFunc(of, func(o replay.Outcome) bool { return o.PeakReserved == most })
	trace := func(trial int) *replay.Trace {
		return t.histories[k].Trace(t.trials[trial].Outcomes[k].Settings, t.devices[k])
	}
	return tunePicture{
		Space: t.spaces[k].SpaceInfo, File: t.captures[k].File, Names: [2]string{t.names[0] + " (recorded)", t.names[chosen]}, Helps: t.best > 0,
		Recorded: trace(0), Chosen: trace(chosen),
	}, true
}

// namesOf returns the settings of trials as PYTORCH_CUDA_ALLOC_CONF, or as they were given.
func namesOf(all []replay.Trial, given []Conf) []string {
	names := make([]string, len(all))
	for i := range all {
		first := all[i].Outcomes[0].Settings
		names[i] = cmp.Or(first.String(), "default")
		if slices.ContainsFunc(all[i].Outcomes, func(o replay.Outcome) bool { return o.Settings != first }) {
			names[i] = "as recorded"
		}
		if i > 0 && len(given) > 0 {
			names[i] = given[i-1].Text
			if sameSettings(&all[0], &all[i]) {
				names[0] = names[i]
			}
		}
	}
	return names
}

// shows reports whether trial i has a row: the recorded settings and the given ones, or the best ones that a search
// found and the default ones. Trials of the recorded settings have one row.
func shows(all []replay.Trial, i, best int, given bool) bool {
	return i == 0 || !sameSettings(&all[0], &all[i]) && (given || i <= maxTuned || i == best || all[i].Outcomes[0].Settings == replay.Default())
}

func sameSettings(x, y *replay.Trial) bool {
	return slices.EqualFunc(x.Outcomes, y.Outcomes, func(a, b replay.Outcome) bool { return a.Settings == b.Settings })
}

func (t *Tuning) row(out *Tune, conf string, trial *replay.Trial) {
	own := trial.Recorded && t.Capacity == 0 && t.Fraction == 0 // the figures are the recorded ones
	total := TuneSetting{Conf: conf, Outcome: "ok", Exact: true, Recorded: trial.Recorded, HighBytes: new(int64)}
	for i := range trial.Outcomes {
		row := settingOf(conf, &trial.Outcomes[i])
		if row.Recorded = trial.Recorded; own {
			row.PeakLiveBytes = t.spaces[i].Peak(lifetime.Occupied).Bytes
			if reserved := t.histories[i].PeakReserved(); row.Outcome != "ok" || !row.Exact { // the replay differs, or ends with the request that failed
				row.PeakReservedBytes, row.LowBytes, row.HighBytes, row.Exact, row.Range = reserved, reserved, &reserved, true, false
			}
		}
		row.How = howKnown(own && row.Exact, row.Exact)
		if row.Outcome == "ok" && t.filled[i] && t.trials[0].Outcomes[i].OOM {
			row.Outcome = "later"
		}
		t.captures[i].Settings = append(t.captures[i].Settings, row)
		total.PeakReservedBytes, total.PeakLiveBytes = max(total.PeakReservedBytes, row.PeakReservedBytes),
			max(total.PeakLiveBytes, row.PeakLiveBytes)
		total.ReplayedBytes = max(total.ReplayedBytes, row.ReplayedBytes)
		total.widen(&row)
		total.Retries += row.Retries
		total.SegmentsAtEnd += row.SegmentsAtEnd
		total.Exact = total.Exact && row.Exact
		if row.Outcome != "ok" && total.OOMEvent == nil {
			total.Outcome, total.OOMEvent = row.Outcome, row.OOMEvent
		}
	}
	total.How = howKnown(own && total.Exact, total.Exact)
	out.Settings = append(out.Settings, total)
}

// widen adds the range of another memory ID.
func (s *TuneSetting) widen(row *TuneSetting) {
	s.LowBytes, s.Range = max(s.LowBytes, row.LowBytes), s.Range || row.Range
	if s.HighBytes != nil && (row.HighBytes == nil || *row.HighBytes > *s.HighBytes) {
		s.HighBytes = row.HighBytes
	}
}

// inexact is how far off a peak may be that the recording does not determine, although it has the whole history. In
// real runs 97 to 98 % of such peaks were within it.
const inexact = 0.05

func settingOf(conf string, o *replay.Outcome) TuneSetting {
	s := TuneSetting{
		Conf: conf, Outcome: "ok", PeakReservedBytes: o.PeakReserved, PeakLiveBytes: o.PeakLive, ReplayedBytes: o.PeakLive, Retries: o.Retries,
		SegmentsAtEnd: o.Segments, Exact: o.Exact, LowBytes: o.Low, HighBytes: &o.High, Range: o.Low < o.High,
	}
	switch {
	case o.High == math.MaxInt64:
		s.HighBytes = nil
	case !o.Exact && !s.Range:
		s.LowBytes = int64((1 - inexact) * float64(o.PeakReserved))
		s.HighBytes = new(units.AddSat(o.PeakReserved, int64(inexact*float64(o.PeakReserved))))
	}
	if o.OOM {
		s.Outcome, s.OOMEvent = "oom", &o.OOMEvent
	}
	return s
}

// Result returns the event that fails, or how exact the peak is, and what a replay counts if it differs.
func (s *TuneSetting) Result() string {
	if replayed := units.Bytes(s.ReplayedBytes); s.OOMEvent == nil && replayed != units.Bytes(s.PeakLiveBytes) {
		return s.result() + ", " + replayed + " replayed"
	}
	return s.result()
}

func (s *TuneSetting) result() string {
	switch {
	case s.OOMEvent != nil:
		return fmt.Sprintf("OOM at event %d", *s.OOMEvent)
	case s.Exact:
		return "exact"
	case s.HighBytes == nil:
		return "at least " + units.Bytes(s.LowBytes)
	case s.Range:
		return fmt.Sprintf("%s to %s", units.Bytes(s.LowBytes), units.Bytes(*s.HighBytes))
	}
	return fmt.Sprintf("within %.0f %%", 100*inexact)
}

// Verdict returns the recommendation, and the reason for it. Where a leak grows, no setting helps for long.
func (t *Tune) Verdict() (verdict, reason string) {
	verdict, reason = t.choice()
	if t.Leak != "" {
		reason += "; no setting helps for long: " + t.Leak
	}
	return verdict, reason
}

func (t *Tune) choice() (verdict, reason string) {
	own, best := &t.Settings[0], t.setting(t.Recommended)
	may := ""
	switch {
	case t.Keep && own.Outcome == "oom":
		reason, may = "no other settings avoid the OOM", "get past the request that failed"
	case t.Keep:
		reason, may = fmt.Sprintf("no other settings need less by %.0f %%", 100*replay.MinGain), "need less"
	}
	if perhaps := t.perhaps(); t.Keep && perhaps != nil {
		reason = fmt.Sprintf("with %s it may %s (%s), which the recording does not prove", perhaps.Conf, may, perhaps.result())
	}
	if t.Keep {
		return "keep what you have: PYTORCH_CUDA_ALLOC_CONF=" + confValue(own.Conf), reason
	}
	reserves, how := "it reserves "+units.Bytes(best.PeakReservedBytes), ", "+best.result()
	switch {
	case best.Exact:
		how = ", replayed exactly"
	case best.Range:
		reserves, how = "it reserves "+best.result(), ""
	}
	reason = reserves + " instead of " + units.Bytes(own.PeakReservedBytes)
	switch {
	case own.Outcome == "oom" && !best.Exact:
		reason = "it may get past the request that failed; " + reserves
	case own.Outcome == "oom" && best.Outcome == "later":
		reason = "it gets past the request that failed; " + reserves
	case own.Outcome == "oom":
		reason = "it does not run out of memory until the recording ends; " + reserves
	}
	return "recommended: PYTORCH_CUDA_ALLOC_CONF=" + confValue(best.Conf), reason + how
}

// Tells reports whether row i says something to people: it is that of the recorded, recommended or given settings, or
// of others that avoid an OOM or may need less.
func (t *Tune) Tells(i int) bool {
	own, s := &t.Settings[0], &t.Settings[i]
	best := slices.IndexFunc(t.Settings, func(o TuneSetting) bool { return strings.HasPrefix(s.Conf, o.Conf+",") && o.Conf == t.Recommended })
	if best >= 0 && !t.Given && t.Settings[best].noWorse(s) {
		return false // it adds to the recommended settings, for nothing
	}
	return i == 0 || t.Given || s.Conf == t.Recommended ||
		s.Outcome != "oom" && (own.Outcome == "oom" || t.gains(s.PeakReservedBytes) || s.Range && t.gains(s.LowBytes))
}

// noWorse reports whether a setting needs no more than another, also at best and at worst.
func (s *TuneSetting) noWorse(o *TuneSetting) bool {
	return s.LowBytes <= o.LowBytes && s.PeakReservedBytes <= o.PeakReservedBytes && s.HighBytes != nil && (o.HighBytes == nil || *s.HighBytes <= *o.HighBytes)
}

// gains reports whether a peak is lower than the recorded one by enough to recommend it.
func (t *Tune) gains(peak int64) bool {
	return float64(peak) <= float64(t.Settings[0].PeakReservedBytes)*(1-replay.MinGain)
}

// perhaps returns the first row that does not run out of memory and, if the recorded one does not either, gains; nil if
// there is none.
func (t *Tune) perhaps() *TuneSetting {
	i := slices.IndexFunc(t.Settings, func(s TuneSetting) bool {
		return s.Outcome != "oom" && (t.Settings[0].Outcome == "oom" || t.gains(s.PeakReservedBytes))
	})
	if i < 0 {
		return nil
	}
	return &t.Settings[i]
}

// confValue returns a value of PYTORCH_CUDA_ALLOC_CONF for a shell.
func confValue(name string) string {
	if name == "default" {
		return `""`
	}
	return name
}

// setting returns the row of the recorded or recommended settings.
func (t *Tune) setting(conf string) *TuneSetting {
	i := slices.IndexFunc(t.Settings, func(s TuneSetting) bool { return s.Conf == conf })
	if i < 0 {
		return nil
	}
	return &t.Settings[i]
}

// Text returns the law as text: "4,821 of 4,821 addresses, 20 of 20 segments".
func (r *Replay) Text() string {
	text := fmt.Sprintf("%s of %s addresses", units.Count(int64(r.Equal)), units.Count(int64(r.Addresses)))
	if r.Segments > 0 {
		text += fmt.Sprintf(", %s of %s segments", units.Count(int64(r.SegmentsEqual)), units.Count(int64(r.Segments)))
	}
	return text
}
