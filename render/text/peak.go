package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// maxRows is the maximum number of rows of a table.
const maxRows = 20

// Peaks writes the memory of spaces at a moment, by place.
func Peaks(w io.Writer, a *answer.Peaks, s Style) error {
	p := NewPage(s)
	advised := ""
	for i := range a.Peaks {
		if i > 0 {
			p.Line("")
		}
		k := &a.Peaks[i]
		p.peak(k, a.By)
		if a.By == string(selection.ByLine) && unknownOlder(k) > 0 && k.NameOlder != advised {
			advised = k.NameOlder
			p.Line("%s", advised)
		}
		if len(k.Categories) > 0 && k.Program == nil && a.By != string(selection.ByCategory) {
			p.Line("")
			p.Para("by category: ", "  ", PartsText(k.Parts))
		}
		if len(k.HeldBy) > 0 && a.By != string(selection.ByHolder) {
			p.Para("held by: ", "  ", partsText(k.HeldBy))
		}
		p.savings(k)
	}
	return p.To(w)
}

// savings writes what would lower a peak, and what it lowers.
func (p *Page) savings(k *answer.Peak) {
	if len(k.Savings) == 0 {
		return
	}
	if k.Unchanged != nil {
		p.Para("", "  ", Unchanged(k.Unchanged))
	}
	p.Para("", "  ", "what would lower "+map[bool]string{true: "the peak", false: "that"}[k.Unchanged == nil]+", the cheapest first"+map[bool]string{true: "; " + answer.Scope}[k.Unfinished])
	for n := range k.Savings {
		peak, change := Saving(&k.Savings[n])
		p.Para("  ", "    ", peak+" with "+change+". "+Printable(k.Savings[n].Advice))
	}
}

// OfCapacity tells how much of a capacity is in use: "96.9 % of the capacity of 64.0 MiB, 2.00 MiB below it". What is
// left is told only if it is the smaller part: rounded, it would else look like the capacity.
func OfCapacity(used, capacity int64) string {
	share := Percent(float64(used) / float64(capacity))
	if used > 0 && float64(used) < 0.0005*float64(capacity) {
		share = "less than 0.1 %"
	}
	text := share + " of the capacity of " + units.Bytes(capacity)
	switch left := capacity - used; {
	case left < 0:
		return text + ", " + units.Bytes(-left) + " above it"
	case left <= used:
		return text + ", " + units.Bytes(left) + " below it"
	}
	return text
}

func (p *Page) peak(k *answer.Peak, by string) {
	if k.Unknown {
		p.Line("%s %s\nthe memory in use was not recorded", Printable(k.File), Printable(k.Space))
		return
	}
	rose, in := map[bool]string{true: "rose by "}[rose(k)], map[bool]string{false: " in " + units.Plural(k.Total.Count, "buffer")}[k.UsageOnly]
	p.Line("%s %s\n%s%s%s at %s", Printable(k.File), Printable(k.Space), rose, units.Exact(k.Total.Bytes), in, When(k.Of, k.At))
	if k.UsageOnly {
		p.Line("%s", usageOnly)
	}
	byLayer := by == string(selection.ByLayer) && len(k.Layers) > 0 && len(k.Categories) > 0
	if k.Program != nil && !byLayer {
		p.instructions(k)
		return
	}
	if k.Limit > 0 {
		p.Line("%s", OfCapacity(k.Total.Bytes, k.Limit))
	}
	if byLayer {
		p.layers(k)
		return
	}
	if !k.UsageOnly {
		p.places(k, by)
	}
	if by == string(selection.ByPhase) && len(k.PhasePeaks) > 0 {
		p.phases(k)
	}
}

// layerColumns are the categories that a table of layers shows, and what it calls them.
var layerColumns = [...]struct{ category, title string }{
	{purpose.Activation.String(), "kept"}, {purpose.TemporaryData.String(), "transient"}, {purpose.Gradient.String(), "grads"},
	{purpose.ModelParameter.String(), "weights"}, {purpose.OptimizerState.String(), "optimizer"},
}

