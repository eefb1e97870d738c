// Package figure draws the picture of a memory ID that everybody shares: the file of memlane svg, the first thing on
// the page, and what a notebook shows are the same bytes.
//
// Its place in the pipeline: it chooses between packages blocks and chart, from what is known of the memory ID.
package figure

import (
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

	Title         string // of Blocks, unless Layout is Address: text.Title
	Width, Height int    // pixels; 0 = 960, and as high as the view needs
	Buffer        string // that Peak highlights

	// Frame is set to where the plot is in the picture, nil if that is not wanted. It stays as it is where no axis of
	// time is drawn.
	Frame *plot.Frame
}

// Write draws the space s of c. others are the spaces of c among which s was chosen. It fails if s lacks what the picture
// needs. The same input gives the same bytes.
func Write(w io.Writer, c *judge.Capture, s *lifetime.Space, others []*lifetime.Space, o Options) error {
	whole := s // what is known of the space, on its own axis
	s = OnAxis(s, o.Axis)
	layout := blocks.Stacked
	if o.Layout != nil {
		layout = *o.Layout
	} else if fragmented(c, whole) {
		layout = blocks.Address
	}
	if still := plot.Still(s); still && o.View == Usage && len(s.Totals) == 0 || still && o.View == Blocks &&
		layout == blocks.Stacked {
		o.View = Peak // over time there is nothing to see
	}
	charts := chart.Options{Format: o.Format, Theme: o.Theme, Width: o.Width, Height: o.Height, Frame: o.Frame}
	color := colorOf(c.Capture, whole, o.Color)
	switch o.View {
	case Usage:
		charts.Categories, charts.Others = color == blocks.ByCategory, othersOf(whole, others)
		return chart.Usage(w, c, s, charts)
	case Peak:
		return chart.Peak(w, c.Capture, s, o.Buffer, charts)
	}
	if o.Layout != nil && layout != blocks.Stacked {
		o.Title = ""
	}
	leaks := c.Leaks(whole) // the picture shows no other finding
	for i := range leaks {
		leaks[i].Space = s
	}
	return blocks.Write(w, c, s, blocks.Options{
		Title: o.Title, Advice: selection.NameOlder(&c.Tables, &s.SpaceInfo), Layout: layout, Color: color, Theme: o.Theme, Width: o.Width, Height: o.Height,
		Format: o.Format, Marks: finding.MarksOf(leaks), Others: othersOf(whole, others), Frame: o.Frame,
	})
}

// fragmented reports whether the last request of s that failed did so because what was free was in smaller pieces.
func fragmented(c *judge.Capture, s *lifetime.Space) bool {
	failures := c.Failures(s)
	for i := len(failures) - 1; i >= 0 && s.Facts&lifetime.Addresses != 0 && len(s.Regions) > 0; i-- {
		if f := &failures[i]; f.Reason != oom.Survived {
			return f.Reason == oom.Fragmented && !f.Inferred && region.PiecesFor(s, f.Mark).Largest < f.Mark.Requested
		}
	}
	return false
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
