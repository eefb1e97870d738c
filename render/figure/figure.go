// Package figure draws the picture of a memory ID that everybody shares: the file of memlane svg, the first thing on
// the page, and what a notebook shows are the same bytes.
//
// Its place in the pipeline: it chooses between packages blocks and chart, from what is known of the memory ID.
package figure

import (
	"cmp"
	"io"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/plot"
)

// View is what is drawn.
type View uint8

const (
	Blocks View = iota // each buffer as a block, over time
	Usage              // the bytes in use over time
	Peak               // the peak by buffer
)

// Axis is the horizontal axis of Blocks and Usage.
type Axis uint8

const (
	Recorded Axis = iota // Events if most of them take place in a small part of the time, else Time
	Time
	Events // each event has the same width
)

// Options are the options of a picture. The zero value is that of memlane svg without flags.
type Options struct {
	View   View
	Layout *blocks.Layout // of Blocks; nil = Address if the last request failed because free memory is in pieces, else Stacked
	Color  *blocks.Color  // nil = by category, if most buffers have one, else by site
	Axis   Axis
	Format canvas.Format
	Theme  canvas.Theme

	Title         func(byCategory bool) string // of Blocks, unless Layout is Address: text.Title; nil = what is drawn
	Width, Height int                          // pixels; 0 = 960, of one bar 600, and as high as the view needs
	Buffer        string                       // that Peak highlights

	// Frame is set to where the plot is in the picture, nil if that is not wanted. It stays as it is where no axis of
	// time is drawn.
	Frame *plot.Frame
}

// Main returns the space whose picture answers most: that of the first failure which the program did not survive, if it can be drawn, else the one with
// the highest peak, also if only its usage is known; nil if nothing can be drawn. of is how many there are, and died reports whether it is that of a failure.
func Main(c *judge.Capture, spaces []*lifetime.Space) (main *lifetime.Space, of int, died bool) {
	if main, of = selection.Largest(spaces); main == nil {
		for _, s := range spaces {
			if s.UsageOnly() && (main == nil || s.Peak(lifetime.Occupied).Bytes > main.Peak(lifetime.Occupied).Bytes) {
				main = s
			}
		}
	}
	var first *oom.Diagnosis
	for _, s := range spaces {
		d := fatal(c, s)
		if d == nil || len(s.Buffers) == 0 && accounted(c, s) == nil || first != nil && first.First {
			continue
		}
		if first == nil || d.First || cmp.Or(cmp.Compare(d.Line, first.Line), cmp.Compare(d.Mark.Begin, first.Mark.Begin)) < 0 {
			first, main = d, s
		}
	}
	return main, cmp.Or(of, len(spaces)), first != nil
}

// fatal returns the last request of s that failed and that the program did not survive; nil if there is none.
func fatal(c *judge.Capture, s *lifetime.Space) *oom.Diagnosis {
	failures := c.Failures(s)
	for i := range slices.Backward(failures) {
		if f := &failures[i]; f.Reason != oom.Survived && !f.Inferred {
			return f
		}
	}
	return nil
}

// accounted returns the failure of s that one bar of the device shows best: a text has one instant, and no other picture shows memory outside of the
// allocator. nil if there is none.
func accounted(c *judge.Capture, s *lifetime.Space) *oom.Diagnosis {
	d := fatal(c, s)
	if d == nil {
		return nil
	}
	a, ok := d.Failure.Account(d.Mark.Free.Or(-1))
	text := d.Mark.Failure != nil && s.Facts&lifetime.History == 0
	if !ok && (!text || a.Capacity >= 0 || a.Live < 0 || d.Needed >= 0) || !text && d.Reason != oom.Outside && d.Reason != oom.Other {
		return nil
	}
	return d
}

