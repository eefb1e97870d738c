package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Options are the options of a picture. The zero value draws an SVG that is 960 pixels
// wide and as high as the kind of picture needs.
type Options struct {
	Format        canvas.Format
	Theme         canvas.Theme
	Width, Height int    // pixels; too small values are raised
	Title         string // of Usage; "" = what is drawn
	Peak          string // what Diff says of the peak after, such as its range; "" = its change

	Categories bool // Usage stacks the memory in use by category
	// Others are other spaces of the capture. Usage draws the bytes in use of up to plot.MostOthers of them below, each
	// in a small panel, on the same scale of bytes, if a given Height has room for them.
	Others []*lifetime.Space

	keys int // lines of a narrow picture for its rows below its plot

	// Frame is set by Usage to where the plot is in the picture. nil = not wanted.
	Frame *plot.Frame
}

// withDefaults returns o with a width of at least plot.Least and a height of at least least.
func (o Options) withDefaults(height, least int) Options {
	o.Width, o.Height = max(cmp.Or(o.Width, 960), plot.Least), max(cmp.Or(o.Height, height), least)
	return o
}

// page returns an empty page.
func (o Options) page(title, desc string) (canvas.Canvas, error) {
	return canvas.New(o.Format, canvas.Page{Width: o.Width, Height: o.Height, Theme: o.Theme, Title: title, Desc: desc})
}

// Looks of areas and pens of lines. They differ in lightness too.
var (
	heapLook    = canvas.Look{RGB: 0x699bdd}
	stackLook   = canvas.Look{RGB: 0xb2afd9}
	freeLook    = canvas.Look{Role: canvas.Room}
	heapLine    = canvas.Pen{RGB: 0x3574b0, Width: 10}
	requestLine = canvas.Pen{Role: canvas.Foreground, Width: 10}
	freeLine    = canvas.Pen{Role: canvas.Dim, Width: 10}
)

var errNothing = errors.New("no memory usage was recorded")

// usage draws a usage picture.
type usage struct {
	figure
	c *lifetime.Capture
	s *lifetime.Space
	o Options

	keys      canvas.Length // height of the rows below a narrow plot, else 0
	requested *curve        // nil if nobody sees that it is not occupied
	stack     *curve        // nil if there is none
	bands     []band        // by category, from bottom to top; none in other pictures
	holes     *curve        // share of the free bytes outside the largest piece, in parts of wholeShare, as reported
}

// The strip of the fragmentation below the axis.
const (
	wholeShare                = 1e6
	stripTop    canvas.Length = 620 // from the end of the axis, with the heading
	stripHeight canvas.Length = 300
	stripPitch  canvas.Length = 620 // by which it moves what is below
)

// newUsage returns a usage with its curves. It fails if no memory was in use.
func newUsage(c *lifetime.Capture, s *lifetime.Space, o Options) (*usage, error) {
	u := &usage{figure: newFigure(s, o.Width), c: c, s: s, o: o}
	u.keys = u.Narrow(o.keys)
	if u.peak.Bytes <= 0 || s.Begin >= s.End {
		return nil, fmt.Errorf("space %s: %w", s.ID(), errNothing)
	}
	w := u.sample(int(u.Right-u.Left) / 10)
	if !s.UsageOnly() {
		if requested := newCurve(w, s.Levels(lifetime.Requested)); !requested.near(u.occupied, max(0, u.peak.Bytes-s.Base)/300) { // a pixel
			u.requested = requested
		}
	}
	if o.Categories || s.UsageOnly() {
		u.bands = u.bandsOf(w)
	}
	if len(s.Stack) > 0 {
		u.stack = newCurve(w, slices.Values(s.Stack))
	}
	u.holes = newCurve(w, shares(s))
	return u, nil
}

