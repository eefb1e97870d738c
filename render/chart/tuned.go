package chart

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// Tuned is a replay of a program for a picture. Name is that of its settings; others than the recorded ones may help.
type Tuned struct {
	Name  string
	Helps bool
	*replay.Trace
}

// Looks of the two replays, and of small segments.
var (
	tunedLine  = canvas.Pen{RGB: 0xc97b2f, Width: 15}
	smallLook  = canvas.Look{RGB: 0x8cc5a2, Crisp: true}
	usedLook   = canvas.Look{RGB: 0x699bdd, Crisp: true}
	unusedLook = canvas.Look{Role: canvas.Room, Crisp: true}
)

// tuned draws a picture of two replays.
type tuned struct {
	figure
	o          Options
	own, other *Tuned
	perRow     int64 // bytes of a row of a map of segments
}

const tunedNote = "Both settings share one scale."

// Sizes of maps of segments.
const (
	mapTop  canvas.Length = 600 // below the curves
	mapName canvas.Length = 220 // above a map
	mapRow  canvas.Length = 150
	mapGap  canvas.Length = 40
	mapRows               = 8 // of the larger map
)

// Tune draws the reserved bytes over time of two replays on one scale, and below it the segments of both at their
// peaks, also on one scale. It fails if nothing was reserved, and ignores Options.Height: the maps determine the
// height. The same input gives the same bytes.
func Tune(w io.Writer, info lifetime.SpaceInfo, file string, own, other *Tuned, o Options) error {
	t := &tuned{o: o.withDefaults(0, 0), own: own, other: other}
	t.figure = figure{Plot: plot.New(t.o.Width)}
	t.Space, t.From, t.To = &lifetime.Space{SpaceInfo: info}, info.Begin, info.End
	most := max(own.PeakReserved, other.PeakReserved)
	if most <= 0 || own.Segments == nil || t.From >= t.To {
		return fmt.Errorf("space %s: %w", info.ID(), errNothing)
	}
	t.ceiling = plot.WithLimit(uint64(most), info.Limit)
	t.layOut(most)
	var err error
	if t.Page, err = t.o.page(t.headline()+": "+t.gain(), tunedNote); err != nil {
		return err
	}
	t.Heading(t.headline(), canvas.Fit(file[strings.LastIndexAny(file, `/\\`)+1:], canvas.TextSize, t.Width/3), t.gain())
	t.curves()
	t.segments(t.segments(t.Bottom+mapTop, own, heapLine), other, tunedLine)
	t.Footer(t.o.Height, tunedNote)
	return t.Page.Finish(w)
}

// layOut places the curves, and the maps below them.
func (t *tuned) layOut(most int64) {
	t.Top, t.Bottom = t.Labels(390, lifetime.Level{}, uint64(most), t.ceiling, t.Width-100), 3300
	t.perRow = max(size(t.own.Segments), size(t.other.Segments))/mapRows + 1
	y := t.Bottom + mapTop
	for _, of := range []*Tuned{t.own, t.other} {
		y = t.below(y, size(of.Segments))
	}
	t.o.Height = int(y/10) + 20
}

func size(all []replay.Segment) (sum int64) {
	for i := range all {
		sum = units.AddSat(sum, all[i].Size())
	}
	return sum
}

// below returns the y below a map of so many bytes that begins at y.
func (t *tuned) below(y canvas.Length, bytes int64) canvas.Length {
	return y + mapName + canvas.Length((bytes+t.perRow-1)/t.perRow)*(mapRow+mapGap) + 120
}

func (t *tuned) headline() string {
	other, what := canvas.Cut(t.other.Name, 60), "no setting helps"
	switch {
	case t.other.OOM || !t.other.Helps:
	case t.own.OOM:
		what = other + " gets past the failure"
	case t.other.PeakReserved < t.own.PeakReserved:
		what = other + " reserves " + units.Bytes(t.own.PeakReserved-t.other.PeakReserved) + " less"
	}
	return plot.Device(t.Space) + " - " + what
}

// gain compares the peaks.
func (t *tuned) gain() string {
	return fmt.Sprintf("%s %s, %s %s", canvas.Cut(t.own.Name, 60), t.result(t.own), canvas.Cut(t.other.Name, 60), t.result(t.other))
}

