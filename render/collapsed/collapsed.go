// Package collapsed writes the buffers alive at the peak as folded stacks, the input of flamegraph.pl,
// speedscope and inferno. Each line is a stack from the outermost call to the innermost one, joined by ";",
// then a blank and the bytes.
//
// Its place in the pipeline: the last step. Each space is the bottom frame of its lines, which sum to its own
// peak of occupied bytes. Bytes that no buffer represents have separate lines: [before the window], [stack] and
// [usage]. A frame is "function (file.py:12)". For a buffer without a stack, the operation replaces it.
//
// Text from captures is cleaned: characters that would end a frame or a line, or control a terminal, become "_".
package collapsed

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// Write writes the spaces of c, in order, the largest stacks first.
func Write(w io.Writer, c *lifetime.Capture) error {
	out := bufio.NewWriter(w)
	for _, s := range c.Spaces {
		space := clean(cmp.Or(s.ID(), "(unnamed)"))
		for _, row := range merged(c, s.Breakdown(s.Peak(lifetime.Occupied).At)) {
			if row.Bytes != 0 {
				// bufio keeps the first error until Flush.
				fmt.Fprintf(out, "%s;%s %d\n", space, frames(c, &row), row.Bytes)
			}
		}
	}
	return out.Flush()
}

// merged sums rows with equal stacks, in order of their first row.
func merged(c *lifetime.Capture, rows []lifetime.Row) []lifetime.Row {
	type key struct {
		stack  lifetime.StackID
		unseen bool
		op     string
	}
	index := map[key]int{}
	var out []lifetime.Row
	for _, row := range rows {
		site := &c.Sites[row.Site]
		k := key{stack: site.Stack, unseen: site.Unseen}
		if site.Stack == 0 {
			k.op = cmp.Or(site.Op, site.Instr)
		}
		i, ok := index[k]
		if other := !row.Kind.OfBuffers(); ok && !other {
			out[i].Add(row.Amount)
			continue
		} else if !other {
			index[k] = len(out)
		}
		out = append(out, row)
	}
	return out
}

// frames returns the stack of a row.
func frames(c *lifetime.Capture, row *lifetime.Row) string {
	site := &c.Sites[row.Site]
	switch {
	case !row.Kind.OfBuffers():
		return "[" + row.Kind.String() + "]"
	case site.Unseen:
		return clean(c.PlaceOf(row.Site).String())
	case site.Stack == 0:
		return clean(cmp.Or(site.Op, site.Instr, "[no stack recorded]"))
	}
	var names []string
	calls, cut := c.Innermost(nil, site.Stack)
	for _, id := range calls {
		f := &c.Frames[id]
		switch f.Kind {
		case frame.Interpreter, frame.Plumbing, frame.Unwinder: // dozens on every stack of an "all" recording
			continue
		}
		if name := f.String(); f.Function != "" {
			names = append(names, clean(name))
		} else {
			names = append(names, clean("[unknown function] ("+name+")"))
		}
	}
	if cut {
		names = append(names, frame.OuterCalls)
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ';' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}
