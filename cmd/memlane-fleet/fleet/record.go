package fleet

import (
	"cmp"
	"math"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/lifetime/loss"
)

// State says what became of a capture.
type State uint8

const (
	Read    State = iota // as far as it goes: see Losses
	Refused              // it is there, and cannot be read
	Missing              // it is not there
)

// String returns the name used in results.
func (s State) String() string { return [...]string{"read", "refused", "missing"}[s] }

// Record is what a fleet keeps of one capture.
type Record struct {
	Name    string // path or address, as it was given
	Content string // SHA-256 of its bytes in hexadecimal; "" where it is missing
	State   State
	Reason  string // why it was not read

	Format, Producer string
	Losses           []Loss
	Memories         []Memory
	Findings         []Finding
}

// Loss is a loss.Loss by the name of its reason.
type Loss struct {
	Reason       string
	Count, Bytes int64
}

// Memory is one memory ID of a capture: a row of the table of ranks.
type Memory struct {
	Rank                                     string // "rank 3"; "" where nothing tells
	Host, Process, Device, Memory, Allocator string

	Begin, End         int64 // the window, in units of the axis
	Allocations, Frees int64
	Base               int64 // bytes alive through the window that no buffer stands for
	Stack              int64 // bytes beside the heap at the peak

	// Occupied bytes, but for PeakRequested.
	Peak, PeakRequested, AtEnd, Growth, Leaked int64
	Reserved, ReservedPeak                     int64
	Free, LargestFree                          int64 // of what is reserved at the end

	// Fragmentation at the end: lifetime.Holes.Fragmentation where regions are known, or
	// else what the allocator told last; -1 where nothing tells.
	Fragmentation float64

	// Usage is the most that was occupied in each of equal parts of the window.
	Usage []int64

	Sites []SiteTotals
}

// Space returns the description of the memory ID, without what it held.
func (m *Memory) Space() *lifetime.Space {
	return &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Host: m.Host, Process: m.Process, Device: m.Device, Memory: m.Memory, Allocator: m.Allocator}}
}

// Damaged reports whether the capture is broken somewhere, and was read as far as it
// goes.
func (r *Record) Damaged() bool {
	return slices.ContainsFunc(r.Losses, func(l Loss) bool {
		reason, ok := loss.Parse(l.Reason)
		return ok && reason.Class() == loss.Damage
	})
}

// Site is who allocated, as far as it is the same on all ranks.
type Site struct {
	Frames                   []lifetime.Frame // innermost first
	Op, Shape, DType, Region string
}

// Tables returns tables in which site 1 is this one.
func (s *Site) Tables() *lifetime.Tables {
	t := &lifetime.Tables{Stacks: make([]lifetime.Stack, 1), Frames: make([]lifetime.Frame, 1)}
	for i, f := range slices.Backward(s.Frames) {
		n := len(s.Frames) - i
		t.Frames = append(t.Frames, f)
		t.Stacks = append(t.Stacks, lifetime.Stack{Frame: lifetime.FrameID(n), Caller: lifetime.StackID(n - 1)})
	}
	t.Sites = []lifetime.Site{{}, {Stack: lifetime.StackID(len(s.Frames)), Op: s.Op, Shape: s.Shape, DType: s.DType, Region: s.Region}}
	return t
}

// Place returns the place of the site, as lifetime.Tables.PlaceOf does.
func (s *Site) Place() lifetime.Place { return s.Tables().PlaceOf(1) }

// SiteTotals is what one site did in one memory.
type SiteTotals struct {
	Site                             Site
	Allocated, AtPeak, AtEnd, Leaked lifetime.Amount
}

// add adds what o did, which is at the same site.
func (t *SiteTotals) add(o *SiteTotals) {
	t.Allocated.Add(o.Allocated)
	t.AtPeak.Add(o.AtPeak)
	t.AtEnd.Add(o.AtEnd)
	t.Leaked.Add(o.Leaked)
}

// Finding is a leak.Finding by the name of its place, which is the same on all
// ranks that have it.
type Finding struct {
	Rule, Severity, Place string
	Memory                int // index into Memories
	Amount                lifetime.Amount
	BytesPerStep          float64
	Description           string
}

// usageParts is how many parts of the window Memory.Usage tells apart: as many
// columns as a small picture has.
const usageParts = 64

// Of sums up a capture that was read. The record has no name yet, see Named, and no
// Content: it says nothing of where the capture lies, so that it can be kept by its
// content. Compiled programs are left out: they are the same on every rank.
func Of(c *lifetime.Capture, found []leak.Finding) *Record {
	r := &Record{State: Read}
	if len(c.Sources) > 0 {
		r.Format, r.Producer = c.Sources[0].Format, c.Sources[0].Producer
	}
	for _, l := range c.Losses {
		r.Losses = append(r.Losses, Loss{l.Reason.String(), l.Count, l.Bytes})
	}
	leaked := map[*lifetime.Space]map[int]bool{}
	for i := range found {
		f := &found[i]
		if !f.IsLeak() {
			continue
		}
		if leaked[f.Space] == nil {
			leaked[f.Space] = map[int]bool{}
		}
		for _, b := range f.Kept {
			leaked[f.Space][b] = true
		}
	}
	number := map[*lifetime.Space]int{}
	figures := leak.FiguresOf(c.Outline(), found, func(*lifetime.SpaceInfo) string { return "" })
	for _, s := range c.Spaces {
		if s.Axis == lifetime.ProgramOrder {
			continue
		}
		number[s] = len(r.Memories)
		r.Memories = append(r.Memories, memoryOf(c, s, &figures[len(r.Memories)], leaked[s]))
	}
	for i := range found {
		f := &found[i]
		n, ok := number[f.Space]
		if !ok {
			continue
		}
		r.Findings = append(r.Findings, Finding{
			Rule: f.Rule, Severity: f.Severity.String(), Place: placeOf(c, f), Memory: n,
			Amount: f.Amount, BytesPerStep: f.BytesPerStep, Description: f.Description,
		})
	}
	return r
}

