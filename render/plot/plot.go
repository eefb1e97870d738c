package plot

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/render/canvas"
)

// Plot is the part of a page that shows a space along its axis.
type Plot struct {
	Page  canvas.Canvas
	Space *lifetime.Space
	Width canvas.Length // of the page

	From, To                 int64 // the visible part of the axis: [From, To)
	Left, Right, Top, Bottom canvas.Length
	Below                    uint64 // bytes below the break of the vertical axis; 0 = it has none

	lines      int // of keys below a narrow plot
	phases     program.Timeline
	others     []*lifetime.Space // of small panels
	noRoom     int               // other spaces that no panel has room for
	refused    []refusal
	labels     []canvas.Text // above the plot
	limitAbove bool          // the capacity has one of them
}

// Frame is where a plot along an axis is in its picture, in pixels from the left and from the top.
type Frame struct {
	Width, Height            float64 // of the picture
	Left, Right, Top, Bottom float64 // of the plot
	From, To                 int64   // its times
	Bytes                    Scale   // of bytes to tenths of a pixel above Bottom; zero if the plot has no such axis
}

// Y returns where bytes are, in pixels from the top of the picture, less than Top if they are above the plot.
func (f *Frame) Y(bytes uint64) float64 {
	above := f.Bytes.Above()
	return f.Bottom - float64(f.Bytes.At(bytes))/10 - float64(bytes-min(bytes, f.Bytes.From))*float64(above.To)/float64(max(above.From, 1))/10
}

// Frame returns the frame of the plot in a page whose height is in pixels. bytes is the scale of its vertical axis.
func (p *Plot) Frame(height int, bytes Scale) Frame {
	in := func(l canvas.Length) float64 { return float64(l) / 10 }
	return Frame{in(p.Width), float64(height), in(p.Left), in(p.Right), in(p.Top), in(p.Bottom), p.From, p.To, bytes}
}

// New returns a plot for a page whose width is in pixels. It leaves room for labels on
// the left and for a legend on the right.
func New(width int) Plot {
	p := Plot{Width: canvas.Length(width) * 10, Left: 860}
	p.Right = p.legendLeft() - 200
	return p
}

// legendLeft returns the x of the legend.
func (p *Plot) legendLeft() canvas.Length { return p.Width - min(max(p.Width/10*24/100, 190), 360)*10 }

// X returns the x coordinate of time t.
func (p *Plot) X(t int64) canvas.Length {
	if t <= p.From {
		return p.Left
	}
	s := Scale{From: uint64(p.To) - uint64(p.From), To: uint64(p.Right - p.Left)}
	return p.Left + s.At(uint64(t)-uint64(p.From))
}

// Heading writes a title and below it a line of facts.
func (p *Plot) Heading(title string, facts ...string) {
	width := p.Width - p.Left - 160
	t := canvas.Text{X: p.Left, Y: 240, Size: 16, Bold: true, S: title}
	for t.Extent() > width { // the parts of a sentence that fit tell more than its two ends
		at := max(strings.LastIndex(t.S, ", "), strings.LastIndex(t.S, ": "), strings.LastIndex(t.S, " on "), strings.LastIndex(t.S, " in "), strings.LastIndex(t.S, " - "))
		if at < 0 {
			break
		}
		t.S = t.S[:at]
	}
	p.Page.Text(t.Fit(width))
	below := canvas.Text{X: p.Left, Y: 430, Role: canvas.Dim, S: strings.Join(facts, " · ")}
	for len(facts) > 2 && below.Extent() > width { // the first and the last tell most
		facts = slices.Delete(facts, len(facts)-2, len(facts)-1)
		below.S = strings.Join(facts, " · ")
	}
	p.Page.Text(below.Fit(width))
}

