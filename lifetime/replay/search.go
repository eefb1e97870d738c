package replay

import (
	"cmp"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/memlane/memlane/internal/units"
)

// Trial is the result of some settings for several recordings.
type Trial struct {
	Outcomes []Outcome // by recording
	Recorded bool      // each recording under its own settings
}

// Search tries settings for all recordings together, on all processors. devices has the
// device of each recording. It returns the recorded settings first, then the others, the
// best first. stop is called between replays; its error ends the search.
func Search(all []*History, devices []Device, stop func() error) ([]Trial, error) {
	t := trials{all: slices.Clone(all), devices: devices, stop: stop, budget: math.MaxInt}
	t.search()
	return t.made, t.err
}

// briefly is the number of events that Advise replays: less than 1 s on one processor.
const briefly = 2_000_000

const leastTried = 3 // settings that Past tries however long that takes

// Advise is Search for one recording in bounded time. It changes one setting at a time, and of long recordings tries
// fewer. It returns the outcomes of the recorded and of the best settings. ok is false if no others are better.
func (h *History) Advise(d Device) (own, best Outcome, ok bool) {
	t := trials{all: []*History{h}, devices: []Device{d}, stop: func() error { return nil }, budget: briefly}
	t.single()
	i := Recommend(t.made)
	return t.made[0].Outcomes[0], t.made[i].Outcomes[0], i > 0
}

// Past returns the outcome of the first settings, of those that Search tries, with which every request finds memory on a device: one that is
// exact, else one that is not, else one that fails. sure says that the recording proves it: that these do not fail, or that all do.
func (h *History) Past(d Device) (o Outcome, sure bool) {
	t := trials{all: []*History{h}, devices: []Device{d}, stop: func() error { return nil }, budget: max(briefly, leastTried*len(h.events))}
	t.try(t.own())
	o, sure = Outcome{OOM: true}, true
	find := func(each [][]Settings) bool {
		for i := range each {
			from := len(t.made)
			sure = sure && t.budget >= len(h.events)
			t.tryNew(each[i : i+1]) // left out if it is the recorded one
			for _, of := range t.made[from:] {
				switch of := of.Outcomes[0]; {
				case !of.OOM && of.Exact:
					o, sure = of, true
					return true
				case !of.OOM && o.OOM:
					o = of
				}
				sure = sure && of.Outcomes[0].Exact
			}
		}
		return false
	}
	if !find(singles(t.all, t.devices)) {
		t.sort()
		for _, best := range t.bases() {
			if find(combined(best, t.devices)) {
				break
			}
		}
	}
	return o, sure
}

// Try replays the recordings under their own settings, then under the given ones.
func Try(all []*History, devices []Device, given []Settings, stop func() error) ([]Trial, error) {
	t := trials{all: slices.Clone(all), devices: devices, stop: stop}
	t.try(t.own())
	var each [][]Settings
	for _, s := range given {
		each = append(each, t.same(s))
	}
	t.try(each...)
	return t.made, t.err
}

// trials collects trials. The first one is that of the recorded settings.
type trials struct {
	all     []*History
	devices []Device
	stop    func() error
	budget  int // events that may be replayed; the first trial does not count
	made    []Trial
	err     error
}

// single tries the recorded settings, and others that change one thing.
func (t *trials) single() {
	t.try(t.own())
	t.tryNew(singles(t.all, t.devices))
	t.sort()
}

func (t *trials) search() {
	t.single()
	for _, best := range t.bases() {
		t.tryNew(combined(best, t.devices))
	}
	t.sort()
}

// tryNew adds trials of settings that are not the recorded ones, as long as the budget lasts.
func (t *trials) tryNew(each [][]Settings) {
	events, own := 0, t.own()
	for _, h := range t.all {
		events += len(h.events)
	}
	each = slices.DeleteFunc(each, func(s []Settings) bool { return slices.Equal(s, own) })
	n := min(len(each), t.budget/max(events, 1))
	t.budget -= n * events
	t.try(each[:n]...)
}

