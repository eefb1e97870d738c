package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/region"
)

// State is whether a capture was read.
type State uint8

const (
	Read    State = iota // perhaps incompletely: see Losses
	Refused              // it exists, but cannot be read
	Missing              // it does not exist
)

// String returns the name used in results.
func (s State) String() string { return [...]string{"read", "refused", "missing"}[s] }

// Record is the summary of one capture.
type Record struct {
	Name    string // path or address, as given
	Content string // SHA-256 of its bytes in hexadecimal; "" if it is missing
	State   State
	Reason  string // why it was not read

	Format, Producer string
	Losses           []Loss
	Memories         []Memory
	Findings         []Finding
}

// Loss is a loss.Loss with the name of its reason.
type Loss struct {
	Reason       string
	Count, Bytes int64
}

// Memory is one memory ID of a capture: a row of the table of ranks, and an element of
// the JSON. Bytes are occupied bytes, except PeakRequested.
type Memory struct {
	Rank          string `json:"-" parquet:"rank,dict"` // "rank 3"; "" if unknown
	Host          string `json:"-" parquet:"host,dict"`
	Process       string `json:"-" parquet:"process,dict"`
	Device        string `json:"device" parquet:"device,dict"`
	Memory        string `json:"-" parquet:"memory,dict"`
	Allocator     string `json:"-" parquet:"allocator,dict"`
	Begin         int64  `json:"begin" parquet:"begin_at"` // of the recording, in units of the axis
	End           int64  `json:"end" parquet:"end_at"`
	Allocations   int64  `json:"allocations" parquet:"allocations"`
	Frees         int64  `json:"frees" parquet:"frees"`
	Base          int64  `json:"base_bytes" parquet:"base_bytes"` // alive through the recording, without a buffer
	Stack         int64  `json:"-" parquet:"-"`                   // bytes on the stack at the peak
	Peak          int64  `json:"peak_bytes" parquet:"peak_bytes"`
	PeakRequested int64  `json:"peak_requested_bytes" parquet:"peak_requested"`
	AtEnd         int64  `json:"end_bytes" parquet:"live_bytes"`
	Growth        int64  `json:"growth_bytes" parquet:"growth_bytes"`
	Leaked        int64  `json:"leaked_bytes" parquet:"leaked_bytes"`
	Reserved      int64  `json:"reserved_bytes" parquet:"reserved_bytes"`
	ReservedPeak  int64  `json:"reserved_peak_bytes" parquet:"reserved_peak"`
	Free          int64  `json:"free_bytes" parquet:"free_bytes"` // of the reserved bytes at the end
	LargestFree   int64  `json:"largest_free_bytes" parquet:"largest_free"`

	// Fragmentation at the end: region.Holes.Fragmentation if regions are known, otherwise
	// the last value recorded by the allocator; -1 if unknown.
	Fragmentation float64 `json:"-" parquet:"-"`

	// Usage is the peak in each of equal parts of the window.
	Usage []int64 `json:"usage_bytes" parquet:"-"`

	// Categories are those at the peak, by name; empty if none is known. Parts divide them by layer.
	Categories []finding.CategoryBytes `json:"-" parquet:"-"`
	Parts      []Part                  `json:"-" parquet:"-"`

	// Failed is why the last allocation failed that the program did not survive: the reason and its words; "" if none
	// did. Requester is the place that asked.
	Failed    string `json:"failed" parquet:"failed,dict"`
	Requester string `json:"-" parquet:"requester,dict"`

	// Roles are what the rank does, from the names of its process groups, by axis; empty if nothing says so.
	Roles []Role `json:"-" parquet:"-"`

	// Change would have lowered the peak most.
	Change Change `json:"-" parquet:"-"`

	Sites []SiteTotals `json:"-" parquet:"-"`
}

// Role is what a rank does on an axis of a parallel program: pipeline stage 3.
type Role struct {
	Axis   string
	Number int64
}

