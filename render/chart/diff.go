package chart

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/plot"
)

// comparison draws a picture of two captures.
type comparison struct {
	o       Options
	d       *diff.Result
	pair    *diff.Pair
	page    canvas.Canvas
	verdict []string // lines of the heading
	sides   []*timeline
	steps   []diff.Step // from the peak before to that after; none if they are not drawn
}

// underSides is the height below everything but the footer, in tenths of a pixel.
const underSides = 160

// timeline is one side of a comparison.
type timeline struct {
	figure
	word  string // "before" or "after"
	file  string
	named canvas.Length // y of these
}

// Diff draws the bytes in use of a pair of spaces of d under the verdict of the comparison. "before" is above "after";
// both share one scale of bytes and one of time. Below is what changed at the peak, unless a given Height has no room
// for it. It fails if neither used memory. The same input gives the same bytes.
func Diff(w io.Writer, d *diff.Result, pair *diff.Pair, o Options) error {
	const least = 480 // pixels
	steps := stepsOf(d, pair)
	room := int(stepsHeight(len(steps)) / 10)
	if o.Height != 0 && o.Height < least+room {
		steps, room = nil, 0
	}
	o = o.withDefaults(620+room, least)
	p := &comparison{o: o, d: d, pair: pair, steps: steps}
	if !p.open() {
		return fmt.Errorf("space %s: %w", pair.Name, errNothing)
	}
	var err error
	if p.page, err = o.page(canvas.Cut(pair.Name, 60)+" - memory in use before and after: "+d.Verdict(), p.explanation()); err != nil {
		return err
	}
	p.layOut()
	p.heading()
	for i, side := range p.sides {
		p.drawSide(side, i == 1 && p.pair.Before != nil && p.pair.After != nil)
	}
	p.waterfall(canvas.Length(o.Height)*10 - underSides - stepsHeight(len(steps)))
	p.sides[0].Footer(o.Height, p.explanation())
	return p.page.Finish(w)
}

// open prepares both sides. It returns false if no memory was in use.
func (p *comparison) open() bool {
	files := plot.Apart([]string{fileOf(p.d.Before, p.pair.Before), fileOf(p.d.After, p.pair.After)})
	used := false
	for i, side := range []*diff.Side{p.pair.Before, p.pair.After} {
		t := &timeline{figure{Plot: plot.New(p.o.Width)}, [...]string{"before", "after"}[i], files[i], 0}
		p.sides = append(p.sides, t)
		if side == nil {
			continue
		}
		if t.figure = newFigure(side.Space, p.o.Width); t.From >= t.To {
			return false
		}
		t.FindSteps([]*judge.Capture{p.d.Before, p.d.After}[i].Program())
		used = used || t.peak.Bytes > 0
	}
	return used
}

// fileOf returns the file of a side.
func fileOf(c *judge.Capture, side *diff.Side) string {
	if side == nil {
		return c.Sources[0].File
	}
	return c.Sources[side.Space.Source].File
}

// layOut places both sides and samples their curves.
func (p *comparison) layOut() {
	const axis = 520
	p.verdict = lines(p.d.Verdict(), 18, p.sides[0].Width-p.sides[0].Left-160, 3) // bold letters are wider than their size
	top := canvas.Length(len(p.verdict))*200 + 330
	most := uint64(0)
	for _, t := range p.sides {
		t.Page = p.page
		if s := t.Space; s != nil {
			t.To = p.endOfScale(s)
			t.sample(max(int(t.X(s.End)-t.Left)/10, 1)) // a column for each pixel
			t.FindRefusals()
			most = max(most, t.Ceiling(t.most()))
		}
	}
	names := canvas.Length(0) // above the plot of a side
	for _, t := range p.sides {
		if t.ceiling = most; t.Space != nil {
			names = max(names, t.Labels(70, t.peak, t.most(), t.ceiling, t.Width-100))
		}
	}
	height := (canvas.Length(p.o.Height)*10-top-underSides-stepsHeight(len(p.steps)))/2 - names - axis
	for _, t := range p.sides {
		t.named = top + 120
		t.Top = top + names
		t.Bottom = t.Top + height
		top = t.Bottom + axis
	}
}

// endOfScale returns the end of a side's horizontal scale. If both sides have the same
// kind of axis, both scales have the length of the longer window.
func (p *comparison) endOfScale(s *lifetime.Space) int64 {
	length := uint64(s.End) - uint64(s.Begin)
	for _, o := range p.sides {
		if o.Space != nil && o.Space.Axis == s.Axis {
			length = max(length, uint64(o.Space.End)-uint64(o.Space.Begin))
		}
	}
	if to := int64(uint64(s.Begin) + length); to > s.Begin {
		return to
	}
	return s.End // the sum overflows in damaged captures
}

