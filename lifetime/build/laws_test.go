package build

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/region"
)

// record is one event of a random history.
type record struct {
	t           int64
	free        bool
	freeRequest bool
	addr        uint64
	size        int64
	site        int
}

// history is a random complete history with reused addresses, equal times and bursts.
type history struct {
	records []record
	live    map[uint64]record // at the end
}

func randomHistory(rng *rand.Rand, n int) history {
	h := history{live: map[uint64]record{}}
	var addrs []uint64 // alive, free not requested
	t := rng.Int64N(1000) - 500
	for range n {
		if rng.IntN(3) > 0 {
			t += rng.Int64N(4)
		}
		if len(addrs) > 0 && (rng.IntN(5) < 2 || len(addrs) > 60) {
			i := rng.IntN(len(addrs))
			r := h.live[addrs[i]]
			addrs = append(addrs[:i], addrs[i+1:]...)
			if rng.IntN(3) == 0 {
				h.records = append(h.records, record{t: t, freeRequest: true, addr: r.addr, size: r.size, site: r.site})
				if rng.IntN(4) == 0 {
					continue // stays pending
				}
			}
			delete(h.live, r.addr)
			h.records = append(h.records, record{t: t, free: true, addr: r.addr, size: r.size, site: r.site})
			continue
		}
		r := record{t: t, addr: uint64(1+rng.IntN(100)) << 16, size: rng.Int64N(60000), site: rng.IntN(6)}
		if _, taken := h.live[r.addr]; taken {
			continue
		}
		h.live[r.addr] = r
		addrs = append(addrs, r.addr)
		h.records = append(h.records, r)
	}
	return h
}

// facts returns the records from the given one on, and the end state.
func (h history) facts(from int) []fact {
	facts := []fact{endState}
	pending := map[uint64]bool{}
	for i, r := range h.records {
		if r.freeRequest {
			pending[r.addr] = true
		} else {
			delete(pending, r.addr)
		}
		if i < from {
			continue
		}
		site := string(rune('a' + r.site))
		switch {
		case r.free:
			facts = append(facts, free(r.t, r.addr, r.size, site))
		case r.freeRequest:
			facts = append(facts, freeRequested(r.t, r.addr, r.size, site))
		default:
			facts = append(facts, alloc(r.t, r.addr, r.size, site))
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(h.live)) {
		r := h.live[addr]
		size := sized(addr, r.size, 0).Occupied
		if pending[addr] {
			facts = append(facts, livePending(addr, r.size, size))
		} else {
			facts = append(facts, live(addr, r.size, size, string(rune('a'+r.site))))
		}
	}
	return facts
}

// oracle finds the peak of a history with a map of live records and counters by site. It
// shares no code with the package, except the types of sizes, and must not.
type oracle struct {
	m     lifetime.Measure
	last  int64
	level int64
	live  map[uint64]record
	sites map[int]*lifetime.Amount

	peak   lifetime.Level
	atPeak map[int]lifetime.Amount
	levels map[int64]int64 // by time
}

func newOracle(m lifetime.Measure, first int64) *oracle {
	return &oracle{m: m, last: first - 1, live: map[uint64]record{}, sites: map[int]*lifetime.Amount{}, peak: lifetime.Level{At: first - 1}, levels: map[int64]int64{}}
}

func (o *oracle) event(r record) {
	o.last = max(o.last+1, r.t) // as the Builder makes times strictly increasing
	if r.freeRequest {
		return
	}
	requested, occupied := r.size, max(512, (r.size+511)/512*512)
	at := o.sites[r.site]
	if at == nil {
		at = &lifetime.Amount{}
		o.sites[r.site] = at
	}
	sign := int64(1)
	if r.free {
		sign = -1
	}
	at.Count, at.Bytes, at.Requested = at.Count+sign, at.Bytes+sign*occupied, at.Requested+sign*requested
	if o.m == lifetime.Requested {
		o.level += sign * requested
	} else {
		o.level += sign * occupied
	}
	if o.level > o.peak.Bytes {
		o.peak, o.atPeak = lifetime.Level{At: o.last, Bytes: o.level}, o.rows()
	}
	o.levels[o.last] = o.level
}

// rows returns the sites with live records.
func (o *oracle) rows() map[int]lifetime.Amount {
	rows := map[int]lifetime.Amount{}
	for site, at := range o.sites {
		if at.Count > 0 {
			rows[site] = *at
		}
	}
	return rows
}

// breakdown returns Space.Breakdown by the oracle's sites.
func breakdown(c *lifetime.Capture, s *lifetime.Space, t int64) map[int]lifetime.Amount {
	rows := map[int]lifetime.Amount{}
	for _, r := range s.Breakdown(t) {
		rows[int(c.Sites[r.Site].Op[0]-'a')] = r.Amount
	}
	return rows
}

// TestPeakAgainstOracle: peak and end equal those of the oracle in both measures: bytes,
// time and sites.
func TestPeakAgainstOracle(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		h := randomHistory(rng, 1+rng.IntN(400))
		c, s := made(t, h.facts(0)...)
		for _, m := range []lifetime.Measure{lifetime.Requested, lifetime.Occupied} {
			o := newOracle(m, h.records[0].t)
			for _, r := range h.records {
				o.event(r)
			}
			if got := s.Peak(m); got != o.peak {
				t.Fatalf("seed %d, %v: peak %v, the oracle has %v", seed, m, got, o.peak)
			}
			if got := breakdown(c, s, o.peak.At); !maps.Equal(got, o.atPeak) {
				t.Fatalf("seed %d, %v: at the peak %v, the oracle has %v", seed, m, got, o.atPeak)
			}
			if got, want := breakdown(c, s, s.AtEnd()), o.rows(); !maps.Equal(got, want) {
				t.Fatalf("seed %d, %v: at the end %v, the oracle has %v", seed, m, got, want)
			}
		}
		if o := outline.OfSpace(s, nil); o.PeakRequested != s.Peak(lifetime.Requested) || o.Peak != s.Peak(lifetime.Occupied) {
			t.Fatalf("seed %d: peaks %v and %v, in the outline %v and %v", seed, s.Peak(lifetime.Requested), s.Peak(lifetime.Occupied), o.PeakRequested, o.Peak)
		}
		if len(c.Losses) > 0 {
			t.Fatalf("seed %d: a complete history has losses: %v", seed, c.Losses)
		}
	}
}

