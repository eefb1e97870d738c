// Package model writes a whole capture as JSON: every buffer, region, mark,
// total, site and loss of the model, under the model's own names.
//
// Its place in the pipeline: the last step, for programs that want the data
// and not a picture. Bytes and times are integers; numbers of sites and stacks
// are indexes into the lists of the document, 0 is none; what is not known is
// null. Spaces are written one buffer at a time, so that millions of them need
// no memory of their own.
package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/memlane/memlane/lifetime"
)

type source struct {
	File     string `json:"file"`
	Format   string `json:"format"`
	Producer string `json:"producer"`
}

type frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Kind     string `json:"kind"`
}

type site struct {
	Stack  lifetime.StackID `json:"stack"`
	Op     string           `json:"op"`
	Module string           `json:"module"`
}

type space struct {
	ID          string   `json:"id"`
	Source      int      `json:"source"`
	Device      string   `json:"device"`
	Axis        string   `json:"axis"`
	Unit        string   `json:"unit"`
	Begin       int64    `json:"begin"`
	End         int64    `json:"end"`
	LimitBytes  *int64   `json:"limit_bytes"`
	BaseBytes   int64    `json:"base_bytes"`
	Allocations int      `json:"allocations"`
	Frees       int      `json:"frees"`
	Facts       []string `json:"facts"`
}

type buffer struct {
	Begin     int64           `json:"begin"`
	End       int64           `json:"end"`
	Addr      uint64          `json:"addr"`
	Size      int64           `json:"size"`
	Requested int64           `json:"requested"`
	Site      lifetime.SiteID `json:"site"`
	Edges     []string        `json:"edges"`
	FreeSite  lifetime.SiteID `json:"free_site,omitempty"`
	Note      string          `json:"note,omitempty"`
}

type region struct {
	Begin  int64           `json:"begin"`
	End    int64           `json:"end"`
	Addr   uint64          `json:"addr"`
	Size   int64           `json:"size"`
	Site   lifetime.SiteID `json:"site"`
	Edges  []string        `json:"edges"`
	Kind   string          `json:"kind"`
	Stream int64           `json:"stream"`
	Pool   string          `json:"pool"`
}

type total struct {
	T       int64  `json:"t"`
	Bytes   int64  `json:"bytes"`
	Measure string `json:"measure"`
}

type mark struct {
	Begin     int64           `json:"begin"`
	End       int64           `json:"end"`
	Kind      string          `json:"kind"`
	Text      string          `json:"text"`
	Site      lifetime.SiteID `json:"site"`
	Requested *int64          `json:"requested"` // of an OOM
	Free      *int64          `json:"free"`      // of an OOM
}

type loss struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`
	First    string `json:"first"`
}

// Write writes c as one JSON document.
func Write(w io.Writer, c *lifetime.Capture) error {
	d := &document{w: bufio.NewWriter(w)}
	d.encoder = json.NewEncoder(&d.encoded)
	d.encoder.SetEscapeHTML(false) // "<module>" is no tag here
	d.text(`{"schema":"memlane/1"`)
	list(d, "sources", c.Sources, func(s lifetime.Source) any { return source{s.File, s.Format, s.Producer} })
	list(d, "frames", c.Frames, func(f lifetime.Frame) any { return frame{f.Function, f.File, f.Line, f.Kind.String()} })
	list(d, "stacks", c.Stacks, func(s []lifetime.FrameID) any { return append([]lifetime.FrameID{}, s...) })
	list(d, "sites", c.Sites, func(s lifetime.Site) any { return site{s.Stack, s.Op, s.Module} })
	d.text(`,"spaces":[`)
	for i, s := range c.Spaces {
		if i > 0 {
			d.text(",")
		}
		d.space(c, s)
	}
	d.text("]")
	list(d, "losses", c.Losses, func(l lifetime.Loss) any {
		return loss{l.Reason.String(), l.Reason.Severity().String(), l.Count, l.Bytes, l.First}
	})
	d.text("}\n")
	if d.err != nil {
		return d.err
	}
	return d.w.Flush()
}

// document keeps the first error of writing.
type document struct {
	w   *bufio.Writer
	err error

	encoder *json.Encoder // into encoded
	encoded bytes.Buffer
}

func (d *document) text(s string) {
	if d.err == nil {
		_, d.err = d.w.WriteString(s)
	}
}

func (d *document) value(v any) { d.text(d.encode(v)) }

func (d *document) encode(v any) string {
	d.encoded.Reset()
	if err := d.encoder.Encode(v); d.err == nil {
		d.err = err
	}
	return string(Escape(bytes.TrimSuffix(d.encoded.Bytes(), []byte("\n"))))
}

// Escape returns JSON in which every character that does not print is an escape
// sequence: names from captures must not act on a terminal that shows them.
// encoding/json leaves DEL, the C1 controls and marks of direction as they are.
func Escape(data []byte) []byte {
	if !bytes.ContainsFunc(data, hidden) {
		return data
	}
	var out []byte
	for _, r := range string(data) {
		switch high, low := utf16.EncodeRune(r); {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// list writes a member of an object, one element a line.
func list[T any](d *document, name string, items []T, item func(T) any) {
	d.text(",\"" + name + "\":[")
	for i, v := range items {
		if i > 0 {
			d.text(",")
		}
		d.text("\n")
		d.value(item(v))
	}
	d.text("]")
}

func (d *document) space(c *lifetime.Capture, s *lifetime.Space) {
	var limit *int64
	if s.Limit != 0 {
		limit = &s.Limit
	}
	head := d.encode(space{s.ID(), s.Source, s.Device, s.Axis.String(), s.Axis.Unit(), s.Begin, s.End, limit, s.Base,
		s.Allocations, s.Frees, s.Facts.Names()})
	d.text("\n" + strings.TrimSuffix(head, "}")) // the lists of the space follow
	i := -1
	list(d, "buffers", s.Buffers, func(b lifetime.Buffer) any {
		i++
		out := buffer{Begin: b.Begin, End: b.End, Addr: b.Addr, Size: b.Size, Requested: b.Requested, Site: b.Site, Edges: edges(b.Edge)}
		if s.FreeSites != nil {
			out.FreeSite = s.FreeSites[i]
		}
		if s.BufNotes != nil {
			out.Note = c.Notes[s.BufNotes[i]]
		}
		return out
	})
	list(d, "regions", s.Regions, func(r lifetime.Region) any {
		return region{r.Begin, r.End, r.Addr, r.Size, r.Site, edges(r.Edge), r.Kind, r.Stream, r.Pool}
	})
	list(d, "totals", s.Totals, func(t lifetime.Total) any { return total{t.T, t.Bytes, t.Measure.String()} })
	list(d, "marks", s.Marks, func(m lifetime.Mark) any {
		out := mark{Begin: m.Begin, End: m.End, Kind: m.Kind.String(), Text: m.Text, Site: m.Site}
		if m.Kind == lifetime.OOM {
			out.Requested = &m.Requested
			if m.Free >= 0 {
				out.Free = &m.Free
			}
		}
		return out
	})
	d.text("}")
}

func edges(e lifetime.Edge) []string {
	if e == 0 {
		return []string{}
	}
	return strings.Split(e.String(), "+")
}
