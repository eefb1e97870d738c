package diff

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
)

// Result is the comparison of two captures.
type Result struct {
	Before, After *judge.Capture

	Pairs []Pair // of spaces, in the order of Before, then those that only After has
	Rows  []Row  // places that differ, of all pairs, largest change first

	New, Fixed, Still []Change // findings; a new one may have been smaller before

	NoPlaces bool // places were not compared, because one side has no call sites
	Lines    bool // places were compared with their lines, not only by function

	pairs map[located]int // number of the pair of places, from 1; 0 = one side lacks it
}

type located struct {
	space *lifetime.Space
	place lifetime.Place
}

// Pair is a space on both sides.
type Pair struct {
	Name          string
	Before, After *Side // nil if the side lacks the space
}

// Side has the figures of a space on one side. Bytes are occupied unless noted; times are in units of the axis.
type Side struct {
	Space *lifetime.Space

	Peak, PeakRequested int64
	End, EndRequested   int64
	Reserved            int64        // highest level; 0 = unknown
	Free                region.Holes // reserved at the end, and in no buffer; 0 = none, or unknown
	Allocated           int64        // in the window
	Allocations, Frees  int
	Steps               int
	Window              int64
	Categories          []finding.CategoryBytes // at the peak; empty if none is known
	Phase               purpose.Phase           // that allocated what makes the peak

	sites []lifetime.SiteSummary
}

// Status is the kind of change of a place.
type Status uint8

const (
	New  Status = iota // only after
	Gone               // only before
	Grew
	Shrank
)

// String returns the name used in JSON.
func (s Status) String() string { return [...]string{"new", "gone", "grew", "shrank"}[s] }

// Figures are the buffers of a place.
type Figures struct {
	Peak      lifetime.Amount // at the peak of the space
	End       lifetime.Amount // at the end
	Allocated lifetime.Amount // in the window
}

func (f *Figures) add(o Figures) {
	f.Peak.Add(o.Peak)
	f.End.Add(o.End)
	f.Allocated.Add(o.Allocated)
}

// Row is a place that differs.
type Row struct {
	Pair   int // index into Result.Pairs
	Status Status

	PlaceBefore, PlaceAfter lifetime.Place  // lines may differ
	SiteBefore, SiteAfter   lifetime.SiteID // site with most bytes; 0 if a side has none
	Unseen                  bool            // memory from before the window, without a place

	Before, After Figures
}

// Place returns the place of a row on the side after, or before if it is gone.
func (r *Row) Place() lifetime.Place {
	if r.Status == Gone {
		return r.PlaceBefore
	}
	return r.PlaceAfter
}

// DeltaPeak returns the change at the peak, in occupied bytes.
func (r *Row) DeltaPeak() int64 { return units.AddSat(r.After.Peak.Bytes, -r.Before.Peak.Bytes) }

// DeltaEnd returns the change at the end, in occupied bytes.
func (r *Row) DeltaEnd() int64 { return units.AddSat(r.After.End.Bytes, -r.Before.End.Bytes) }

// weight returns the larger absolute change of a row, at the peak or at the end.
func (r *Row) weight() int64 {
	return max(r.DeltaPeak(), -r.DeltaPeak(), r.DeltaEnd(), -r.DeltaEnd(), 0)
}

// Compare compares two captures.
func Compare(before, after *judge.Capture) *Result {
	r := &Result{Before: before, After: after, Lines: sameLines(before, after), pairs: map[located]int{}}
	for _, p := range pairSpaces(before.Spaces, after.Spaces) {
		pair := Pair{Name: p.name()}
		if p.before != nil {
			pair.Before = sideOf(before, p.before)
		}
		if p.after != nil {
			pair.After = sideOf(after, p.after)
		}
		r.Pairs = append(r.Pairs, pair)
		r.compareSpaces(len(r.Pairs) - 1)
	}
	slices.SortStableFunc(r.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(y.weight(), x.weight()), cmp.Compare(x.Pair, y.Pair))
	})
	r.compareFindings()
	return r
}

func sideOf(c *judge.Capture, s *lifetime.Space) *Side {
	sum := s.Summary()
	side := &Side{Space: s, Peak: sum.Peak.Bytes, PeakRequested: sum.PeakRequested.Bytes, End: units.AddSat(s.Base, sum.Live.Bytes),
		EndRequested: units.AddSat(s.Base, sum.Live.Requested), Allocations: s.Allocations, Frees: s.Frees,
		Steps: len(c.Program().Steps(s).Begins), Window: s.End - s.Begin, sites: sum.Sites}
	_, side.Reserved = region.Reserved(s)
	if len(s.Regions) > 0 && s.Facts&lifetime.Addresses != 0 && !static(s) { // a plan leaves nothing free
		side.Free = region.FreeAt(s, s.AtEnd())
	}
	for _, site := range sum.Sites {
		side.Allocated = units.AddSat(side.Allocated, site.Allocated.Bytes)
	}
	side.Categories = finding.CategoriesOf(&c.Tables, &s.SpaceInfo, s.Breakdown(sum.Peak.At))
	if i := sort.Search(len(s.Buffers), func(i int) bool { return s.Buffers[i].Begin > sum.Peak.At }) - 1; i >= 0 && s.Buffers[i].Begin == sum.Peak.At {
		side.Phase = c.Purpose(s.PurposeOf(i)).Phase
	}
	if s.UsageOnly() {
		side.End = s.LevelAt(s.End, lifetime.Occupied)
		side.EndRequested = side.End
	}
	return side
}