// TestRingOverflow: a history without its oldest events has the same levels, peak and
// buffers after them. Its first level is the last one less the net change.
func TestRingOverflow(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 11))
		h := randomHistory(rng, 2+rng.IntN(400))
		from := rng.IntN(len(h.records))
		full, kept := newOracle(lifetime.Occupied, h.records[0].t), newOracle(lifetime.Occupied, h.records[0].t)
		for i, r := range h.records {
			if full.event(r); i == from-1 {
				kept.last, kept.level, kept.sites = full.last, full.level, full.sites
			}
		}
		if from > 0 && h.records[from].t <= kept.last {
			continue // equal times at the cut: the Builder moves them differently
		}
		_, s := made(t, h.facts(from)...)
		begin := h.records[from].t - 1
		kept.peak = lifetime.Level{At: begin, Bytes: kept.level}
		kept.last = begin
		for _, r := range h.records[from:] {
			kept.event(r)
		}
		if got := s.Peak(lifetime.Occupied); got != kept.peak {
			t.Fatalf("seed %d from %d: peak %v, the full history has %v there", seed, from, got, kept.peak)
		}
		level, levels := int64(0), map[int64]int64{}
		for c := range s.Changes() {
			if n := s.Buffers[c.Buffer].Size; c.Begin {
				level += n
			} else {
				level -= n
			}
			levels[c.T] = level
		}
		delete(levels, s.Begin)
		if !maps.Equal(levels, kept.levels) {
			t.Fatalf("seed %d from %d: the levels differ from those of the full history", seed, from)
		}
		sum := s.Summary()
		net := int64(0)
		for _, site := range sum.Sites {
			net += site.Allocated.Bytes - site.Freed.Bytes
		}
		start := int64(0)
		for _, r := range s.Breakdown(s.Begin) {
			start += r.Bytes
		}
		if start != sum.Live.Bytes-net {
			t.Fatalf("seed %d from %d: %d at the start, want %d at the end less %d", seed, from, start, sum.Live.Bytes, net)
		}
	}
}

