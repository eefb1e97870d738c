package lifetime

import (
	"cmp"
	"math"

	"github.com/memlane/memlane/internal/units"
)

// Outline is a capture reduced to two instants of every space: its peak and its end.
// Readers can make it from files of any length without keeping all buffers.
type Outline struct {
	Tables
	Spaces []*SpaceOutline
}

// SpaceOutline describes a space at its peak of occupied bytes and at its end. Levels
// and rows include Base and Stack.
type SpaceOutline struct {
	SpaceInfo
	Marks []Mark

	UsageOnly bool // as Space.UsageOnly
	Totals    int  // number of totals, if UsageOnly

	Peak          Level  // occupied
	PeakRequested Level  // requested; may be at another instant
	BeginBytes    int64  // occupied, at the beginning
	EndBytes      int64  // occupied, at the end
	Live, Pending Amount // as in Summary
	PeakRows      []Row
	EndRows       []Row

	Stack *int64 // Space.Stack at the peak, in bytes; nil = none

	// Reserved memory: see Space.Reserved. Free has its holes at the end, if Regions
	// are known.
	ReservedEnd, ReservedPeak int64
	Free                      Holes

	// Pools and streams at the peak and at the end, if Regions are known.
	PoolsAtPeak, PoolsAtEnd []PoolUse

	// Fragmentation as the allocator reports it: the last share up to the peak, the
	// highest, and the last; nil if it reports none, or without free bytes.
	FragmentationAtPeak, FragmentationMax, FragmentationAtEnd *float64

	Program *Space // the whole space of a compiled program; nil for others

	// Recording is the whole space if it has a history or an end state of all buffers, so that purposes can be judged and, with a
	// history, the allocator can be replayed; nil for others, and above 2 million buffers.
	Recording *Space
}

// maxRecording is the number of buffers up to which an outline keeps a whole space: 200 MB.
const maxRecording = 2_000_000

// TooLarge reports whether an outline of s does not keep it whole because of the number of its buffers.
func (s *Space) TooLarge() bool { return s.recorded() && len(s.Buffers) > maxRecording }

// recorded reports whether s has a history or an end state of all buffers.
func (s *Space) recorded() bool { return s.Facts&(History|EndState) != 0 && s.Axis != ProgramOrder }

// Outline returns the peak and the end of each space of c.
func (c *Capture) Outline() *Outline {
	o := &Outline{Tables: c.Tables}
	for _, s := range c.Spaces {
		o.Spaces = append(o.Spaces, s.Outline(nil))
	}
	o.SetRows()
	return o
}

// SetRows sets the rows of the spaces that are kept whole, after their purposes are known.
func (o *Outline) SetRows() {
	for _, s := range o.Spaces {
		if whole := s.Whole(); whole != nil {
			s.setRows(whole)
		}
	}
}

// Whole returns the whole space if it is kept: Program or Recording. Otherwise it is nil.
func (o *SpaceOutline) Whole() *Space { return cmp.Or(o.Program, o.Recording) }

func (o *SpaceOutline) setRows(s *Space) {
	o.PeakRows, o.EndRows = s.Breakdown(o.Peak.At), s.Breakdown(s.AtEnd())
	o.EndBytes = 0
	for _, row := range o.EndRows {
		o.EndBytes = units.AddSat(o.EndBytes, row.Bytes)
	}
}

// Outline returns s at its peak and at its end. o has the levels and amounts if s does
// not have all buffers, but only those alive at the peak or at the end; nil means that
// Outline computes them. It leaves the rows of a space that is kept whole to SetRows.
func (s *Space) Outline(o *SpaceOutline) *SpaceOutline {
	whole := o == nil
	if whole {
		sum := s.sums()
		o = &SpaceOutline{
			Peak: sum.Peak, PeakRequested: sum.PeakRequested, BeginBytes: s.LevelAt(s.Begin, Occupied), Live: sum.Live, Pending: sum.Pending,
		}
	}
	if whole && s.recorded() && !s.TooLarge() {
		o.Recording = s
	}
	o.SpaceInfo, o.Marks = s.SpaceInfo, s.Marks
	if o.UsageOnly = s.UsageOnly(); o.UsageOnly {
		o.Totals = len(s.Totals)
	}
	if len(s.Stack) > 0 {
		bytes := s.StackAt(o.Peak.At)
		o.Stack = &bytes
	}
	o.ReservedEnd, o.ReservedPeak = s.Reserved()
	if s.Axis == ProgramOrder {
		o.Program = s
	} else if s.Facts&Regions != 0 {
		o.Free = s.FreeAt(s.AtEnd())
		o.PoolsAtEnd = s.PoolsAt(s.AtEnd())
		o.PoolsAtPeak = o.PoolsAtEnd
		if o.Peak.At != s.AtEnd() {
			o.PoolsAtPeak = s.PoolsAt(o.Peak.At)
		}
	}
	if o.Whole() == nil {
		o.setRows(s)
	}
	o.FragmentationAtPeak, o.FragmentationAtEnd = s.FragmentationAt(o.Peak.At), s.FragmentationAt(s.End)
	for i := range s.Totals {
		if share, ok := s.Totals[i].reported(); ok && (o.FragmentationMax == nil || share > *o.FragmentationMax) {
			most := share
			o.FragmentationMax = &most
		}
	}
	return o
}

// FragmentationAt returns the last Total.Fragmentation up to t; nil if the allocator
// reported none, or without free bytes.
func (s *Space) FragmentationAt(t int64) *float64 {
	for i := len(s.Totals) - 1; i >= 0; i-- {
		if s.Totals[i].T <= t && s.Totals[i].HasFragmentation {
			if share, ok := s.Totals[i].reported(); ok {
				return &share
			}
			break
		}
	}
	return nil
}

// reported returns the fragmentation of a total. ok is false if it is not a number.
func (t *Total) reported() (share float64, ok bool) {
	share = float64(t.Fragmentation)
	return share, t.HasFragmentation && !math.IsNaN(share) && !math.IsInf(share, 0)
}