// curves draws the reserved bytes of both, and the bytes in use as recorded.
func (t *tuned) curves() {
	t.Upwards("bytes")
	t.Sizes(t.ceiling, 400, t.height)
	w := plot.Window{From: t.From, To: t.To, Columns: max(int(t.Right-t.Left)/10, 1)}
	t.draw(newCurve(w, slices.Values(t.own.Reserved)), freeLook, heapLine, t.own.Name)
	t.draw(newCurve(w, slices.Values(t.own.Live)), heapLook, canvas.Pen{}, "in use")
	t.draw(newCurve(w, slices.Values(t.other.Reserved)), canvas.Look{}, tunedLine, t.other.Name)
	t.Along()
	t.Limit(t.height, t.ceiling)
	t.DrawLabels()
	t.Legend(t.Top, []plot.Row{
		{Look: canvas.Look{RGB: heapLine.RGB}, Name: t.own.Name, Below: t.result(t.own)},
		{Look: canvas.Look{RGB: tunedLine.RGB}, Name: t.other.Name, Below: t.result(t.other)},
		{Look: heapLook, Name: "in use, replayed", Below: units.Bytes(t.own.PeakLive) + " at the peak"},
		{Look: smallLook, Name: "in use, small", Below: "segments of 2 MiB"},
		{Look: unusedLook, Name: "reserved but free"},
	})
}

// result returns the peak and whether the program survives.
func (t *tuned) result(of *Tuned) string {
	if of.OOM {
		return "fails with " + units.Bytes(of.PeakReserved) + " reserved"
	}
	return "reserves " + units.Bytes(of.PeakReserved)
}

// segments draws the segments of a replay at its peak in rows, from the top down, and returns the y below them.
func (t *tuned) segments(y canvas.Length, trial *Tuned, pen canvas.Pen) canvas.Length {
	used := int64(0)
	for i := range trial.Segments {
		used += trial.Segments[i].Used()
	}
	bytes := size(trial.Segments)
	title := fmt.Sprintf("%s in %s at the peak of the reserved memory, %s in use", units.Bytes(bytes),
		units.Plural(len(trial.Segments), "segment"), units.Bytes(used))
	t.Page.Text(canvas.Text{X: t.Left, Y: y + 130, Bold: true, S: trial.Name, Aside: title}.Fit(t.Width - t.Left - 160))
	below := t.below(y, bytes)
	y += mapName
	sum := int64(0) // bytes so far
	for _, r := range t.runs(trial.Segments) {
		t.part(y, sum, sum+r.bytes, func(p *canvas.Path) { t.Page.Fill(p, r.look, nil) })
		sum += r.bytes
	}
	sum = 0
	for i := range trial.Segments {
		size := trial.Segments[i].Size()
		if size >= 4*t.pixel() { // others are narrower than their outline
			t.part(y, sum, sum+size, func(p *canvas.Path) { t.Page.Stroke(p, canvas.Pen{RGB: pen.RGB, Width: 6}, nil) })
		}
		sum += size
	}
	return below
}

// stretch is a range of a map with one look.
type stretch struct {
	look  canvas.Look
	bytes int64
}

// pixel returns the bytes of a pixel of a map.
func (t *tuned) pixel() int64 { return t.perRow/(int64(t.Width-160-t.Left)/10) + 1 }

// runs returns the blocks of segments as runs of at least a pixel. Smaller ones look like the larger neighbour.
func (t *tuned) runs(all []replay.Segment) (runs []stretch) {
	for _, s := range all {
		for _, b := range s.Blocks {
			look := unusedLook
			switch {
			case b.Used && s.Small:
				look = smallLook
			case b.Used:
				look = usedLook
			}
			last := len(runs) - 1
			if last < 0 || runs[last].look != look && runs[last].bytes >= t.pixel() {
				runs = append(runs, stretch{look, b.Size})
				continue
			}
			if b.Size > runs[last].bytes {
				runs[last].look = look
			}
			runs[last].bytes += b.Size
		}
	}
	return runs
}

// part calls draw with the rectangles of the bytes [from, to) of a map that begins at y.
func (t *tuned) part(y canvas.Length, from, to int64, draw func(*canvas.Path)) {
	x := plot.Scale{From: uint64(t.perRow), To: uint64(t.Width - 160 - t.Left)}
	to = min(to, mapRows*t.perRow)
	for from < to {
		row := from / t.perRow
		end := min(to-row*t.perRow, t.perRow) + row*t.perRow
		top := y + canvas.Length(row)*(mapRow+mapGap)
		left, right := t.Left+x.At(uint64(from-row*t.perRow)), t.Left+x.At(uint64(end-row*t.perRow))
		if right > left {
			draw(canvas.Rect(left, top, right, top+mapRow).Closed())
		}
		from = end
	}
}