func (t *trials) own() (each []Settings) {
	for _, h := range t.all {
		each = append(each, h.Settings)
	}
	return each
}

func (t *trials) same(s Settings) []Settings {
	return slices.Repeat([]Settings{s}, len(t.all))
}

// try adds trials. Each has the settings of each recording.
func (t *trials) try(each ...[]Settings) {
	from := len(t.made)
	for range each {
		t.made = append(t.made, Trial{Outcomes: make([]Outcome, len(t.all)), Recorded: len(t.made) == 0})
	}
	type job struct{ trial, recording int }
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				t.made[from+j.trial].Outcomes[j.recording] = t.all[j.recording].RunBoth(each[j.trial][j.recording],
					t.devices[j.recording])
			}
		})
	}
	for i := range each {
		for k := range t.all {
			if t.err == nil {
				t.err = t.stop()
			}
			if t.err == nil {
				jobs <- job{i, k}
			}
		}
	}
	close(jobs)
	workers.Wait()
	for i, h := range t.all {
		o, last := &t.made[0].Outcomes[i], len(h.events)-1
		if d := t.devices[i]; last >= 0 && h.events[last].op == opFull && d.Fraction == 0 && d.Capacity > 0 && d.Capacity == h.capacity && !o.OOM {
			own := *h // the history may be asked other questions
			own.differs, t.all[i] = true, &own
			o.Exact, o.OOM, o.OOMEvent = false, true, int(h.requests[h.events[last].of].number) // recorded, but not in the replay
		}
	}
}

// sort sorts the trials behind the first one: fewer recordings that run out of memory, less
// memory, fewer retries, fewer settings.
func (t *trials) sort() { slices.SortStableFunc(t.made[1:], compareTrials) }

func compareTrials(x, y Trial) int {
	a, b := x.Sum(), y.Sum()
	return cmp.Or(cmp.Compare(a.OOMs, b.OOMs), cmp.Compare(a.PeakReserved, b.PeakReserved),
		cmp.Compare(a.Retries, b.Retries), cmp.Compare(x.keys(), y.keys()))
}

func (t *Trial) keys() int {
	text := t.Outcomes[0].Settings.String()
	if text == "" {
		return 0
	}
	return 1 + strings.Count(text, ":")
}

// Sum is a trial for all recordings together.
type Sum struct {
	OOMs         int
	PeakReserved int64
	Retries      int
	Exact        bool // all of them
}

// Sum adds up the outcomes.
func (t *Trial) Sum() Sum {
	s := Sum{Exact: true}
	for i := range t.Outcomes {
		o := &t.Outcomes[i]
		if o.OOM {
			s.OOMs++
		}
		s.PeakReserved += o.PeakReserved
		s.Retries += o.Retries
		s.Exact = s.Exact && o.Exact
	}
	return s
}

// MinGain is the minimum share of the reserved memory that recommended settings save.
const MinGain = 0.02

const (
	unsure   = 0.05 // minimum gain if a result is not exact: it may be off by as much
	maxWorse = 0.01 // no recording may need more by this share
	similar  = 0.005
)

// Recommend returns the index of the trial to recommend, or 0: keep the recorded settings.
// Of trials that are about as good, it prefers fewer settings.
func Recommend(all []Trial) int {
	own := all[0].Sum()
	best := 0
	for i := range all[1:] {
		if t := &all[1+i]; t.gains(&all[0], own) && (best == 0 || t.simpler(&all[best])) {
			best = 1 + i
		}
	}
	return best
}

// gains reports whether a trial is better than the recorded settings, and for no recording worse.
func (t *Trial) gains(recorded *Trial, own Sum) bool {
	s, needed := t.Sum(), int64(0)
	for i := range t.Outcomes {
		needed = units.AddSat(needed, t.Outcomes[i].High)
		o, before := &t.Outcomes[i], &recorded.Outcomes[i]
		if o.OOM && !before.OOM || !before.OOM && float64(o.PeakReserved) > float64(before.PeakReserved)*(1+maxWorse) {
			return false
		}
	}
	if s.OOMs != own.OOMs {
		return s.OOMs < own.OOMs
	}
	if own.OOMs > 0 { // the program dies, at whatever peak
		return false
	}
	least := MinGain
	if !s.Exact || !own.Exact {
		least = unsure
	}
	return float64(needed) <= float64(own.PeakReserved)*(1-least)
}

