package lifetime

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/internal/interned"
)

// Amount is a number of buffers and their bytes.
type Amount struct {
	Count     int64
	Bytes     int64 // occupied
	Requested int64
}

// Add adds the buffers of o. Bytes saturate.
func (a *Amount) Add(o Amount) {
	a.Count += o.Count
	a.Bytes = units.AddSat(a.Bytes, o.Bytes)
	a.Requested = units.AddSat(a.Requested, o.Requested)
}

func (a *Amount) add(b *Buffer) { a.Add(Amount{1, b.Size, b.Requested}) }

// SiteSummary sums up the buffers of one site in the window.
type SiteSummary struct {
	Site      SiteID
	Allocated Amount // begun in the window
	Freed     Amount // ended in the window
	AtPeak    Amount // alive at the peak of occupied bytes
	AtEnd     Amount // alive at the end
}

// Summary has the totals of a space. The peaks include Base and Stack, the amounts do not.
type Summary struct {
	Peak          Level         // occupied
	PeakRequested Level         // requested; may be at another instant
	Live          Amount        // alive at the end
	Pending       Amount        // part of Live whose free was requested
	Sites         []SiteSummary // by SiteID; sites without a buffer are left out
}

// Summary computes the totals of s.
func (s *Space) Summary() Summary {
	sum := s.Sums()
	// A slice by ID has few gaps, because sites are numbered in order of appearance.
	most := SiteID(0)
	for i := range s.Buffers {
		most = max(most, s.Buffers[i].Site)
	}
	rows := make([]SiteSummary, most+1)
	for i := range s.Buffers {
		b := &s.Buffers[i]
		row := &rows[b.Site]
		if b.Edge&BeginUnseen == 0 {
			row.Allocated.add(b)
		}
		if b.Edge&EndOpen == 0 {
			row.Freed.add(b)
		} else {
			row.AtEnd.add(b)
		}
		if b.aliveAt(sum.Peak.At) {
			row.AtPeak.add(b)
		}
	}
	with := 0
	for i := range rows {
		if rows[i].any() {
			with++
		}
	}
	sum.Sites = slices.Grow(sum.Sites, with)
	for id, row := range rows {
		row.Site = SiteID(id)
		if row.any() {
			sum.Sites = append(sum.Sites, row)
		}
	}
	return sum
}

// Sums returns the summary without sites.
func (s *Space) Sums() (sum Summary) {
	sum.PeakRequested, sum.Peak = s.peaks()
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if b.Edge&EndOpen == 0 {
			continue
		}
		sum.Live.add(b)
		if b.Edge&Pending != 0 {
			sum.Pending.add(b)
		}
	}
	return sum
}

func (r *SiteSummary) any() bool { return r.Allocated.Count+r.Freed.Count+r.AtEnd.Count > 0 }

// Row is one line of a breakdown: the live buffers of one site, kind and purpose, or bytes that belong to no buffer.
type Row struct {
	Site    SiteID // 0 = not recorded, or not OfBuffers
	Kind    Kind
	Purpose PurposeID // 0 = not judged
	Amount
}

// Breakdown returns the rows of the memory in use at t, largest first. They sum to Base,
// Stack and the live buffers. A space that is UsageOnly has one row.
func (s *Space) Breakdown(t int64) []Row {
	if s.UsageOnly() {
		if n := s.LevelAt(t, Occupied); n != 0 {
			return []Row{{Kind: FromUsage, Amount: Amount{Bytes: n, Requested: n}}}
		}
		return nil
	}
	var keys []rowKey
	ids := interned.New[rowKey, uint32](&keys)
	rows := make([]Row, 1) // that of the zero key first
	var last []uint32      // by SiteID: the row of its last buffer, which that of the next one is, too, nearly always
	for i, b := range s.Live(t) {
		if n := int(b.Site) + 1 - len(last); n > 0 {
			last = append(last, make([]uint32, n)...)
		}
		k := rowKey{b.Site, s.PurposeOf(i), b.Kind}
		n := last[b.Site]
		if row := &rows[n]; row.Site != k.site || row.Purpose != k.purpose || row.Kind != k.kind {
			n = ids.ID(k)
			last[b.Site] = n
		}
		if int(n) == len(rows) {
			rows = append(rows, Row{Site: k.site, Kind: k.kind, Purpose: k.purpose})
		}
		rows[n].add(b)
	}
	if rows[0].Count == 0 {
		rows = rows[1:]
	}
	if s.Base != 0 {
		rows = append(rows, Row{Kind: FromBase, Amount: Amount{Bytes: s.Base, Requested: s.Base}})
	}
	if n := s.StackAt(t); n != 0 {
		rows = append(rows, Row{Kind: FromStack, Amount: Amount{Bytes: n, Requested: n}})
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

type rowKey struct {
	site    SiteID
	purpose PurposeID
	kind    Kind
}

// compareRows orders rows by size, largest first. A compiled program has hundreds of thousands.
func compareRows(a, b Row) int {
	if c := cmp.Compare(b.Bytes, a.Bytes); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(b.Requested, a.Requested), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Purpose, b.Purpose))
}