func (r *Result) compareSpaces(pair int) {
	p := &r.Pairs[pair]
	before, after := placesOf(r.Before, p.Before, r.Lines), placesOf(r.After, p.After, r.Lines)
	if p.Before != nil && p.After != nil && (anonymous(p.Before, before) != anonymous(p.After, after)) {
		r.NoPlaces = true
		return
	}
	for _, m := range match(before, after, r.Lines) {
		row := Row{Pair: pair}
		if m.before != nil {
			row.PlaceBefore, row.SiteBefore, row.Before, row.Unseen = m.before.place, m.before.site, m.before.Figures, m.before.unseen
		}
		if m.after != nil {
			row.PlaceAfter, row.SiteAfter, row.After, row.Unseen = m.after.place, m.after.site, m.after.Figures, m.after.unseen
		}
		if m.before != nil && m.after != nil {
			n := len(r.pairs) + 1
			r.pairs[located{p.Before.Space, m.before.place}], r.pairs[located{p.After.Space, m.after.place}] = n, n
		}
		if row.decide(p) {
			r.Rows = append(r.Rows, row)
		}
	}
}

// decide sets the status of a row and reports whether there is a difference. Allocated bytes depend on the length of
// the window, so they count only if both sides have the same number of steps.
func (r *Row) decide(p *Pair) bool {
	none := Figures{}
	peak, end := r.DeltaPeak(), r.DeltaEnd()
	allocated := units.AddSat(r.After.Allocated.Bytes, -r.Before.Allocated.Bytes)
	comparable := p.Before != nil && p.After != nil && p.Before.Steps == p.After.Steps && p.Before.Steps > 0
	switch {
	case r.Before == none:
		r.Status = New
	case r.After == none:
		r.Status = Gone
	case peak == 0 && end == 0 && (allocated == 0 || !comparable):
		return false
	case cmp.Or(larger(peak, end), allocated) > 0:
		r.Status = Grew
	default:
		r.Status = Shrank
	}
	return r.Before != r.After
}

// larger returns the value with the larger absolute value, x on a tie.
func larger(x, y int64) int64 {
	if max(y, -y) > max(x, -x) {
		return y
	}
	return x
}

// spacePair is a space on both sides; nil if a side lacks it.
type spacePair struct{ before, after *lifetime.Space }

func (p spacePair) name() string {
	if p.after != nil {
		return p.after.ID()
	}
	return p.before.ID()
}

type spaceKey struct {
	static                             bool
	device, memory, allocator, program string
}

// pairSpaces pairs the spaces of the same memory: by memory ID; else by device, kind of memory and name of the program;
// else by the number of the device (cuda:0 and hip:0); else the only space left on each side.
func pairSpaces(before, after []*lifetime.Space) (pairs []spacePair) {
	taken := map[*lifetime.Space]*lifetime.Space{} // space after by space before
	used := map[*lifetime.Space]bool{}
	for _, key := range []func(s *lifetime.Space) (key spaceKey, ok bool){
		func(s *lifetime.Space) (spaceKey, bool) { return spaceKey{static: static(s), device: s.ID()}, true },
		func(s *lifetime.Space) (spaceKey, bool) {
			name, _, _ := strings.Cut(s.Module, "(") // without the number of its run
			return spaceKey{static(s), s.Device, s.Memory, s.Allocator, name}, true
		},
		func(s *lifetime.Space) (spaceKey, bool) { // the program moved to another kind of device
			return spaceKey{device: number(s), memory: s.Memory}, !static(s) && number(s) != ""
		},
	} {
		candidates := map[spaceKey][]*lifetime.Space{}
		for _, a := range after {
			if k, ok := key(a); ok && !used[a] {
				candidates[k] = append(candidates[k], a)
			}
		}
		for _, b := range before {
			if taken[b] != nil {
				continue
			}
			if k, ok := key(b); ok && len(candidates[k]) > 0 {
				taken[b] = candidates[k][0]
				used[taken[b]], candidates[k] = true, candidates[k][1:]
			}
		}
	}
	left := func(spaces []*lifetime.Space, isTaken func(*lifetime.Space) bool) (only *lifetime.Space) {
		n := 0
		for _, s := range spaces {
			if !isTaken(s) && !static(s) {
				n++
				only = s
			}
		}
		if n != 1 {
			return nil
		}
		return only
	}
	b, a := left(before, func(s *lifetime.Space) bool { return taken[s] != nil }),
		left(after, func(s *lifetime.Space) bool { return used[s] })
	if b != nil && a != nil {
		taken[b], used[a] = a, true
	}
	for _, b := range before {
		pairs = append(pairs, spacePair{b, taken[b]})
	}
	for _, a := range after {
		if !used[a] {
			pairs = append(pairs, spacePair{nil, a})
		}
	}
	return pairs
}

func number(s *lifetime.Space) string {
	_, n, _ := strings.Cut(s.Device, ":")
	return n
}

func static(s *lifetime.Space) bool { return s.Axis == lifetime.ProgramOrder }