// Write draws the space s of c. others are the spaces of c among which s was chosen. It fails if s lacks what the picture
// needs. The same input gives the same bytes.
func Write(w io.Writer, c *judge.Capture, s *lifetime.Space, others []*lifetime.Space, o Options) error {
	whole := s // what is known of the space, on its own axis
	s = OnAxis(s, o.Axis)
	layout, color, title := blocks.Stacked, colorOf(c.Capture, whole, o.Color), ""
	if o.Title != nil && o.View == Blocks {
		title = o.Title(color == blocks.ByCategory)
	}
	if o.Layout != nil {
		layout = *o.Layout
	} else if fragmented(c, whole) {
		layout = blocks.Address
	} else if d := accounted(c, whole); o.View == Blocks && d != nil {
		return chart.Account(w, c, d, title, chart.Options{Format: o.Format, Theme: o.Theme, Width: o.Width, Height: o.Height})
	}
	if still := plot.Still(s); still && o.View == Usage && len(s.Totals) == 0 || still && o.View == Blocks &&
		layout == blocks.Stacked {
		o.View = Peak // over time there is nothing to see
	}
	if o.View == Blocks && (s.UsageOnly() || c.Idle(whole).Idle > 0 && o.Layout == nil && o.Color == nil && fatal(c, whole) == nil && len(c.Leaks(whole)) == 0) {
		o.View = Usage // there are no blocks, or they are not what filled the memory
	}
	charts := chart.Options{Title: title, Format: o.Format, Theme: o.Theme, Width: o.Width, Height: o.Height, Frame: o.Frame}
	switch o.View {
	case Usage:
		charts.Categories, charts.Others = color == blocks.ByCategory, othersOf(whole, others)
		return chart.Usage(w, c, s, charts)
	case Peak:
		return chart.Peak(w, c.Capture, s, o.Buffer, charts)
	}
	if o.Layout != nil && layout != blocks.Stacked {
		title = ""
	}
	leaks := c.Leaks(whole) // the picture shows no other finding
	for i := range leaks {
		leaks[i].Space = s
	}
	return blocks.Write(w, c, s, blocks.Options{
		Title: title, Advice: selection.NameOlder(&c.Tables, &s.SpaceInfo), Layout: layout, Color: color, Theme: o.Theme, Width: o.Width, Height: o.Height,
		Format: o.Format, Marks: finding.MarksOf(leaks), Others: othersOf(whole, others), Frame: o.Frame,
	})
}

// fragmented reports whether the last request of s that failed did so because what was free was in smaller pieces.
func fragmented(c *judge.Capture, s *lifetime.Space) bool {
	d := fatal(c, s)
	return d != nil && d.Reason == oom.Fragmented && s.Facts&lifetime.Addresses != 0 && len(s.Regions) > 0 &&
		region.PiecesFor(s, d.Mark).Largest < d.Mark.Requested
}

// OnAxis returns s as it is drawn on an axis.
func OnAxis(s *lifetime.Space, a Axis) *lifetime.Space {
	if a == Events || a == Recorded && Crowded(s) {
		return selection.ByEvent(s)
	}
	return s
}

// othersOf returns the recorded spaces beside s, which are other devices. Compiled programs are none, and those with
// too little memory to see on the scale of s.
func othersOf(s *lifetime.Space, spaces []*lifetime.Space) []*lifetime.Space {
	least := s.Peak(lifetime.Occupied).Bytes / 200
	return slices.DeleteFunc(slices.Clone(spaces), func(o *lifetime.Space) bool {
		return o == s || s.Axis == lifetime.ProgramOrder || o.Axis == lifetime.ProgramOrder || plot.Still(o) ||
			o.Peak(lifetime.Occupied).Bytes <= least
	})
}

// colorOf returns the requested colours. Without a request, it returns categories where they tell more than call sites,
// else the groups that tell most.
func colorOf(c *lifetime.Capture, s *lifetime.Space, asked *blocks.Color) blocks.Color {
	switch {
	case asked != nil:
		return *asked
	case CategoriesTell(&c.Tables, s):
		return blocks.ByCategory
	}
	return blocks.Telling(c, s)
}