// Change is what the peak of a memory would have been with a change of the program. The zero value means that no
// change is known that lowers it.
type Change struct {
	Edits  string // as memlane whatif takes them; "" = without what leaks keep
	Advice string // what to do, in a sentence
	Peak   int64  // as recorded, in bytes; with the request that failed, if one did
	Low    int64  // least peak with the change
	High   int64  // greatest peak with the change
	Saved  int64  // by how much the predicted peak is lower
}

// Part is the memory of a category and a layer at the peak.
type Part struct {
	Category, Layer string // Layer is "" if it is unknown
	Bytes           int64
}

// Space returns the description of the memory ID, without its buffers.
func (m *Memory) Space() *lifetime.Space {
	return &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{
		Host: m.Host, Process: m.Process, Device: m.Device, Memory: m.Memory, Allocator: m.Allocator,
	}}
}

// Damaged reports whether the capture is damaged and was read in part.
func (r *Record) Damaged() bool {
	return slices.ContainsFunc(r.Losses, func(l Loss) bool {
		reason, ok := loss.Parse(l.Reason)
		return ok && reason.Class() == loss.Damage
	})
}

// Site is a call site, reduced to the fields that are equal on all ranks.
type Site struct {
	Frames                   []frame.Frame // innermost first
	Op, Shape, DType, Region string
	Unseen                   bool // as in lifetime.Site
}

// Tables returns tables that contain the site as site 1.
func (s *Site) Tables() *lifetime.Tables {
	t := &lifetime.Tables{Stacks: make([]lifetime.Stack, 1), Frames: make([]frame.Frame, 1)}
	for i, f := range slices.Backward(s.Frames) {
		n := len(s.Frames) - i
		t.Frames = append(t.Frames, f)
		t.Stacks = append(t.Stacks, lifetime.Stack{Frame: lifetime.FrameID(n), Caller: lifetime.StackID(n - 1)})
	}
	stack := lifetime.StackID(len(s.Frames))
	t.Sites = []lifetime.Site{{}, {Stack: stack, Op: s.Op, Shape: s.Shape, DType: s.DType, Region: s.Region, Unseen: s.Unseen}}
	return t
}

// Place returns the place of the site, as lifetime.Tables.PlaceOf does.
func (s *Site) Place() lifetime.Place { return s.Tables().PlaceOf(1) }

// SiteTotals contains the totals of one site in one memory.
type SiteTotals struct {
	Site                             Site
	Allocated, AtPeak, AtEnd, Leaked lifetime.Amount
}

func (t *SiteTotals) add(o *SiteTotals) {
	t.Allocated.Add(o.Allocated)
	t.AtPeak.Add(o.AtPeak)
	t.AtEnd.Add(o.AtEnd)
	t.Leaked.Add(o.Leaked)
}

// Finding is a finding.Finding with the name of its place, which is equal on all ranks.
type Finding struct {
	Rule, Severity, Place string
	Memory                int // index into Memories
	Amount                lifetime.Amount
	BytesPerStep          float64
	Description           string
	HeldBy                string // the reference that holds most of its buffers, as recorded; "" = not known
}

// usageParts is the length of Memory.Usage: the columns of a small picture.
const usageParts = 64

