package lifetime

import (
	"math"
)

// Outline is a capture cut down to two instants of every space: its peak and its
// end. Readers can make it without keeping what lies between, of files of any
// length.
type Outline struct {
	Tables
	Spaces []*SpaceOutline
}

// SpaceOutline is what is known of a space as a whole, at its peak of occupied
// bytes and at its end. Levels and rows include Base and Stack.
type SpaceOutline struct {
	SpaceInfo
	Marks []Mark

	UsageOnly bool // only totals are known
	Totals    int  // of UsageOnly: how many

	Peak          Level  // occupied
	PeakRequested Level  // its own maximum
	EndBytes      int64  // occupied, at the end
	Live, Pending Amount // at the end; Pending of Live: free requested, not completed
	PeakRows      []Row
	EndRows       []Row

	BeginBytes int64  // occupied, when the window begins
	Stack      *int64 // bytes beside the heap at the peak; nil where the space has no such memory

	// Reserved memory, by regions or else by totals; 0 without either. Free are its
	// holes at the end, where Regions are known.
	ReservedEnd, ReservedPeak int64
	Free                      Holes

	// Fragmentation as the allocator reports it: the last share before the peak, the
	// highest, and the last; nil where it reports none, or had nothing free.
	FragmentationAtPeak, FragmentationMax, FragmentationAtEnd *float64

	// Program is the whole space of a compiled program, nil of others.
	Program *Space
}

// Outline returns what c was at the peak and at the end of each space.
func (c *Capture) Outline() *Outline {
	o := &Outline{Tables: c.Tables}
	for _, s := range c.Spaces {
		o.Spaces = append(o.Spaces, s.Outline())
	}
	return o
}

// Outline returns what s was at its peak and at its end.
func (s *Space) Outline() *SpaceOutline {
	sum := s.Summary()
	o := &SpaceOutline{
		Peak: sum.Peak, PeakRequested: sum.PeakRequested, BeginBytes: s.LevelAt(s.Begin, Occupied), Live: sum.Live, Pending: sum.Pending,
		PeakRows: s.Breakdown(sum.Peak.At), EndRows: s.Breakdown(s.AtEnd()),
	}
	o.Describe(s)
	o.EndBytes = AddSat(AddSat(s.Base, sum.Live.Bytes), s.StackAt(s.End))
	if o.UsageOnly {
		o.EndBytes = s.LevelAt(s.End, Occupied)
	}
	return o
}

// Describe fills in what needs no buffers but those that are alive at the peak or
// at the end: all but the levels and amounts. Peak must be known.
func (o *SpaceOutline) Describe(s *Space) {
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
	}
	o.FragmentationAtPeak, o.FragmentationAtEnd = s.FragmentationAt(o.Peak.At), s.FragmentationAt(s.End)
	most := math.Inf(-1)
	for i := range s.Totals {
		if share, ok := s.Totals[i].reported(); ok && share > most {
			most = share
		}
	}
	if !math.IsInf(most, -1) {
		o.FragmentationMax = &most
	}
}

// FragmentationAt returns the share of its free bytes outside the largest free
// block that the allocator last reported up to t; nil when it did not, or had
// nothing free.
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

// reported returns the fragmentation of a total where it is a number.
func (t *Total) reported() (share float64, ok bool) {
	share = float64(t.Fragmentation)
	return share, t.HasFragmentation && !math.IsNaN(share) && !math.IsInf(share, 0)
}