// Usage draws the bytes in use over time and, if they were recorded, the requested,
// reserved and free bytes. Where what is always in use would make the rest low, the axis is broken.
// It fails if no memory was in use. The same input gives the same bytes.
func Usage(w io.Writer, c *judge.Capture, s *lifetime.Space, o Options) error {
	const least = 240 // pixels
	o.keys = plot.KeyLines(o.Height)
	u, err := newUsage(c.Capture, s, o.withDefaults(420, least))
	if err != nil {
		return err
	}
	var below canvas.Length
	if o.Height == 0 {
		u.o.Height += int(u.keys / 10)
	}
	others := slices.DeleteFunc(slices.Clone(o.Others), func(x *lifetime.Space) bool { return u.bands != nil && u.isCategory(x) })
	u.o.Height, below = u.FindOthers(others, u.o.Height, least, o.Height != 0)
	strip := u.holes.highest() > 0 && (o.Height == 0 || u.o.Height-int((below+stripPitch)/10) >= least)
	if strip {
		below += stripPitch
	}
	if strip && o.Height == 0 {
		u.o.Height += int(stripPitch / 10)
	}
	u.FindRefusals()
	u.ceiling = u.Ceiling(u.most())
	if len(u.bands) == 0 && u.stack == nil && u.BreakAt(u.occupied.lowest(), u.most(), u.ceiling) {
		u.ceiling = u.Ceiling(u.most())
	}
	u.Bottom = canvas.Length(u.o.Height-66)*10 - u.keys - below - u.FindPhases(c.Program())
	u.Top = u.Labels(430, u.peak, u.most(), u.ceiling, u.Width-100)
	rows := u.legend()
	if u.keys > 0 {
		slices.Reverse(rows) // what is always in use comes first, as only some rows fit
		if left := u.Keys(rows); o.Height == 0 {
			u.o.Height -= left
		}
	}
	if u.Page, err = u.o.page(u.headline()+": "+plot.PeakWord(s)+units.Bytes(u.peak.Bytes), u.Findings(u.c, u.peak)+u.explanation()); err != nil {
		return err
	}
	u.Heading(u.headline(), append(u.Source(c.Capture), units.Span(u.To-max(u.From, plot.Origin(s)), s.Axis.Unit()),
		plot.PeakWord(s)+units.Bytes(u.peak.Bytes)+plot.OfLimit(s))...)
	u.curves(heapLook, heapLine)
	u.marks(rows[:min(len(rows), int((canvas.Length(u.o.Height)*10-u.Top)/plot.RowHeight))]) // the key stays on the page
	if strip {
		u.strip(canvas.Length(u.o.Height-62)*10 - below)
	}
	u.Others(u.o.Height, u.other)
	u.Footer(u.o.Height, u.explanation())
	if o.Frame != nil {
		*o.Frame = u.Plot.Frame(u.o.Height, u.Heights(u.ceiling))
	}
	return u.Page.Finish(w)
}

// other draws the bytes in use of another space in a small panel.
func (u *usage) other(panel plot.Plot, title string) {
	f := figure{Plot: panel, ceiling: u.ceiling}
	levels := newCurve(plot.Window{From: f.From, To: f.To, Columns: int(f.Right-f.Left) / 10}, f.Space.Levels(lifetime.Occupied))
	f.draw(levels, heapLook, heapLine, title)
}

// strip draws the reported fragmentation below the axis, which ends at y. It is drawn as a share: bytes would need the size of what
// the allocator took from the device, which XProf does not record.
func (u *usage) strip(y canvas.Length) {
	f := figure{Plot: u.Plot, ceiling: wholeShare}
	f.Below, f.Top, f.Bottom = 0, y+stripTop, y+stripTop+stripHeight
	f.GridLine(f.Bottom, "0")
	f.GridLine(f.Top, "100 %")
	title := fmt.Sprintf("reported fragmentation: free bytes outside the largest piece, maximum %.1f %%", float64(u.holes.highest())*100/wholeShare)
	f.Page.Text(canvas.Text{X: f.Left, Y: f.Top - 80, Role: canvas.Dim, S: title}.Fit(f.Right - f.Left))
	f.draw(u.holes, freeLook, freeLine, title)
}

func (u *usage) headline() string { return cmp.Or(u.o.Title, plot.Device(u.s)+" - memory in use") }

func (u *usage) explanation() string {
	text := "Bytes in use over " + u.s.Axis.String()
	if plot.Relative(u.s) {
		text += " above the lowest level, which was not recorded"
	} else if u.s.UsageOnly() {
		text += "; no buffers were recorded"
	}
	return text + columnNote
}

// columnNote is the last sentence below every picture of curves.
const columnNote = ". Every pixel column shows the lowest and the highest value."