// Of returns the record of a capture that was read. It has no name (see Named) and no Content, so that a cache can keep
// it by content. Compiled programs are left out: they are equal on all ranks.
func Of(c *judge.Capture) *Record {
	r, found := &Record{State: Read}, c.Findings()
	if len(c.Sources) > 0 {
		r.Format, r.Producer = c.Sources[0].Format, c.Sources[0].Producer
	}
	for _, l := range c.Losses {
		r.Losses = append(r.Losses, Loss{l.Reason.String(), l.Count, l.Bytes})
	}
	number := map[*lifetime.Space]int{}
	short := c.Outline().Outline
	figures := finding.FiguresOf(short, found, func(*lifetime.SpaceInfo) string { return "" })
	for _, s := range c.Spaces {
		if s.Axis == lifetime.ProgramOrder {
			continue
		}
		number[s] = len(r.Memories)
		m := memoryOf(c.Capture, s, &figures[len(r.Memories)], found)
		m.Change = changeOf(c, s)
		r.Memories = append(r.Memories, m)
	}
	r.addParts(short)
	for i := range found {
		f := &found[i]
		n, ok := number[f.Space]
		if !ok {
			continue
		}
		for j := range f.Failures {
			if d := &f.Failures[j]; !d.Caught() && !d.Inferred {
				m := &r.Memories[n]
				m.Failed, m.Requester = d.Why(), ""
				if d.Mark.Site != 0 {
					m.Requester = c.PlaceOf(d.Mark.Site).String()
				}
			}
		}
		one := Finding{
			Rule: f.Rule, Severity: f.Severity.String(), Memory: n,
			Amount: f.Amount, BytesPerStep: f.BytesPerStep, Description: f.Description,
		}
		if f.Place() != 0 || len(f.Sites) > 0 { // otherwise it is about the whole memory
			one.Place = c.PlaceOf(f.Place()).String()
		}
		if len(f.Held) > 0 {
			one.HeldBy = f.Held[0].By
		}
		r.Findings = append(r.Findings, one)
	}
	return r
}

// changeOf returns the change that lowers the peak of a space most. Of equal ones it returns the cheapest.
func changeOf(c *judge.Capture, s *lifetime.Space) (most Change) {
	if w := answer.WithoutLeaksOf(c, s); w != nil {
		most = Change{"", "Free what its leaks keep.", w.PeakBytes, w.LowBytes, w.HighBytes, w.PeakBytes - w.HighBytes}
	}
	for _, one := range answer.RemediesOf(c, s) {
		if *one.SavedBytes > most.Saved {
			e, _ := c.WhatIf(s) // one is of it
			peak := e.Peak
			if e.Capacity() > 0 {
				peak = e.Needs.Peak
			}
			most = Change{strings.Join(one.Edits, ","), one.Advice, peak, *one.LowBytes, *one.HighBytes, *one.SavedBytes}
		}
	}
	return most
}

// maxParts bounds the parts of a memory: a hundred layers of eight categories.
const maxParts = 800

// addParts divides the peaks of the memories whose categories are known. Of too many, the smallest are left out.
func (r *Record) addParts(o *outline.Outline) {
	layers := layer.Of(&o.Tables)
	n := 0
	for _, s := range o.Spaces {
		if s.Axis == lifetime.ProgramOrder {
			continue
		}
		m := &r.Memories[n]
		n++
		if len(m.Categories) == 0 {
			continue
		}
		type key struct{ category, layer string }
		sums := map[key]int64{}
		for _, row := range s.PeakRows {
			k := key{category: cmp.Or(o.Category(&s.SpaceInfo, row.Kind, row.Site, row.Purpose), purpose.UnknownCategory.String())}
			if row.Kind.OfBuffers() {
				k.layer = layers.OfBuffer(row.Site, row.Purpose)
			}
			sums[k] = units.AddSat(sums[k], row.Bytes)
		}
		for k, bytes := range sums {
			m.Parts = append(m.Parts, Part{k.category, k.layer, bytes})
		}
		slices.SortFunc(m.Parts, func(a, b Part) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Category, b.Category), cmp.Compare(a.Layer, b.Layer))
		})
		m.Parts = m.Parts[:min(maxParts, len(m.Parts))]
	}
}

// Named returns the record with the name of its capture, and with the ranks that by finds.
func (r *Record) Named(name string, by finding.RankNames) *Record {
	named := *r
	named.Name = name
	named.Memories = slices.Clone(r.Memories)
	for i := range named.Memories {
		m := &named.Memories[i]
		m.Rank = by.Of(m.Process, name)
	}
	return &named
}