// layers writes a table of layers by category, largest first.
func (p *Page) layers(k *answer.Peak) {
	var head []string
	for _, c := range layerColumns {
		head = append(head, c.title)
	}
	row := func(bytes int64, of func(category string) int64, name string) []string {
		cells, other := []string{units.Bytes(bytes)}, bytes
		for _, c := range layerColumns {
			n := of(c.category)
			cells, other = append(cells, size(n)), other-n
		}
		return append(cells, size(other), name)
	}
	shown := k.Layers[:min(len(k.Layers), maxRows)]
	rest := k.Layers[len(shown):]
	rows := [][]string{}
	for i := range shown {
		name := Printable(shown[i].Name)
		if name == purpose.UnknownCategory.String() {
			name = "(no layer)"
		}
		rows = append(rows, row(shown[i].Bytes, shown[i].Of, name))
	}
	if len(rest) > 0 {
		sum := func(of func(l *answer.Layer) int64) (n int64) {
			for i := range rest {
				n = units.AddSat(n, of(&rest[i]))
			}
			return n
		}
		rows = append(rows, row(sum(func(l *answer.Layer) int64 { return l.Bytes }), func(category string) int64 {
			return sum(func(l *answer.Layer) int64 { return l.Of(category) })
		}, more(len(rest), "layer")))
	}
	p.Table(append(append([]string{"bytes"}, head...), "other", "layer"), rows)
}

// phases writes the peak of each phase, and what it leaves behind.
func (p *Page) phases(k *answer.Peak) {
	p.Line("")
	p.Line("each phase: its peak, and the most that a run of it allocated and left behind")
	var rows [][]string
	for i := range k.PhasePeaks {
		o := &k.PhasePeaks[i]
		left := ": " + partsText(o.Left[:min(len(o.Left), 2)])
		rows = append(rows, []string{units.Bytes(o.PeakBytes), size(o.LeftBytes), units.Count(o.Runs), strings.TrimSuffix(o.Name()+left, ": ")})
	}
	p.Table([]string{"peak", "leaves", "runs", "phase: what it leaves"}, rows)
}

// places writes a table of places, largest first.
func (p *Page) places(k *answer.Peak, by string) {
	figures := func(a lifetime.Amount) []string {
		return []string{units.Bytes(a.Bytes), shareOf(a.Bytes, k.Total.Bytes), dash(a.Count, units.Count)}
	}
	head := []string{"bytes", "share", "buffers", "allocated by"}
	if by != string(selection.ByLine) {
		head[3] = by
	}
	shown := k.Places[:min(len(k.Places), maxRows)]
	outer := outerCalls(shown) // of other names there are none
	var rows [][]string
	for i, o := range shown {
		name := o.Name
		if inner, isOuter := strings.CutSuffix(name, outer); isOuter && outer != "" {
			name = inner + arrow + "..."
		}
		rows = append(rows, append(figures(o.Amount), Printable(name)))
		if i < pathsOf {
			rows = append(rows, pathRows(&o, figures)...)
		}
		if o.Name == lifetime.BeforeWindow {
			rows = append(rows, olderRows(k.Older, figures)...)
		}
	}
	if n := len(k.Places) - len(shown); n > 0 {
		rows = append(rows, append(figures(rest(k.Places[len(shown):])), more(n, "place")))
	}
	p.Table(head, rows)
	if outer != "" {
		for i, line := range callLines("... is "+strings.TrimPrefix(outer, arrow), p.width, p.width-len(below)) {
			p.Line("%s%s", below[:len(below)*min(i, 1)], Printable(line))
		}
	}
}

// outerCalls returns the outermost calls that all stacks have, if there are several with calls: " ← main (train.py:9) ← <module> (train.py:12)".
func outerCalls(stacks []answer.Place) string {
	var callers []string
	for _, o := range stacks {
		if i := strings.Index(o.Name, arrow); i >= 0 {
			callers = append(callers, o.Name[i:])
		}
	}
	if len(callers) < 2 {
		return ""
	}
	shared := callers[0]
	for shared != arrow && slices.ContainsFunc(callers, func(c string) bool { return !strings.HasSuffix(c, shared) }) {
		_, rest, _ := strings.Cut(shared[len(arrow):], arrow)
		shared = arrow + rest
	}
	if strings.Count(shared, arrow) < 2 {
		return ""
	}
	return shared
}

// pathsOf is the number of places whose call paths are shown, and maxPaths the number of paths of each. maxOlder is the number of sizes that
// were allocated before the recording.
const (
	pathsOf  = 5
	maxPaths = 3
	maxOlder = 6
)

// pathRows returns rows for the call paths to a place.
func pathRows(of *answer.Place, figures func(lifetime.Amount) []string) [][]string {
	return inside(len(of.Paths), maxPaths, "via ", "other call path", figures, func(i int) (lifetime.Amount, string) {
		return of.Paths[i].Amount, strings.Join(of.Paths[i].Callers, arrow)
	})
}