// heading writes the verdict, and below it the space and how its peak changed.
func (p *comparison) heading() {
	left, y := p.sides[0].Left, canvas.Length(240)
	for _, line := range p.verdict {
		p.page.Text(canvas.Text{X: left, Y: y, Size: 16, Bold: true, S: line})
		y += 200
	}
	facts := canvas.Fit(p.pair.Name, canvas.TextSize, (p.sides[0].Width-left)/2)
	if p.pair.Before != nil && p.pair.After != nil {
		facts += " · peak " + cmp.Or(p.o.Peak, p.change())
	}
	p.page.Text(canvas.Text{X: left, Y: y - 10, Role: canvas.Dim, S: facts}.Fit(p.sides[0].Width - left - 160))
}

// drawSide draws a side. If marked, it also draws the peak before.
func (p *comparison) drawSide(t *timeline, marked bool) {
	width := t.Width - t.Left - 160
	file := canvas.Fit(t.file, canvas.TextSize+1, width-canvas.Width(t.word+" ", canvas.TextSize+1))
	t.Page.Text(canvas.Text{X: t.Left, Y: t.named, Bold: true, S: t.word, Aside: file})
	t.Sizes(t.ceiling, 400, t.height)
	if t.Space == nil {
		t.Page.Text(canvas.Text{X: (t.Left + t.Right) / 2, Y: (t.Top + t.Bottom) / 2, Anchor: canvas.Middle,
			Role: canvas.Dim, Halo: true, S: "not in this capture"})
		return
	}
	t.Upwards("bytes in use")
	t.draw(t.reserved, freeLook, freeLine, "")
	t.draw(t.occupied, heapLook, heapLine, t.word+": peak "+units.Exact(t.peak.Bytes))
	if marked {
		x, before := t.X(t.peak.At), t.level(p.pair.Before.Peak)
		pen := canvas.Pen{Role: canvas.Foreground, Width: 10, Dashed: true}
		t.Page.Stroke(canvas.Line(t.Left, before, t.Right, before), pen, []byte("peak before: "+units.Exact(p.pair.Before.Peak)))
		pen.Dashed = false
		t.Page.Stroke(canvas.Line(x, before, x, t.level(t.peak.Bytes)), pen, []byte("peak "+p.change()))
	}
	t.marks(p.legend(t, marked))
}

// legend returns a row for each curve of a side, with its highest value.
func (p *comparison) legend(t *timeline, marked bool) []plot.Row {
	rows := []plot.Row{{Look: heapLook, Name: "in use", Below: units.Bytes(t.peak.Bytes) + " at the peak"}}
	rows = append(rows, t.reservedRows()...)
	if marked {
		rows = append(rows, plot.Row{Look: canvas.Look{Role: canvas.Foreground}, Name: "peak before",
			Below: units.Bytes(p.pair.Before.Peak)})
	}
	return rows
}

// change returns the difference of the peaks as text.
func (p *comparison) change() string {
	if p.pair.Before.Peak == p.pair.After.Peak {
		return "unchanged"
	}
	return diff.Difference(p.pair.Before.Peak, p.pair.After.Peak)
}

func (p *comparison) explanation() string {
	words := map[lifetime.Axis]string{lifetime.Time: "time", lifetime.Event: "events", lifetime.ProgramOrder: "instructions"}
	before, after := cmp.Or(p.pair.Before, p.pair.After).Space.Axis, cmp.Or(p.pair.After, p.pair.Before).Space.Axis
	text := "Both sides share one scale of bytes and one of " + words[after]
	if before != after {
		text = "Both sides share one scale of bytes, but " + words[before] + " and " + words[after] + " have separate scales"
	}
	return text + columnNote
}

// lines breaks a text at spaces into at most most lines that fit the width at a font
// size in pixels. It cuts text that does not fit.
func lines(text string, size int, width canvas.Length, most int) (all []string) {
	line := ""
	var words []string
	for _, word := range strings.Fields(canvas.Cut(text, 400)) {
		if n := len(words) - 1; n >= 0 && isUnit(word) { // a number stays with its unit
			words[n] += " " + word
		} else {
			words = append(words, word)
		}
	}
	for i, word := range words {
		longer := strings.TrimPrefix(line+" "+word, " ")
		switch {
		case line == "" || canvas.Width(longer, size) <= width:
			line = longer
		case len(all) == most-1:
			rest := line + " " + strings.Join(words[i:], " ")
			return append(all, canvas.Fit(rest, size, width))
		default:
			all, line = append(all, canvas.Fit(line, size, width)), word
		}
	}
	return append(all, canvas.Fit(line, size, width))
}

// isUnit reports whether a word of a text, with what follows it, is a unit of bytes.
func isUnit(word string) bool {
	word = strings.TrimRight(word, ".,;:)")
	_, err := units.ParseBytes("1" + word)
	return err == nil && strings.HasSuffix(word, "B")
}
