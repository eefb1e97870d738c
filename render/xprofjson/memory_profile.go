package xprofjson

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// maxSamples bounds the snapshots in the timeline of a space.
const maxSamples = 1000

// WriteMemoryProfile writes the JSON that XProf 2.24.2 serves as memory_profile: for each allocator of a host,
// its reports by time (sampled to 1000), the peak, and the buffers alive at the peak. Sizes are bytes, times
// are the picoseconds of Report.RawTime.
//
// It needs the reports themselves (build.Reports) and fails if the capture has none. Like XProf, it covers one
// host: the first one with reports. Equal allocations share one row. XProf illustrates such a row with any of
// them, this package with the first.
func WriteMemoryProfile(w io.Writer, c *lifetime.Capture) error {
	spaces := reporting(c)
	if len(spaces) == 0 {
		return errors.New("this capture has no allocator reports: xprof.memory_profile needs an XProf capture (*.xplane.pb) of a program that " +
			"allocates while it is profiled; TensorFlow on CPU reports with TF_CPU_ALLOCATOR_USE_BFC=1, JAX on CPU never reports")
	}
	s := &stream{w: bufio.NewWriter(w), html: true}
	ids := slices.Sorted(maps.Keys(spaces))
	s.text(`{"memoryProfilePerAllocator":{`)
	for i, id := range ids {
		if i > 0 {
			s.text(",")
		}
		s.value(id)
		s.text(":")
		s.profile(newProfile(c.Sites, spaces[id]))
	}
	s.text(`},"numHosts":1,"memoryIds":`)
	s.value(ids)
	s.text(`,"version":1,`)
	streamList(s, "hloModules", c.Runs, func(r lifetime.Run) any {
		return moduleJSON{r.Name, r.Begin, r.End, r.ID, r.Plane}
	})
	s.text("}\n")
	return cmp.Or(s.err, s.w.Flush())
}

// reporting returns the spaces of the first host with reports, by XProf's memory ID.
func reporting(c *lifetime.Capture) map[string]*lifetime.Space {
	var first *lifetime.Space
	spaces := map[string]*lifetime.Space{}
	for _, s := range c.Spaces {
		if s.Reports.N == 0 {
			continue
		}
		first = cmp.Or(first, s)
		if id := memoryID(s); spaces[id] == nil && s.Source == first.Source && s.Host == first.Host {
			spaces[id] = s
		}
	}
	return spaces
}

// memoryID returns XProf's name of a space: the name of the allocator, otherwise the number of the device.
func memoryID(s *lifetime.Space) string {
	if s.Allocator != "" {
		return s.Allocator
	}
	return s.Device[strings.LastIndexByte(s.Device, ':')+1:]
}

// profile is the replay of the reports on one space by XProf's rules.
type profile struct {
	sites []lifetime.Site
	space *lifetime.Space
	order []uint32 // numbers of the reports, by time

	lifetimePeak int64 // of the last report of the file
	peak         *lifetime.AllocatorEvent
	peakStep     int64
}

// newProfile sorts the reports and finds the peak and its step. The peak is the report with the highest usage,
// the last one in file order if several are equal. Its step is that of the last such report in order of time.
func newProfile(sites []lifetime.Site, space *lifetime.Space) *profile {
	p := &profile{sites: sites, space: space, order: timeOrder(space), peak: &lifetime.AllocatorEvent{}}
	for r := range space.Reports.All() {
		p.lifetimePeak = known(r.Peak)
		if usage(r) >= usage(p.peak) {
			p.peak = r
		}
	}
	for _, s := range p.snapshots() {
		if usage(s.report) == usage(p.peak) {
			p.peakStep = s.step
		}
	}
	return p
}

// known returns a number of a report as XProf prints it: 0 if it is not known.
func known(n int64) int64 {
	if n == -1 {
		return 0
	}
	return n
}

// usage is the number of bytes that XProf plots and takes the peak of.
func usage(r *lifetime.AllocatorEvent) int64 { return known(r.Allocated) + known(r.Stack) }

// at returns the report at a place in order of time.
func (p *profile) at(place int) *lifetime.AllocatorEvent {
	return p.space.Reports.At(int(p.order[place]))
}

// snapshot is a replayed report.
type snapshot struct {
	report *lifetime.AllocatorEvent
	step   int64
	site   *lifetime.Site
}

// snapshots yields the reports by time, with their places in that order. A report outside any step belongs to
// the step after the last one seen. The site is that of the event itself.
func (p *profile) snapshots() iter.Seq2[int, snapshot] {
	return func(yield func(int, snapshot) bool) {
		last := int64(-1)
		for place := range p.order {
			r := p.at(place)
			step := last + 1
			if r.Step != -1 {
				last = int64(r.Step)
				step = last
			}
			if !yield(place, snapshot{r, step, &p.sites[r.Site]}) {
				return
			}
		}
	}
}