// simpler reports whether a trial has fewer settings than the best one so far and needs
// about as much, or is clearly better.
func (t *Trial) simpler(best *Trial) bool {
	a, b := t.Sum(), best.Sum()
	if a.OOMs != b.OOMs {
		return a.OOMs < b.OOMs
	}
	near := float64(a.PeakReserved) <= float64(b.PeakReserved)*(1+similar)
	return float64(a.PeakReserved) < float64(b.PeakReserved)*(1-similar) || near && t.keys() < best.keys()
}

// Settings that Search tries.
var (
	splitSizes  = []int64{21, 32, 64, 128, 256, 512, 1024} // MiB
	roundups    = []int64{2, 4, 8, 16}
	collectFrom = []float64{0.6, 0.8, 0.9}
)

// base returns the settings that a search starts from: the limits of the recording, without what the search varies.
func base(all []*History) Settings {
	s := Default()
	own := all[0].Settings
	s.Fraction, s.Segment, s.NonSplit = own.Fraction, own.Segment, own.Segment
	return s
}

func singles(all []*History, devices []Device) [][]Settings {
	of := slices.Repeat([]Settings{base(all)}, len(all))
	each := [][]Settings{of, changed(of, func(s *Settings) { s.Expandable = true })}
	for _, mb := range splitCandidates(all) {
		each = append(each, changed(of, func(s *Settings) { s.MaxSplit = max(mb*mib, s.Segment+mib) }))
	}
	return append(each, combined(of, devices)...)
}

func changed(of []Settings, change func(s *Settings)) []Settings {
	of = slices.Clone(of)
	for i := range of {
		change(&of[i])
	}
	return of
}

func (s *Settings) roundAll(n int64) {
	for i := range s.Roundup {
		s.Roundup[i] = n
	}
}

// splitCandidates returns values of max_split_size in MiB: common ones, and just above the
// most frequent sizes of large requests. It omits those above all requests.
func splitCandidates(all []*History) []int64 {
	const most = 6
	counts := map[int64]int{}
	for _, h := range all {
		for i := range h.requests {
			if mb := h.requests[i].requested / mib; mb > largeBuffer/mib && mb < 1<<20 {
				counts[mb+1]++
			}
		}
	}
	sizes := slices.SortedFunc(maps.Keys(counts),
		func(x, y int64) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y)) })
	if len(sizes) == 0 {
		return nil
	}
	largest := slices.Max(sizes)
	found := append(slices.Clone(sizes[:min(most, len(sizes))]), splitSizes...)
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(mb int64) bool { return mb > largest })
}

// bases returns the settings to combine with others: the best with and the best without expandable segments, unless they set
// nothing else, which singles has.
func (t *trials) bases() (best [][]Settings) {
	for _, expandable := range []bool{true, false} {
		found := -1
		for i := range t.made {
			s := t.made[i].Outcomes[0].Settings
			fits := s.Expandable == expandable && s.Roundup == [intervals]int64{} && s.Collect == 0
			if fits && (found < 0 || compareTrials(t.made[i], t.made[found]) < 0) {
				found = i
			}
		}
		if found < 0 {
			continue
		}
		if s := t.made[found].Outcomes[0].Settings; s.Expandable || s.MaxSplit != unlimited {
			best = append(best, t.same(s))
		}
	}
	return best
}

// combined returns settings that change another thing of the given ones.
func combined(of []Settings, devices []Device) (each [][]Settings) {
	for _, n := range roundups {
		each = append(each, changed(of, func(s *Settings) { s.roundAll(n) }))
	}
	if slices.ContainsFunc(devices, func(d Device) bool { return d.Fraction > 0 && d.Capacity > 0 }) { // without a fraction, nothing is collected
		for _, f := range collectFrom {
			each = append(each, changed(of, func(s *Settings) { s.Collect = f }))
		}
	}
	return each
}