// naiveSummary is Summary in its simplest form.
func naiveSummary(s *lifetime.Space) lifetime.Summary {
	sum := lifetime.Summary{Peak: lifetime.Level{At: s.Begin, Bytes: s.Base}, PeakRequested: lifetime.Level{At: s.Begin, Bytes: s.Base}}
	at := func(b *lifetime.Buffer, t int64) bool {
		return b.Begin <= t && (t < b.End || b.Edge&lifetime.EndOpen != 0)
	}
	for i := range s.Buffers {
		t, occupied, requested := s.Buffers[i].Begin, s.Base, s.Base
		for k := range s.Buffers {
			if at(&s.Buffers[k], t) {
				occupied += s.Buffers[k].Size
				requested += s.Buffers[k].Requested
			}
		}
		if occupied > sum.Peak.Bytes {
			sum.Peak = lifetime.Level{At: t, Bytes: occupied}
		}
		if requested > sum.PeakRequested.Bytes {
			sum.PeakRequested = lifetime.Level{At: t, Bytes: requested}
		}
	}
	rows := map[lifetime.SiteID]*lifetime.SiteSummary{}
	add := func(a *lifetime.Amount, b *lifetime.Buffer, when bool) {
		if when {
			a.Count, a.Bytes, a.Requested = a.Count+1, a.Bytes+b.Size, a.Requested+b.Requested
		}
	}
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if rows[b.Site] == nil {
			rows[b.Site] = &lifetime.SiteSummary{Site: b.Site}
		}
		row, open := rows[b.Site], b.Edge&lifetime.EndOpen != 0
		add(&row.Allocated, b, b.Edge&lifetime.BeginUnseen == 0)
		add(&row.Freed, b, !open)
		add(&row.AtEnd, b, open)
		add(&sum.Live, b, open)
		add(&sum.Pending, b, open && b.Edge&lifetime.Pending != 0)
		add(&row.AtPeak, b, at(b, sum.Peak.At))
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		sum.Sites = append(sum.Sites, *rows[id])
	}
	return sum
}

// TestQueries compares queries with their definitions. The histories have gaps: the oldest
// events are dropped, the end state is partly wrong.
func TestQueries(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 13))
		h := randomHistory(rng, 1+rng.IntN(250))
		facts := h.facts(rng.IntN(len(h.records)))
		for range rng.IntN(4) { // lose facts, the end state's among them
			if i := rng.IntN(len(facts)); len(facts) > 1 {
				facts = slices.Delete(facts, i, i+1)
			}
		}
		_, s := made(t, facts...)
		s.Base = rng.Int64N(1000)
		got, want := s.Summary(), naiveSummary(s)
		if !slices.Equal(got.Sites, want.Sites) || got.Peak != want.Peak || got.PeakRequested != want.PeakRequested || got.Live != want.Live || got.Pending != want.Pending {
			t.Fatalf("seed %d: summary\n%+v, want\n%+v", seed, got, want)
		}
		checkChanges(t, s)
		for range 5 {
			at := s.Begin + rng.Int64N(s.End-s.Begin)
			var live []int
			sum := s.Base
			for i := range s.Buffers {
				if b := &s.Buffers[i]; b.Begin <= at && at < b.End {
					live = append(live, i)
					sum += b.Size
				}
			}
			if got := s.LiveAt(at); !slices.Equal(got, live) {
				t.Fatalf("seed %d: alive at %d %v, want %v", seed, at, got, live)
			}
			rows := s.Breakdown(at)
			for _, r := range rows {
				sum -= r.Bytes
			}
			if sum != 0 {
				t.Fatalf("seed %d: the rows at %d miss %d bytes", seed, at, sum)
			}
			if !slices.IsSortedFunc(rows, func(a, b lifetime.Row) int { return cmp.Compare(b.Bytes, a.Bytes) }) {
				t.Fatalf("seed %d: rows are not sorted by size", seed)
			}
		}
	}
}

