// Package outline reduces a capture to two instants of every space: its peak and its end.
//
// Its place in the pipeline: beside lifetime.Capture, for answers that need no history. Readers that can make an
// [Outline] without all buffers do so in package build; [Of] makes it of a whole capture.
package outline

import (
	"cmp"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// Outline is a capture reduced to two instants of every space: its peak and its end.
// Readers can make it from files of any length without keeping all buffers.
type Outline struct {
	lifetime.Tables
	Spaces []*Space
}

// Space describes a space at its peak of occupied bytes and at its end. Levels and rows include Base and Stack.
type Space struct {
	lifetime.SpaceInfo
	Marks []lifetime.Mark

	UsageOnly bool // as lifetime.Space.UsageOnly
	Totals    int  // number of totals, if UsageOnly

	Peak          lifetime.Level  // occupied
	PeakRequested lifetime.Level  // requested; may be at another instant
	BeginBytes    int64           // occupied, at the beginning
	EndBytes      int64           // occupied, at the end
	Live, Pending lifetime.Amount // as in lifetime.Summary
	PeakRows      []lifetime.Row
	EndRows       []lifetime.Row

	Stack *int64 // lifetime.Space.Stack at the peak, in bytes; nil = none

	// Reserved memory: see region.Reserved. Free has its holes at the end, if Regions are known.
	ReservedEnd, ReservedPeak int64
	Free                      region.Holes

	// Pools and streams at the peak and at the end, if Regions are known.
	PoolsAtPeak, PoolsAtEnd []region.PoolUse

	// Fragmentation as the allocator reports it: the last share up to the peak, the
	// highest, and the last; nil if it reports none, or without free bytes.
	FragmentationAtPeak, FragmentationMax, FragmentationAtEnd *float64

	Program *lifetime.Space // the whole space of a compiled program; nil for others

	// Recording is the whole space if it has a history or an end state of all buffers, so that purposes can be judged
	// and, with a history, the allocator can be replayed; nil for others, and above 2 million buffers.
	Recording *lifetime.Space
}

// maxRecording is the number of buffers up to which an outline keeps a whole space: 200 MB.
const maxRecording = 2_000_000

// TooLarge reports whether an outline of s does not keep it whole because of the number of its buffers.
func TooLarge(s *lifetime.Space) bool { return recorded(s) && len(s.Buffers) > maxRecording }

// recorded reports whether s has a history or an end state of all buffers.
func recorded(s *lifetime.Space) bool {
	return s.Facts&(lifetime.History|lifetime.EndState) != 0 && s.Axis != lifetime.ProgramOrder
}

// Of returns the peak and the end of each space of c.
func Of(c *lifetime.Capture) *Outline {
	o := &Outline{Tables: c.Tables}
	for _, s := range c.Spaces {
		o.Spaces = append(o.Spaces, OfSpace(s, nil))
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
func (o *Space) Whole() *lifetime.Space { return cmp.Or(o.Program, o.Recording) }

func (o *Space) setRows(s *lifetime.Space) {
	o.PeakRows = s.Breakdown(o.Peak.At)
	if o.EndRows = slices.Clone(o.PeakRows); o.Peak.At != s.AtEnd() {
		o.EndRows = s.Breakdown(s.AtEnd())
	}
	o.EndBytes = 0
	for _, row := range o.EndRows {
		o.EndBytes = units.AddSat(o.EndBytes, row.Bytes)
	}
}

// OfSpace returns s at its peak and at its end. o has the levels and amounts if s does
// not have all buffers, but only those alive at the peak or at the end; nil means that
// OfSpace computes them. It leaves the rows of a space that is kept whole to SetRows.
func OfSpace(s *lifetime.Space, o *Space) *Space {
	whole := o == nil
	if whole {
		sum := s.Sums()
		o = &Space{
			Peak: sum.Peak, PeakRequested: sum.PeakRequested, Live: sum.Live, Pending: sum.Pending,
			BeginBytes: s.LevelAt(s.Begin, lifetime.Occupied),
		}
	}
	if whole && recorded(s) && !TooLarge(s) {
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
	o.ReservedEnd, o.ReservedPeak = region.Reserved(s)
	if s.Axis == lifetime.ProgramOrder {
		o.Program = s
	} else if s.Facts&lifetime.Regions != 0 {
		o.Free = region.FreeAt(s, s.AtEnd())
		o.PoolsAtEnd = region.PoolsAt(s, s.AtEnd())
		o.PoolsAtPeak = o.PoolsAtEnd
		if o.Peak.At != s.AtEnd() {
			o.PoolsAtPeak = region.PoolsAt(s, o.Peak.At)
		}
	}
	if o.Whole() == nil {
		o.setRows(s)
	}
	o.FragmentationAtPeak, o.FragmentationAtEnd = FragmentationAt(s, o.Peak.At), FragmentationAt(s, s.End)
	for i := range s.Totals {
		if share, ok := reported(&s.Totals[i]); ok && (o.FragmentationMax == nil || share > *o.FragmentationMax) {
			most := share
			o.FragmentationMax = &most
		}
	}
	return o
}

// FragmentationAt returns the last Total.Fragmentation up to t; nil if the allocator
// reported none, or without free bytes.
func FragmentationAt(s *lifetime.Space, t int64) *float64 {
	for i := len(s.Totals) - 1; i >= 0; i-- {
		if s.Totals[i].T <= t && s.Totals[i].HasFragmentation {
			if share, ok := reported(&s.Totals[i]); ok {
				return &share
			}
			break
		}
	}
	return nil
}

// reported returns the fragmentation of a total. ok is false if it is not a number.
func reported(t *lifetime.Total) (share float64, ok bool) {
	share = float64(t.Fragmentation)
	return share, t.HasFragmentation && !math.IsNaN(share) && !math.IsInf(share, 0)
}