// Device describes the device of a replay. Sizes are bytes.
type Device struct {
	Capacity int64   // memory of the device, less what others hold; 0 = unlimited
	Fraction float64 // torch.cuda.set_per_process_memory_fraction; 0 = not called
}

// limit returns what the fraction allows (allowed_memory_maximum); 0 = no fraction.
func (d *Device) limit(s *Settings) int64 {
	f := cmp.Or(d.Fraction, s.Fraction)
	if f == 0 || d.Capacity == 0 {
		return 0
	}
	return max(int64(f*float64(d.Capacity)), 1)
}

// most returns the bytes that can be reserved; 0 = unlimited.
func (d *Device) most(s *Settings) int64 {
	if limit := d.limit(s); limit > 0 {
		return min(limit, d.Capacity)
	}
	return d.Capacity
}

const (
	firstAddress = 0x7f0000000000 // of segments
	firstRange   = 0x300000000    // of expandable segments
	rangeStep    = 1 << 28        // ranges begin at multiples of it

	// A range has 9/8 of the device's memory. If its memory is not known, a range holds everything.
	boundlessRange = 1 << 46
)

// simulated is a device with a capacity. Snapshots do not tell how a driver chooses
// addresses. Under the recorded settings, a segment takes the one that the next segment of
// its size was recorded at. Otherwise it takes the lowest free range of exactly its size,
// else addresses that were never used: above all others, or below them if it is descending.
type simulated struct {
	descending bool
	recorded   map[int64][]uint64 // see History.addressesOf
	taken      map[key]bool       // recorded addresses

	free      int64 // bytes
	rangeSize int64
	next      uint64 // address
	nextRange uint64
	holes     sorted // released segments
}

func newSimulated(d Device, recorded map[int64][]uint64) *simulated {
	m := &simulated{recorded: maps.Clone(recorded), taken: map[key]bool{}, free: math.MaxInt64,
		rangeSize: boundlessRange, next: firstAddress, nextRange: firstRange}
	for size, all := range recorded {
		for _, addr := range all {
			m.next = max(m.next, addr+uint64(size))
		}
	}
	if d.Capacity > 0 {
		m.free = d.Capacity
		m.rangeSize = d.Capacity + d.Capacity/8
	}
	return m
}

func (m *simulated) alloc(size int64) (addr uint64, ok bool) {
	if size > m.free {
		return 0, false
	}
	m.free -= size
	if next := m.recorded[size]; len(next) > 0 {
		m.recorded[size] = next[1:]
		if k := (key{size: size, addr: next[0]}); !m.taken[k] {
			m.taken[k] = true
			if hole, ok := m.holes.get(m.holes.find(k)); ok && hole == k {
				m.holes.remove(k)
			}
			return k.addr, true
		}
	}
	if hole, ok := m.holes.get(m.holes.find(key{size: size})); ok && hole.size == size {
		m.holes.remove(hole)
		m.taken[hole] = true
		return hole.addr, true
	}
	if m.descending {
		m.next -= uint64(size)
		return m.next, true
	}
	addr = m.next
	m.next += uint64(size)
	return addr, true
}

func (m *simulated) release(addr uint64, size int64) {
	m.free += size
	m.holes.insert(key{size: size, addr: addr})
	delete(m.taken, key{size: size, addr: addr})
}

func (m *simulated) reserve() (addr uint64, size int64) {
	addr = m.nextRange
	m.nextRange += uint64(roundUp(m.rangeSize, rangeStep))
	return addr, m.rangeSize
}

func (m *simulated) mapRange(_ uint64, size int64) bool {
	if size > m.free {
		return false
	}
	m.free -= size
	return true
}

func (m *simulated) unmapRange(_ uint64, size int64) { m.free += size }