// Source returns the file name, cut to fit in a heading, and the memory ID of the space, and how many others have no room below.
func (p *Plot) Source(c *lifetime.Capture) (facts []string) {
	file := c.Sources[p.Space.Source].File
	name := canvas.Fit(file[strings.LastIndexAny(file, `/\`)+1:], canvas.TextSize, (p.Width-p.Left-160)/2)
	for _, fact := range []string{name, p.Space.ID()} { // an ID is whole, or left out where it has no room
		if fact != "" {
			facts = append(facts, fact)
		}
	}
	if p.noRoom > 0 {
		facts = append(facts, units.Plural(p.noRoom, "other memory ID")+" not shown")
	}
	return facts
}

// Sizes draws grid lines at round sizes up to most, at least the distance apart from
// each other. height converts bytes to a distance from the bottom. Labels above a break count from there.
func (p *Plot) Sizes(most uint64, apart canvas.Length, height func(bytes uint64) canvas.Length) {
	if p.Below > 0 {
		p.GridLine(p.Bottom, "0")
	}
	for _, tick := range Bytes(most-p.Below, int((p.Bottom-p.Top)/apart)) {
		label := tick.Label
		switch {
		case p.Below > 0 && tick.At == 0:
			label = units.Bytes(int64(p.Below))
		case Relative(p.Space) && tick.At == 0: // nobody knows what it is
			label = ""
		case p.Below > 0 || Relative(p.Space):
			label = "+" + label
		}
		p.GridLine(p.Bottom-height(p.Below+tick.At), label)
	}
}

// GridLine draws a line across the plot, with an optional label on its left.
func (p *Plot) GridLine(y canvas.Length, label string) {
	p.Page.Stroke(canvas.Line(p.Left, y, p.Right, y), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
	if label != "" {
		p.Page.Text(canvas.Text{X: p.Left - 80, Y: y + 40, Anchor: canvas.End, Role: canvas.Dim, S: label})
	}
}

// Upwards writes the name of the vertical axis.
func (p *Plot) Upwards(name string) {
	x := canvas.Length(150)
	if p.Below > 0 {
		x = 110 // labels are wider: they begin with a sign
	}
	p.Page.Text(canvas.Text{X: x, Y: (p.Top + p.Bottom) / 2, Anchor: canvas.Middle, Role: canvas.Dim, Turned: true, S: name})
}

// Along draws the horizontal axis and its name. Ticks are at round distances from the
// origin, even if only a part of the window is visible. Without a history there is one instant and no axis.
func (p *Plot) Along() {
	if Still(p.Space) {
		p.Page.Text(canvas.Text{X: (p.Left + p.Right) / 2, Y: p.Bottom + 180, Anchor: canvas.Middle, Role: canvas.Dim,
			S: "alive at the end; no history was recorded"})
		return
	}
	key := p.ribbon()
	under := p.under()
	ticks, name := Instants(p.Space, p.From, p.To, p.Right-p.Left)
	for _, tick := range ticks {
		at := p.X(int64(uint64(p.From) + tick.At))
		p.Page.Stroke(canvas.Line(at, under, at, under+40), canvas.Pen{Role: canvas.Grid, Width: 10}, nil)
		p.Page.Text(canvas.Text{X: at, Y: under + 180, Anchor: canvas.Middle, Role: canvas.Dim, S: tick.Label})
	}
	if key := strings.Join(key, ", "); key != "" && canvas.Width(name+" · "+key, canvas.TextSize) > p.Right-p.Left {
		name = strings.Replace(name, " since the start of the recording", "", 1) + " · " + key
	} else if key != "" {
		name += " · " + key
	}
	p.Page.Text(canvas.Text{X: (p.Left + p.Right) / 2, Y: under + 360, Anchor: canvas.Middle, Role: canvas.Dim, S: name})
}

// Still reports whether a space shows one instant: its buffers were recorded, but no history.
func Still(s *lifetime.Space) bool {
	return s.Facts&lifetime.History == 0 && s.Axis != lifetime.ProgramOrder && len(s.Buffers) > 0
}

// beside places a text after x if it then ends before right, otherwise before x. A text that does not fit there either
// starts at the left edge of the plot.
func (p *Plot) beside(x, right canvas.Length, t canvas.Text) canvas.Text {
	t = t.Fit(right - p.Left)
	width := t.Extent()
	t.X = x + 60
	if t.X+width > right {
		t.Anchor, t.X = canvas.End, max(x-60, p.Left+width)
	}
	return t
}

// Least is the least width of a picture in pixels: on a phone its texts are 9 pixels high.
const Least = 440

// narrow is the width in pixels below which a picture whose areas have names has no legend beside its plot.
const narrow = 640

// keyLine is the height of a line of the keys below a narrow plot.
const keyLine canvas.Length = 200

// KeyLines returns how many lines of keys have room below a plot. height is that of the picture in pixels, 0 if it is as high as it needs.
func KeyLines(height int) int {
	if height == 0 {
		return 7
	}
	return 3 * min(height/360, 1)
}

// Narrow widens the plot by the room of the legend if the picture is narrow and has lines for keys below it, and returns their height, else 0.
func (p *Plot) Narrow(lines int) (keys canvas.Length) {
	if p.Width >= narrow*10 || lines == 0 {
		return 0
	}
	p.Right, p.lines = p.Width-200, lines
	return canvas.Length(lines) * keyLine
}

// Keys lists the rows of a narrow picture below its axis, as many as have room. A name is only cut if a line is too short for it. It
// returns how many pixels of the room they leave, also without a page.
func (p *Plot) Keys(rows []Row) (left int) {
	const first canvas.Length = 160
	x, y, lines := first, p.under()+570, 1
	var names []string
	for _, r := range rows {
		if r.Place != "" && !slices.ContainsFunc(rows, func(o Row) bool { return o.Place == r.Place && o.Name != r.Name }) {
			r.Name = r.Place // a line of code tells more than its function
		}
		names = append(names, r.Name)
	}
	names = canvas.FitAll(names, canvas.TextSize, slices.Repeat([]canvas.Length{p.Width - 1500}, len(rows)))
	for i, r := range rows {
		bytes, _, _ := strings.Cut(strings.TrimPrefix(r.Below, "leak: "), " in ")
		bytes, _, _ = strings.Cut(strings.ReplaceAll(bytes, ";", ","), ", ")
		text := canvas.Text{S: names[i], Aside: strings.TrimSuffix(bytes, " at the peak")}
		wide := 170 + canvas.Width(text.S+" "+text.Aside, canvas.TextSize)
		if x > first && x+wide > p.Width-100 {
			if lines++; lines > p.lines {
				return 0
			}
			x, y = first, y+keyLine
		}
		if p.Page != nil {
			p.Swatch(x, y-110, r.Look)
			text.X, text.Y = x+170, y
			p.Page.Text(text)
		}
		x += wide + 200
	}
	return int(canvas.Length(p.lines-lines) * keyLine / 10)
}

// Row is a line of a legend.
type Row struct {
	Look        canvas.Look
	Name, Place string
	Below       string // second line: the bytes
	Bad         bool   // Below reports a problem
}

// RowHeight is the height of one row of a legend.
const RowHeight canvas.Length = 340

// Legend lists rows on the right, starting at y, or below a narrow plot. A row is a swatch and two lines.
func (p *Plot) Legend(y canvas.Length, rows []Row) {
	if p.lines > 0 {
		p.Keys(rows)
		return
	}
	x := p.legendLeft()
	width := p.Width - x - 180 - 120
	for _, r := range FitRows(rows, width) {
		p.Swatch(x, y, r.Look)
		p.Page.Text(canvas.Text{X: x + 180, Y: y + 100, S: r.Name, Aside: r.Place})
		role := canvas.Dim
		if r.Bad {
			role = canvas.Bad
		}
		p.Page.Text(canvas.Text{X: x + 180, Y: y + 240, Role: role, Bold: r.Bad, S: r.Below}.Fit(width))
		y += RowHeight
	}
}

// Swatch draws the square of a row at its upper left corner, with an edge: a pale one lacks it on a light page.
func (p *Plot) Swatch(x, y canvas.Length, look canvas.Look) {
	square := canvas.Rect(x, y, x+120, y+120)
	p.Page.Fill(square, look, nil)
	p.Page.Stroke(square.Closed(), canvas.Pen{Role: canvas.Dim, Width: 5}, nil)
}

// FitRows returns rows whose names fit the width with their places. A place that does not stands before the bytes below, or if it does not fit
// there either, what tells the row from others stands alone.
func FitRows(rows []Row, width canvas.Length) []Row {
	called, names := map[string]int{}, make([]string, len(rows))
	for _, r := range rows {
		called[r.Name]++
	}
	rows = slices.Clone(rows)
	for i := range rows {
		r := &rows[i]
		if r.Place != "" && canvas.Width(r.Name+" "+r.Place, canvas.TextSize) > width {
			below := r.Place + ", " + strings.TrimSuffix(r.Below, " at the peak")
			if r.Below != "" && !r.Bad && canvas.Width(below, canvas.TextSize) <= width {
				r.Below = below
			} else if called[r.Name] > 1 {
				r.Name = r.Place
			}
			r.Place = ""
		}
		names[i] = r.Name
	}
	for i, name := range canvas.FitAll(names, canvas.TextSize, slices.Repeat([]canvas.Length{width}, len(rows))) {
		rows[i].Name = name
	}
	return rows
}

// Footer writes a text at the bottom of a page whose height is in pixels: the sentences that fit, or parts of the first that do.
func (p *Plot) Footer(height int, text string) {
	width := p.Width - p.Left - 100
	_, rest, more := strings.Cut(text, ". ")
	for _, end := range []string{". ", ";", ", ", " ("} {
		for at := strings.LastIndex(text, end); at >= 0 && canvas.Width(text, canvas.TextSize) > width; at = strings.LastIndex(text, end) {
			text = text[:at]
		}
	}
	if more && canvas.Width(text, canvas.TextSize) > width {
		p.Footer(height, rest)
		return
	}
	p.Page.Text(canvas.Text{X: p.Left, Y: canvas.Length(height-9) * 10, Role: canvas.Dim, S: text}.Fit(width))
}

// OfLimit returns the capacity of the device as " of 16.0 GiB", or "" if it was not recorded.
func OfLimit(s *lifetime.Space) string {
	if s.Limit <= 0 {
		return ""
	}
	return " of " + units.Bytes(s.Limit)
}

// WithLimit returns the bytes at the top of a plot that must show most bytes. This is
// the capacity of the device, unless it would leave more than half of the plot empty.
func WithLimit(most uint64, limit int64) uint64 {
	if limit > 0 && uint64(limit) <= 2*most {
		return max(most, uint64(limit))
	}
	return most
}

// Window is a part [From, To) of an axis, cut into equal columns.
type Window struct {
	From, To int64
	Columns  int
}

// Column returns the column of t. inside is false if t is the start of the column. The
// end of the window is column Columns.
func (w Window) Column(t int64) (k int, inside bool) {
	t = min(max(t, w.From), w.To)
	hi, lo := bits.Mul64(uint64(t)-uint64(w.From), uint64(w.Columns))
	q, rem := bits.Div64(hi, lo, uint64(w.To)-uint64(w.From))
	return int(q), rem != 0
}

// Span returns the columns [first, end) that contain a part of [since, until).
func (w Window) Span(since, until int64) (first, end int) {
	first, _ = w.Column(since)
	end, inside := w.Column(until)
	if inside {
		end++
	}
	return first, end
}

// BreakHeight is the height of what is below a break of the vertical axis: room for one line of text.
const BreakHeight = 240

// leastActivity is the part of the axis, as a divisor, below which the axis is broken: what happens, with its failed allocations, would be lower
// than an eighth of the plot, which has no room for the names of two groups.
const leastActivity = 8

// BreakAt breaks the vertical axis at below bytes, and reports whether it did: if what is above, up to most bytes, is low in a plot with ceiling
// bytes at its top.
func (p *Plot) BreakAt(below int64, most, ceiling uint64) bool {
	if Still(p.Space) || below <= 0 || uint64(below) >= most || (p.WithRefused(most)-uint64(below))*leastActivity >= ceiling {
		return false
	}
	p.Below = uint64(below)
	return true
}

// Heights returns the scale that maps bytes to the height of a plot with ceiling bytes at its top.
func (p *Plot) Heights(ceiling uint64) Scale {
	s := Scale{From: max(ceiling, 1), To: uint64(p.Bottom - p.Top)}
	if p.Below > 0 {
		s.Below, s.Band = p.Below, BreakHeight
	}
	return s
}

// DrawBreak marks the break of the axis: a torn line through all of it, and a text below it, over a look.
func (p *Plot) DrawBreak(text string, over canvas.Look) {
	var tear canvas.Path
	y := p.Bottom - BreakHeight + 40
	tear.Move(p.Left-60, y)
	for x, up := p.Left-20, true; x <= p.Right+20; x, up = x+40, !up {
		if up {
			tear.Line(x, y-30)
		} else {
			tear.Line(x, y+30)
		}
	}
	p.Page.Stroke(&tear, canvas.Pen{Role: canvas.Background, Width: 30}, nil)
	const scale = ", not to scale"
	room := p.Right - p.Left - 120
	if first, _, _ := strings.Cut(text, ", "); canvas.Width(text+scale, canvas.TextSize) > room {
		text = first
	}
	p.Plate(canvas.Text{X: p.Left + 60, Y: p.Bottom - 60, S: text + scale}.Fit(room), over)
}

// Plate writes a text, which begins at its X, on a plate in the colour of the area below it, so that no edge or line crosses it.
func (p *Plot) Plate(t canvas.Text, area canvas.Look) {
	t.Role = canvas.On(area)
	plate := canvas.Pen{Role: area.Role, RGB: area.RGB, Width: 130}
	if area.Hatched {
		plate.Role = canvas.Background
	}
	p.Page.Stroke(canvas.Line(t.X-20, t.Y-40, t.X+t.Extent(), t.Y-40), plate, nil)
	p.Page.Text(t)
}