// olderRows returns rows for what was allocated before the recording, by size and category.
func olderRows(older []answer.Part, figures func(lifetime.Amount) []string) [][]string {
	return inside(len(older), maxOlder, "", "other size", figures, func(i int) (lifetime.Amount, string) {
		o := &older[i]
		text := units.Bytes(o.Bytes / o.Count)
		if o.Count > 1 {
			text += " each"
		}
		if o.Name != purpose.UnknownCategory.String() {
			text += ", " + purpose.Words(o.Name)
		}
		return lifetime.Amount{Bytes: o.Bytes, Count: o.Count}, text
	})
}

// inside returns rows for the largest of n parts of a place, and one for the others.
func inside(n, most int, before, others string, figures func(lifetime.Amount) []string, part func(i int) (lifetime.Amount, string)) (rows [][]string) {
	if n == most+1 {
		most++ // no longer than a line about the other one
	}
	sum := lifetime.Amount{}
	for i := range n {
		of, text := part(i)
		if i < most {
			rows = append(rows, append(figures(of), "  "+before+Printable(text)))
		} else {
			sum.Add(of)
		}
	}
	if n > most {
		rows = append(rows, append(figures(sum), "  "+before+units.Plural(n-most, others)))
	}
	return rows
}

func rest(places []answer.Place) (sum lifetime.Amount) {
	for _, o := range places {
		sum.Add(o.Amount)
	}
	return sum
}

// instructions writes the places of a compiled program, two lines per row.
func (p *Page) instructions(k *answer.Peak) {
	o := k.Program
	total := o.Inputs + o.Outputs + o.Temporaries + o.Constants + o.Unsorted
	unsorted := map[bool]string{true: ", unknown " + units.Bytes(o.Unsorted)}[o.Unsorted > 0]
	if o.Planned > 0 {
		p.Line("reserved %s, with fragmentation", units.Exact(o.Planned))
	}
	donated := map[bool]string{true: fmt.Sprintf(" (%s donated)", units.Bytes(o.Donated))}[o.Donated > 0]
	p.Para("", "  ", fmt.Sprintf("inputs %s%s, outputs %s, temporaries %s, constants %s%s", units.Bytes(o.Inputs),
		donated, units.Bytes(o.Outputs), units.Bytes(o.Temporaries), units.Bytes(o.Constants), unsorted))
	p.Line("padding %s, %s of the total", units.Bytes(o.Padding), shareOf(o.Padding, total))
	if o.Replicated > 0 {
		p.Para("", "  ",
			fmt.Sprintf("replicated: several devices have copies of %s of inputs and outputs; sharded over these devices, %s at best",
				units.Bytes(o.Replicated), units.Bytes(o.Parted)))
	}
	row := func(bytes, share, padding, category, text string) {
		line := fmt.Sprintf("%10s  %7s  %8s  %-15s  ", bytes, share, padding, category)
		p.Line("%s", strings.TrimRight(line+shorten.Name(text, p.width-len(line)), " "))
	}
	figures := func(a lifetime.Amount, category, text string) {
		row(units.Bytes(a.Bytes), shareOf(a.Bytes, k.Total.Bytes), size(a.Bytes-a.Requested), category, text)
	}
	row("bytes", "share", "padding", "category", "shape, instruction, source")
	shown := k.Places[:min(len(k.Places), maxRows)]
	for _, o := range shown {
		shape := Printable(o.Shape)
		switch {
		case o.Shapes > 1:
			shape = fmt.Sprintf("largest of %d: %s", o.Shapes, shape)
		case o.Count > 1:
			shape = units.Count(o.Count) + " x " + shape
		}
		figures(o.Amount, o.Category, shape)
		p.Line("%12s%s", "", instruction(o.Instruction, p.width-12))
	}
	if n := len(k.Places) - len(shown); n > 0 {
		figures(rest(k.Places[len(shown):]), "", units.Plural(n, "more place"))
	}
}

// instruction returns "fusion.3 jit(step)/mlp/dot_general train.py:42". If this is wider
// than width, the operation loses its middle.
func instruction(i answer.Instruction, width int) string {
	name, place := shorten.Name(Printable(i.Name), 30), Printable(i.Place)
	text := name
	if i.Op != "" {
		text = strings.TrimLeft(text+" "+shorten.Name(Printable(i.Op), max(width-len([]rune(name+place+i.Sharding.String()))-4, leastText)), " ")
	}
	if place != "" {
		text += " " + place
	}
	if s := i.Sharding.String(); s != "" {
		text += ", " + Printable(s)
	}
	return text
}