// curves draws grid lines, areas and lines from back to front. area and edge show the bytes in use.
func (u *usage) curves(area canvas.Look, edge canvas.Pen) {
	u.Upwards("bytes in use")
	u.Sizes(u.ceiling, 500, u.height)
	u.draw(u.reserved, freeLook, freeLine, "")
	for _, b := range slices.Backward(u.bands) { // from back to front
		area = canvas.Look{}
		u.draw(b.top, b.look, canvas.Pen{}, b.name)
	}
	u.draw(u.occupied, area, edge, "")
	if base := u.s.Base; base > 0 && uint64(base) <= u.ceiling {
		u.Page.Fill(canvas.Rect(u.Left, u.level(base), u.Right, u.Bottom), plot.BaseLook, nil)
	}
	u.draw(u.stack, stackLook, canvas.Pen{}, "")
	if len(u.bands) == 0 {
		u.draw(u.requested, canvas.Look{}, requestLine, "")
	}
	if u.Below > 0 {
		if uint64(u.s.Base) > u.Below/2 {
			area = plot.BaseLook
		}
		u.DrawBreak("always in use: "+units.Bytes(int64(u.Below)), area)
	}
}

// inUse returns the legend rows of the bytes in use and of the requested bytes.
func (u *usage) inUse(area canvas.Look) []plot.Row {
	name := "allocated"
	switch {
	case u.s.Axis == lifetime.ProgramOrder:
		name = "padded"
	case u.stack != nil:
		name = "heap"
	}
	rows := []plot.Row{{Look: area, Name: name, Below: units.Bytes(u.peak.Bytes-u.s.StackAt(u.peak.At)) + " at the peak"}}
	if len(u.bands) > 0 {
		return u.bandRows()
	}
	if u.requested != nil {
		word, _ := plot.Words(u.s)
		rows = append(rows, plot.Row{Look: swatch(requestLine), Name: word, Below: "maximum " + units.Bytes(u.requested.highest())})
	}
	return rows
}

// legend returns a row for each curve, with its highest value.
func (u *usage) legend() []plot.Row {
	rows := u.inUse(heapLook)
	if u.s.Base > 0 {
		rows = append(rows, plot.BaseRow(u.s.Base, false))
	}
	if u.stack != nil {
		rows = append(rows, plot.Row{Look: stackLook, Name: plot.StackName, Below: units.Bytes(u.s.StackAt(u.peak.At)) + " at the peak"})
	}
	reserved, pieces := u.reservedRows(), u.pieces()
	if len(reserved) > 0 && len(pieces) > 0 && pieces[0].Look == freeLook {
		reserved[0].Look = swatch(freeLine) // its area is what is free
	}
	rows = append(rows, reserved...)
	if u.s.Limit > 0 && (len(pieces) == 0 || pieces[0].Name != "free") {
		rows = append(rows, plot.Row{Look: noneLook, Name: "free", Below: units.Bytes(u.s.Limit-u.peak.Bytes) + " at the peak"})
	}
	return append(append(rows, pieces...), u.RefusedRows()...)
}

// swatch returns the look of a line in a legend.
func swatch(line canvas.Pen) canvas.Look { return canvas.Look{Role: line.Role, RGB: line.RGB} }

// pieces returns the legend row of the free memory at the peak and its largest piece; none if they are not known.
func (u *usage) pieces() []plot.Row {
	name, look, free, largest := "reserved but free", freeLook, int64(0), int64(0)
	s := u.s
	if len(s.Regions) > 0 && len(s.Buffers) > 0 && s.Axis != lifetime.ProgramOrder && s.Facts&lifetime.Addresses != 0 {
		holes := region.FreeAt(s, u.peak.At)
		free, largest = holes.Total, holes.Largest
	} else if s.Limit > u.peak.Bytes {
		for l := range shares(s) {
			if l.At <= u.peak.At {
				name, look, free = "free", noneLook, s.Limit-u.peak.Bytes
				largest = int64(math.Round((1 - float64(l.Bytes)/wholeShare) * float64(free)))
			}
		}
	}
	if free <= 0 {
		return nil
	}
	return []plot.Row{{Look: look, Name: name, Below: units.Bytes(free) + ", largest " + units.Bytes(largest)}}
}

// shares returns the reported shares of the free bytes outside the largest piece, in parts of wholeShare; 0 without free bytes.
func shares(s *lifetime.Space) iter.Seq[lifetime.Level] {
	return func(yield func(lifetime.Level) bool) {
		for _, total := range s.Totals {
			l, v := lifetime.Level{At: total.T}, float64(total.Fragmentation)
			if v >= 0 && v <= 1 {
				l.Bytes = int64(math.Round(v * wholeShare))
			}
			if total.HasFragmentation && !(v < 0 || v > 1) && !yield(l) {
				return
			}
		}
	}
}