func memoryOf(c *lifetime.Capture, s *lifetime.Space, figures *finding.RankFigures, found []finding.Finding) Memory {
	sum := s.Summary()
	m := Memory{
		Host: s.Host, Process: s.Process, Device: s.Device, Memory: s.Memory, Allocator: s.Allocator,
		Begin: s.Begin, End: s.End, Allocations: int64(s.Allocations), Frees: int64(s.Frees), Base: s.Base,
		Peak: sum.Peak.Bytes, PeakRequested: sum.PeakRequested.Bytes, AtEnd: figures.End, Growth: figures.Growth,
		Leaked: figures.Leaked, Usage: usageOf(s), Categories: figures.Categories,
	}
	m.Roles = recordedRoles(c.Sources[s.Source].Groups)
	m.Stack = s.StackAt(sum.Peak.At)
	m.Reserved, m.ReservedPeak = region.Reserved(s)
	m.Fragmentation = -1
	for _, t := range s.Totals {
		if share := float64(t.Fragmentation); t.HasFragmentation && !math.IsNaN(share) && !math.IsInf(share, 0) {
			m.Fragmentation = share
		}
	}
	if s.Facts&lifetime.Regions != 0 {
		holes := region.FreeAt(s, s.AtEnd())
		m.Free, m.LargestFree = holes.Total, holes.Largest
		if share, ok := holes.Fragmentation(); ok {
			m.Fragmentation = share
		}
	}
	leaked := leakedBySite(s, found)
	all := make([]SiteTotals, len(sum.Sites))
	order := make([]int, len(all))
	for i, t := range sum.Sites {
		all[i] = SiteTotals{Allocated: t.Allocated, AtPeak: t.AtPeak, AtEnd: t.AtEnd, Leaked: leaked[t.Site]}
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

// leakedBySite returns the amounts that leaked in a space. A buffer of several findings counts once.
func leakedBySite(s *lifetime.Space, found []finding.Finding) map[lifetime.SiteID]lifetime.Amount {
	leaked, counted := map[lifetime.SiteID]lifetime.Amount{}, map[int]bool{}
	for i := range found {
		if f := &found[i]; f.Space != s || !f.IsLeak() {
			continue
		}
		for _, i := range found[i].Kept {
			if b := &s.Buffers[i]; !counted[i] {
				counted[i] = true
				a := leaked[b.Site]
				a.Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
				leaked[b.Site] = a
			}
		}
	}
	return leaked
}

// maxSites bounds the sites of a memory in a record. Only programs with numbers in the
// names of their operations have more; their records would be a hundred times as large.
const maxSites = 1000

// otherSites is the name for the sum of all sites beyond maxSites.
const otherSites = "[other sites]"

// compareTotals orders sites by leaked bytes, then by bytes at the peak, most first.
func compareTotals(a, b *SiteTotals) int {
	return cmp.Or(cmp.Compare(b.Leaked.Bytes, a.Leaked.Bytes), cmp.Compare(b.AtPeak.Bytes, a.AtPeak.Bytes),
		cmp.Compare(b.AtEnd.Bytes, a.AtEnd.Bytes), cmp.Compare(b.Allocated.Bytes, a.Allocated.Bytes))
}

func siteOf(c *lifetime.Capture, id lifetime.SiteID) Site {
	s := &c.Sites[id]
	site := Site{Op: s.Op, Shape: s.Shape, DType: s.DType, Region: s.Region, Unseen: s.Unseen}
	for f := range c.FramesOf(s.Stack) {
		site.Frames = append(site.Frames, *f)
	}
	return site
}

// usageOf returns the occupied bytes at the peak of each part of the window.
func usageOf(s *lifetime.Space) []int64 {
	usage := make([]int64, usageParts)
	span := float64(s.End) - float64(s.Begin)
	if span <= 0 {
		return nil
	}
	part := func(at int64) int {
		return min(usageParts-1, max(0, int((float64(at)-float64(s.Begin))/span*usageParts)))
	}
	filled, level := 0, int64(0)
	for l := range s.Levels(lifetime.Occupied) {
		for next := part(l.At); filled < next; { // the level is constant until then
			filled++
			usage[filled] = max(usage[filled], level)
		}
		level = l.Bytes
		usage[filled] = max(usage[filled], level)
	}
	for filled++; filled < usageParts; filled++ {
		usage[filled] = level
	}
	return usage
}