// samples returns the snapshots of the timeline. A free gets the site of its allocation: the first at its
// address since the last free there.
func (p *profile) samples() []snapshot {
	places := p.pick()
	open := map[uint64]*lifetime.Site{} // site of the live buffer at each address of a picked free
	for _, place := range places {
		if r := p.at(place); r.Free {
			open[r.Addr] = nil
		}
	}
	samples := make([]snapshot, 0, len(places))
	for place, s := range p.snapshots() {
		switch site, watched := open[s.report.Addr]; {
		case !watched:
		case !s.report.Free && site == nil:
			open[s.report.Addr] = s.site
		case s.report.Free && site != nil:
			open[s.report.Addr] = nil
			s.site = site
		}
		if len(samples) < len(places) && places[len(samples)] == place {
			samples = append(samples, s)
		}
	}
	return samples
}

// pick returns the places of the samples: the first report with the highest usage in each of 1000 boxes of
// nearly equal width, the narrow boxes first.
func (p *profile) pick() []int {
	n := len(p.order)
	boxes := min(n, maxSamples)
	width := n / boxes
	narrow := boxes*(width+1) - n
	var picked []int
	for place := 0; place < n; {
		end := place + width
		if len(picked) >= narrow {
			end++
		}
		best := place
		for ; place < end; place++ {
			if usage(p.at(place)) > usage(p.at(best)) {
				best = place
			}
		}
		picked = append(picked, best)
	}
	return picked
}

// profileRow is a row of the table of buffers alive at the peak: a set of equal allocations.
type profileRow struct {
	allocation
	snapshot       // the first of them
	place    int   // of the snapshot in order of time
	special  int64 // 0, or from 1 on for bytes without a report
	count    int64
}

// allocation is the key of a row.
type allocation struct {
	occupied, requested      int64
	op, region, dtype, shape string
}

func allocationOf(s snapshot) allocation {
	return allocation{known(s.report.Occupied), known(s.report.Requested), s.site.Op, s.site.Region, cmp.Or(s.site.DType, "INVALID"), s.site.Shape}
}

// rows returns the table of the peak, largest first, and its special rows. The table covers only reports of the
// peak's step; one special row covers everything older.
func (p *profile) rows() (rows, special []*profileRow) {
	live := map[uint64]int{} // place by address
	older := known(p.peak.Allocated)
	for place, s := range p.snapshots() {
		r := s.report
		if r.RawTime > p.peak.RawTime {
			break
		}
		if s.step != p.peakStep {
			continue
		}
		if !r.Free {
			live[r.Addr] = place
			older -= known(r.Occupied)
		} else if _, ok := live[r.Addr]; ok {
			delete(live, r.Addr)
			older += known(r.Occupied)
		}
	}
	special = p.special(older, known(p.peak.Stack))
	rows = append(p.merge(live), special...)
	slices.SortFunc(rows, func(a, b *profileRow) int {
		return cmp.Or(
			cmp.Compare(b.occupied, a.occupied), cmp.Compare(b.requested, a.requested), cmp.Compare(a.op, b.op), cmp.Compare(a.region, b.region),
			cmp.Compare(a.dtype, b.dtype), cmp.Compare(a.shape, b.shape), cmp.Compare(a.special, b.special))
	})
	return rows, special
}

// merge returns one row per set of equal allocations.
func (p *profile) merge(live map[uint64]int) []*profileRow {
	merged := map[allocation]*profileRow{}
	for _, place := range live {
		r := p.at(place)
		s := snapshot{r, p.peakStep, &p.sites[r.Site]}
		key := allocationOf(s)
		row := merged[key]
		if row == nil {
			row = &profileRow{allocation: key, snapshot: s, place: place}
			merged[key] = row
		} else if place < row.place {
			row.snapshot, row.place = s, place
		}
		row.count++
	}
	return slices.Collect(maps.Values(merged))
}

// special returns the rows of the bytes without a report in the step.
func (p *profile) special(older, stack int64) []*profileRow {
	var rows []*profileRow
	add := func(bytes int64, op, region string) {
		if bytes <= 0 {
			return
		}
		site := &lifetime.Site{Op: op, Region: region, Shape: "unknown"}
		s := snapshot{&lifetime.AllocatorEvent{Requested: bytes, Occupied: bytes}, p.peakStep, site}
		rows = append(rows, &profileRow{allocation: allocationOf(s), snapshot: s, special: int64(len(rows) + 1), count: 1})
	}
	add(older, "unused preallocated device memory", "persist/dynamic")
	add(stack, "stack", "stack")
	return rows
}