// Named returns the record with the name of its capture, and with the ranks that by
// finds in it.
func (r *Record) Named(name string, by leak.RankNames) *Record {
	named := *r
	named.Name = name
	named.Memories = slices.Clone(r.Memories)
	for i := range named.Memories {
		m := &named.Memories[i]
		m.Rank = by.Of(m.Process, name)
	}
	return &named
}

// placeOf names the place of a finding, "" where it is about the whole memory.
func placeOf(c *lifetime.Capture, f *leak.Finding) string {
	if f.Place() == 0 && len(f.Sites) == 0 {
		return ""
	}
	return c.PlaceOf(f.Place()).String()
}

func memoryOf(c *lifetime.Capture, s *lifetime.Space, figures *leak.RankFigures, leaked map[int]bool) Memory {
	sum := s.Summary()
	m := Memory{
		Host: s.Host, Process: s.Process, Device: s.Device, Memory: s.Memory, Allocator: s.Allocator,
		Begin: s.Begin, End: s.End, Allocations: int64(s.Allocations), Frees: int64(s.Frees), Base: s.Base,
		Peak: sum.Peak.Bytes, PeakRequested: sum.PeakRequested.Bytes, AtEnd: figures.End, Growth: figures.Growth, Leaked: figures.Leaked,
		Usage: usageOf(s),
	}
	m.Stack = s.StackAt(sum.Peak.At)
	m.Reserved, m.ReservedPeak = s.Reserved()
	m.Fragmentation = -1
	for _, t := range s.Totals {
		if share := float64(t.Fragmentation); t.HasFragmentation && !math.IsNaN(share) && !math.IsInf(share, 0) {
			m.Fragmentation = share
		}
	}
	if s.Facts&lifetime.Regions != 0 {
		holes := s.FreeAt(s.AtEnd())
		m.Free, m.LargestFree = holes.Total, holes.Largest
		if share, ok := holes.Fragmentation(); ok {
			m.Fragmentation = share
		}
	}
	of := map[lifetime.SiteID]lifetime.Amount{}
	for i := range leaked {
		b := &s.Buffers[i]
		a := of[b.Site]
		a.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
		of[b.Site] = a
	}
	all := make([]SiteTotals, len(sum.Sites))
	order := make([]int, len(all))
	for i, t := range sum.Sites {
		all[i] = SiteTotals{Allocated: t.Allocated, AtPeak: t.AtPeak, AtEnd: t.AtEnd, Leaked: of[t.Site]}
		order[i] = i
	}
	if len(all) > maxSites {
		slices.SortStableFunc(order, func(a, b int) int { return compareTotals(&all[a], &all[b]) })
	}
	for n, i := range order {
		if n < maxSites {
			all[i].Site = siteOf(c, sum.Sites[i].Site)
			m.Sites = append(m.Sites, all[i])
			continue
		}
		if n == maxSites {
			m.Sites = append(m.Sites, SiteTotals{Site: Site{Op: otherSites}})
		}
		m.Sites[maxSites].add(&all[i])
	}
	return m
}

// maxSites bounds the sites of a memory in a record: those that matter are among the
// first. Only programs that put numbers into the names of their operations have more, and
// their records would be a hundred times as large as others.
const maxSites = 1000

// otherSites names the sum of all sites beyond maxSites.
const otherSites = "[other sites]"

// compareTotals orders sites: those that leak first, then those that hold most.
func compareTotals(a, b *SiteTotals) int {
	return cmp.Or(cmp.Compare(b.Leaked.Bytes, a.Leaked.Bytes), cmp.Compare(b.AtPeak.Bytes, a.AtPeak.Bytes), cmp.Compare(b.AtEnd.Bytes, a.AtEnd.Bytes),
		cmp.Compare(b.Allocated.Bytes, a.Allocated.Bytes))
}

func siteOf(c *lifetime.Capture, id lifetime.SiteID) Site {
	s := &c.Sites[id]
	site := Site{Op: s.Op, Shape: s.Shape, DType: s.DType, Region: s.Region}
	for f := range c.FramesOf(s.Stack) {
		site.Frames = append(site.Frames, *f)
	}
	return site
}

// usageOf returns the most that was occupied in each part of the window.
func usageOf(s *lifetime.Space) []int64 {
	usage := make([]int64, usageParts)
	span := float64(s.End) - float64(s.Begin)
	if span <= 0 {
		return nil
	}
	part := func(at int64) int {
		return min(usageParts-1, max(0, int((float64(at)-float64(s.Begin))/span*usageParts)))
	}
	at, level := 0, int64(0)
	for l := range s.Levels(lifetime.Occupied) {
		for next := part(l.At); at < next; { // the level so far holds until then
			at++
			usage[at] = max(usage[at], level)
		}
		level = l.Bytes
		usage[at] = max(usage[at], level)
	}
	for at++; at < usageParts; at++ {
		usage[at] = level
	}
	return usage
}
