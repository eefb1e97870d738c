package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// maxRows is how many rows a table for people has.
const maxRows = 20

func printPeak(w io.Writer, capture *lifetime.Capture, s *lifetime.Space, at int64) {
	total, rows := placesAt(capture, s, at)
	in := " in " + count(total.Count, "buffer")
	if s.UsageOnly() {
		in = ""
	}
	fmt.Fprintf(w, "%s %s\n%s%s at %s\n", printable(capture.Sources[s.Source].File), printable(s.ID()), units.Exact(total.Bytes), in, sinceBegin(s, at))
	shown, rest := rows[:min(len(rows), maxRows)], lifetime.Amount{}
	for _, r := range rows[len(shown):] {
		rest.Add(r.Amount)
	}
	more := ""
	if n := len(rows) - len(shown); n > 0 {
		more = count(n, "more place") + " (--json has them all)"
	}
	if static(s) {
		printKinds(w, s, at)
		printInstructions(w, capture, s, shown, total.Bytes, rest, more)
	} else {
		printRoom(w, s, at, total.Bytes)
		printPlaces(w, shown, total.Bytes, rest, more)
	}
}

// printRoom says how much was left of a limit, and in which shape.
func printRoom(w io.Writer, s *lifetime.Space, at, used int64) {
	if s.Limit == 0 {
		return
	}
	fmt.Fprintf(w, "%s less than the limit of %s\n", units.Bytes(s.Limit-used), units.Bytes(s.Limit))
	if share := fragmentationAt(s, at); share != nil {
		fmt.Fprintf(w, "%s of the allocator's free bytes lie outside the largest hole\n", percent(*share))
	}
}

// maxPlace is how wide the name of a place gets beside its figures.
const maxPlace = 47

// printPlaces writes a table of rows, and rest as its last line when more names
// it.
func printPlaces(w io.Writer, rows []placeRow, total int64, rest lifetime.Amount, more string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(a lifetime.Amount, name string) {
		fmt.Fprintf(t, "%s\t%s\t%s\t  %s\n", units.Bytes(a.Bytes), percent(share(a.Bytes, total)), units.Count(a.Count), cutMiddle(name, maxPlace))
	}
	fmt.Fprintf(t, "bytes\tshare\tbuffers\t  allocated by\n")
	for _, r := range rows {
		row(r.Amount, r.name)
	}
	if more != "" {
		row(rest, more)
	}
	t.Flush()
}

// printKinds splits the memory of a compiled program up by what it is for.
func printKinds(w io.Writer, s *lifetime.Space, at int64) {
	rows := s.Breakdown(at)
	k := kindsOf(rows)
	total := k.inputs + k.outputs + k.temporaries + k.constants
	padding := paddingAt(s, at)
	fmt.Fprintf(w, "inputs %s, outputs %s, temporaries %s, constants %s\npadding %s of it, %s\n", units.Bytes(k.inputs), units.Bytes(k.outputs),
		units.Bytes(k.temporaries), units.Bytes(k.constants), units.Bytes(padding), percent(share(padding, total)))
}

// lineWidth is how wide the two lines of an instruction get.
const lineWidth = 80

// printInstructions is printPlaces for a compiled program: two lines a row.
func printInstructions(w io.Writer, capture *lifetime.Capture, s *lifetime.Space, rows []placeRow, total int64, rest lifetime.Amount, more string) {
	shared := laterValues(capture, s)
	row := func(bytes, share, padding, kind, text string) {
		line := fmt.Sprintf("%10s  %7s  %8s  %-9s  ", bytes, share, padding, kind)
		fmt.Fprintln(w, line+cutMiddle(text, lineWidth-len(line)))
	}
	figures := func(a lifetime.Amount, kind, text string) {
		row(units.Bytes(a.Bytes), percent(share(a.Bytes, total)), sizeText(a.Bytes-a.Requested), kind, text)
	}
	row("bytes", "share", "padding", "kind", "shape, instruction, source")
	for _, r := range rows {
		shape := printable(capture.Sites[r.site].Shape)
		if r.Count > 1 {
			shape = units.Count(r.Count) + " x " + shape
		}
		figures(r.Amount, r.kind.String(), shape)
		fmt.Fprintf(w, "%12s%s\n", "", instruction(capture, r.site, lineWidth-12))
		if later, ok := shared[r.site]; ok && instructionOnly(capture, r.site) {
			fmt.Fprintf(w, "%12sthen %s\n", "", instruction(capture, later, lineWidth-17))
		}
	}
	if more != "" {
		figures(rest, "", more)
	}
}

// laterValues returns, by the site of a buffer, that of the last value in its
// memory of which the operation is known. The value that stands for a buffer is
// the first of the largest, as in XProf, which may be one that the compiler
// inserted; the last one of an output is the program's result.
func laterValues(capture *lifetime.Capture, s *lifetime.Space) map[lifetime.SiteID]lifetime.SiteID {
	sites := map[int64]lifetime.SiteID{} // of buffers, by value
	for i, id := range s.ValueIDs {
		sites[id] = s.Buffers[i].Site
	}
	later := map[lifetime.SiteID]lifetime.SiteID{}
	for i := range s.Values {
		v := &s.Values[i]
		if site, ok := sites[v.Root]; ok && v.ID != v.Root && !instructionOnly(capture, v.Site) {
			later[site] = v.Site
		}
	}
	return later
}

// instructionOnly reports whether nothing but the name of an instruction is known
// of a site.
func instructionOnly(capture *lifetime.Capture, site lifetime.SiteID) bool {
	return capture.Sites[site].Op == "" && sourcePlace(capture, site) == ""
}

// instruction names the instruction that a buffer is a result of: "fusion.3
// jit(step)/mlp/dot_general train.py:42". Where that is wider than width, the
// operation loses its middle.
func instruction(capture *lifetime.Capture, id lifetime.SiteID, width int) string {
	site := &capture.Sites[id]
	name := cutMiddle(printable(site.Instr), 30)
	place := sourcePlace(capture, id)
	text := name
	if op := printable(site.Op); op != "" {
		text += " " + cutMiddle(op, max(width-len([]rune(name+place))-2, 16))
	}
	if place != "" {
		text += " " + place
	}
	return text
}

// placeRow is the buffers of all stacks with the same innermost function of
// the program; in a compiled program also of one kind and shape.
type placeRow struct {
	name string
	kind lifetime.Kind
	site lifetime.SiteID // the largest one
	lifetime.Amount
}

func placesAt(capture *lifetime.Capture, s *lifetime.Space, at int64) (total lifetime.Amount, rows []placeRow) {
	type key struct {
		name, shape string
		kind        lifetime.Kind
	}
	index := map[key]int{}
	for _, r := range s.Breakdown(at) {
		k := key{name: siteName(capture, s, r.Site), kind: r.Kind}
		switch {
		case r.Kind == lifetime.FromBase:
			k.name = beforeWindow
		case r.Kind == lifetime.FromStack:
			k.name = stackRow + ", beside the heap"
		case r.Kind == lifetime.FromUsage:
			k.name = "(not told one by one)"
		case static(s):
			k.shape = capture.Sites[r.Site].Shape
		}
		i, ok := index[k]
		if !ok {
			i = len(rows)
			index[k] = i
			rows = append(rows, placeRow{name: k.name, kind: k.kind, site: r.Site})
		}
		total.Add(r.Amount)
		rows[i].Add(r.Amount)
	}
	slices.SortStableFunc(rows, func(x, y placeRow) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.name, y.name))
	})
	return total, rows
}