// checkChanges verifies that every buffer begins once and, unless it is open, ends once.
// Changes are in order of time; at the same instant, ends come first.
func checkChanges(t *testing.T, s *lifetime.Space) {
	t.Helper()
	var last lifetime.Change
	begins, ends := map[int]bool{}, map[int]bool{}
	first := true
	for c := range s.Changes() {
		b := &s.Buffers[c.Buffer]
		switch {
		case !first && (c.T < last.T || c.T == last.T && last.Begin && !c.Begin):
			t.Fatalf("change %v after %v", c, last)
		case c.Begin && (c.T != b.Begin || begins[c.Buffer]):
			t.Fatalf("buffer %d begins at %d, or twice", c.Buffer, c.T)
		case !c.Begin && (c.T != b.End || ends[c.Buffer] || !begins[c.Buffer] || b.Edge&lifetime.EndOpen != 0):
			t.Fatalf("buffer %d ends at %d, or twice, or before it begins, or is open", c.Buffer, c.T)
		}
		if c.Begin {
			begins[c.Buffer] = true
		} else {
			ends[c.Buffer] = true
		}
		last, first = c, false
	}
	for i := range s.Buffers {
		if open := s.Buffers[i].Edge&lifetime.EndOpen != 0; !begins[i] || ends[i] == open {
			t.Fatalf("buffer %d: begins %v, ends %v, open %v", i, begins[i], ends[i], open)
		}
	}
	for range s.Changes() {
		break // an early stop is allowed, also among the last ends
	}
	n := len(begins) + len(ends)
	for range s.Changes() {
		if n--; n == 0 {
			break
		}
	}
}

// TestAnyHistory: the model of any facts in any order passes Check, and equal facts have
// equal models.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(600) {
		var texts [2]string
		for k := range texts {
			rng := rand.New(rand.NewPCG(seed, 17))
			var facts []fact
			for _, f := range []fact{endState, cut, ringFull, noHistory, func(b *Builder, s SpaceRef) { b.InOrder(s) }} {
				if rng.IntN(3) == 0 {
					facts = append(facts, f)
				}
			}
			for range rng.IntN(60) {
				facts = append(facts, randomFact(rng))
			}
			c, s := made(t, facts...) // checks
			checkChanges(t, s)
			texts[k] = text(c, s) + regionText(s)
			for _, l := range c.Losses {
				texts[k] += l.String() + "\n"
			}
			s.Summary()
			region.Reserved(s)
			_, _ = region.FreeAt(s, s.AtEnd()).Fragmentation()
		}
		if texts[0] != texts[1] {
			t.Fatalf("seed %d: two runs differ\n%s\n%s", seed, texts[0], texts[1])
		}
	}
}

// randomFact returns any fact, with few addresses and times.
func randomFact(rng *rand.Rand) fact {
	t := rng.Int64N(40)
	addr := 0x1000 + 0x100*rng.Uint64N(12)
	size := []int64{0, 1, 100, 300, 700, 5000, -1, 1 << 62}[rng.IntN(8)]
	if rng.IntN(50) == 0 {
		t = []int64{-1 << 63, 1<<63 - 1}[rng.IntN(2)]
	}
	if rng.IntN(50) == 0 {
		addr = ^uint64(0) - rng.Uint64N(3)
	}
	site := []string{"", "a", "b"}[rng.IntN(3)]
	switch rng.IntN(12) {
	case 0, 1, 2:
		return alloc(t, addr, size, site)
	case 3:
		return allocOccupied(t, addr, size, 2*size&(1<<62))
	case 4, 5:
		return free(t, addr, size, site)
	case 6:
		return freeRequested(t, addr, size, site)
	case 7:
		return live(addr, size, rng.Int64N(2000), site)
	case 8:
		return reserve(t, addr, size)
	case 9:
		return release(t, addr, size)
	case 10:
		return liveRegion(addr, size, "small")
	}
	return []fact{note(t, addr, "n"), mark(t, t, "point"), mark(t, t+3, "range"), total(t, size, lifetime.Measure(rng.IntN(3))), livePending(addr, size, 512)}[rng.IntN(5)]
}
