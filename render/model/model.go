// Package model writes a whole capture as JSON: every buffer, value, region, mark, total, site, operation and
// loss of the model, under the model's own names.
//
// Its place in the pipeline: the last step, for programs that need the data instead of a picture. schema.json
// beside it is its JSON Schema. Bytes and times are integers. Numbers of sites and stacks are indexes into the
// lists of the document; 0 is none. Unknown values are null. Buffers are written one at a time, so that
// millions of them need no additional memory.
package model

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/loss"
)

type source struct {
	File     string `json:"file"`
	Format   string `json:"format"`
	Producer string `json:"producer"`

	Settings map[string]string `json:"settings"` // of the allocator
}

type frameRow struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"` // 0: not known
	Kind     string `json:"kind"`
}

// stack is a frame and the stack that called it.
type stack struct {
	Frame  lifetime.FrameID `json:"frame"`
	Caller lifetime.StackID `json:"caller"` // 0: none
}

type site struct {
	Stack       lifetime.StackID `json:"stack"`
	Op          string           `json:"op"`
	Module      string           `json:"module"`
	Region      string           `json:"region"`
	Shape       string           `json:"shape"`
	DType       string           `json:"dtype"`
	Instr       string           `json:"instr"`
	Opcode      string           `json:"opcode"`
	Split       string           `json:"split"`
	Copies      int64            `json:"copies"`
	Role        compiled.Role    `json:"role"`
	SourceStack lifetime.StackID `json:"source_stack"`
	Unseen      bool             `json:"unseen"` // allocated before the recording: the stack is that of the free
}

type space struct {
	ID           string   `json:"id"`
	Source       int      `json:"source"`
	Host         string   `json:"host"`
	Process      string   `json:"process"`
	Device       string   `json:"device"`
	Memory       string   `json:"memory"`
	Allocator    string   `json:"allocator"`
	Module       string   `json:"module"`
	Entry        string   `json:"entry"`
	Axis         string   `json:"axis"`
	Unit         string   `json:"unit"`
	Begin        int64    `json:"begin"`
	End          int64    `json:"end"`
	LimitBytes   *int64   `json:"limit_bytes"`
	BaseBytes    int64    `json:"base_bytes"`
	LifetimePeak *int64   `json:"lifetime_peak_bytes"`
	Allocations  int      `json:"allocations"`
	Frees        int      `json:"frees"`
	Facts        []string `json:"facts"`
}

type buffer struct {
	Begin     int64           `json:"begin"`
	End       int64           `json:"end"`
	Addr      uint64          `json:"addr"`
	Size      int64           `json:"size"`
	Requested int64           `json:"requested"`
	Site      lifetime.SiteID `json:"site"`
	Edges     []string        `json:"edges"`
	Kind      string          `json:"kind"`
	Value     *int64          `json:"value,omitempty"` // ID of the value that represents it
	FreeSite  lifetime.SiteID `json:"free_site,omitempty"`

	FreeRequested *int64 `json:"free_requested,omitempty"` // when the program freed it, if it ended later: other streams used it
	Note          string `json:"note,omitempty"`

	Name   string  `json:"name,omitempty"`    // in the program, of those alive at the end, if memlane's recorder wrote names
	HeldBy *holder `json:"held_by,omitempty"` // what keeps it alive

	// What it is for, of programs of PyTorch, as far as that is known.
	Category   string  `json:"category"` // "unknown": the capture does not tell it
	Phase      string  `json:"phase"`    // that allocated it
	Part       string  `json:"part"`     // of the phase; "": not known
	Module     string  `json:"module"`
	Inferred   bool    `json:"module_inferred"`     // by the order of calls
	How        string  `json:"category_how"`        // given, recorded, frames, lifetime, size or none
	Rule       string  `json:"category_rule"`       // that found the category
	Confidence float32 `json:"category_confidence"` // 0 to 1
}

// value is a logical buffer of a compiled program. If the schedule does not allocate it, it ends before it begins.
type value struct {
	ID         int64           `json:"id"`
	Root       int64           `json:"root"`
	Begin      int64           `json:"begin"`
	End        int64           `json:"end"`
	Allocation int64           `json:"allocation"`
	Offset     int64           `json:"offset"`
	Size       int64           `json:"size"`
	Requested  int64           `json:"requested"`
	Site       lifetime.SiteID `json:"site"`
}

type region struct {
	Begin  int64           `json:"begin"`
	End    int64           `json:"end"`
	Addr   uint64          `json:"addr"`
	Size   int64           `json:"size"`
	Site   lifetime.SiteID `json:"site"`
	Edges  []string        `json:"edges"`
	Kind   string          `json:"kind"`
	Small  bool            `json:"small"` // for PyTorch's requests up to 1 MiB
	Stream int64           `json:"stream"`
	Pool   string          `json:"pool"`
	Index  int64           `json:"index"`
	Uses   []string        `json:"uses"`
}

// level is the number of bytes from an instant on.
type level struct {
	At    int64 `json:"at"`
	Bytes int64 `json:"bytes"`
}

type total struct {
	T             int64    `json:"t"`
	Bytes         int64    `json:"bytes"`
	Measure       string   `json:"measure"`
	Fragmentation *float32 `json:"fragmentation"` // null if not reported, or if nothing is free
}

type mark struct {
	Begin     int64           `json:"begin"`
	End       int64           `json:"end"`
	Kind      string          `json:"kind"`
	Text      string          `json:"text"`
	Site      lifetime.SiteID `json:"site"`
	Requested *int64          `json:"requested"`        // of an OOM
	Free      *int64          `json:"free"`             // of an OOM
	Stream    int64           `json:"stream,omitempty"` // of an OOM: the stream of the request
}

// operation sums up the calls of an operation.
type operation struct {
	Name       string         `json:"name"`
	Kind       string         `json:"kind"`
	Calls      int64          `json:"calls"`
	TimeNS     int64          `json:"time_ns"`
	SelfTimeNS int64          `json:"self_time_ns"`
	Host       operationBytes `json:"host"`
	Device     operationBytes `json:"device"`
}

type operationBytes struct {
	Allocated int64 `json:"allocated"`
	Freed     int64 `json:"freed"`
	SelfBytes int64 `json:"self_bytes"`
}

// call is a call of a function, in seconds and bytes.
type call struct {
	Site      lifetime.SiteID `json:"site"`
	Space     int             `json:"space"`
	Begin     float64         `json:"begin"`
	End       float64         `json:"end"`
	Seconds   float64         `json:"seconds"`
	Before    int64           `json:"before_bytes"`
	After     int64           `json:"after_bytes"`
	Peak      int64           `json:"peak_bytes"`
	Reserved  int64           `json:"reserved_bytes"`
	Inactive  int64           `json:"inactive_bytes"`
	Allocated int64           `json:"allocated_bytes"`
	Freed     int64           `json:"freed_bytes"`
}

// sample is the state of a device at one time; -1 is not known.
type sample struct {
	Space       int   `json:"space"`
	T           int64 `json:"t"`
	Regular     bool  `json:"regular"`
	Allocated   int64 `json:"allocated_bytes"`
	Reserved    int64 `json:"reserved_bytes"`
	Inactive    int64 `json:"inactive_bytes"`
	DeviceUsed  int64 `json:"device_used_bytes"`
	DeviceTotal int64 `json:"device_total_bytes"`
}

type lossRow struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`
	First    string `json:"first"`
}

// Write writes c as one JSON document.
func Write(w io.Writer, c *lifetime.Capture) error {
	d := &document{w: bufio.NewWriter(w)}
	d.text(`{"schema":"memlane/1"`)
	list(d, "sources", c.Sources, func(s lifetime.Source) any { return source{s.File, s.Format, s.Producer, s.SettingsByKey()} })
	list(d, "frames", c.Frames, func(f frame.Frame) any { return frameRow{f.Function, f.File, f.Line, f.Column, f.Kind.String()} })
	list(d, "stacks", c.Stacks, func(s lifetime.Stack) any { return stack{s.Frame, s.Caller} })
	list(d, "sites", c.Sites, func(s lifetime.Site) any {
		return site{s.Stack, s.Op, s.Module, s.Region, s.Shape, s.DType, s.Instr, s.Opcode, s.Split, s.Copies, s.Role,
			s.Source, s.Unseen}
	})
	d.text(`,"spaces":[`)
	for i, s := range c.Spaces {
		if i > 0 {
			d.text(",")
		}
		d.space(c, s)
	}
	d.text("]")
	list(d, "operations", c.Operations, func(o lifetime.Operation) any {
		return operation{o.Name, o.Kind, o.Calls, o.Time, o.SelfTime, operationBytes(o.Host), operationBytes(o.Device)}
	})
	list(d, "calls", c.Calls, func(l lifetime.Call) any {
		return call{l.Site, l.Space, l.Begin, l.End, l.Seconds, l.Before, l.After, l.Peak, l.Reserved, l.Inactive, l.Allocated, l.Freed}
	})
	list(d, "samples", c.Samples, func(s lifetime.Sample) any {
		return sample{s.Space, s.T, s.Regular, s.Allocated, s.Reserved, s.Inactive, s.DeviceUsed, s.DeviceTotal}
	})
	list(d, "losses", c.Losses, func(l loss.Loss) any {
		return lossRow{l.Reason.String(), l.Reason.Class().String(), l.Count, l.Bytes, l.First}
	})
	d.text("}\n")
	if d.err != nil {
		return d.err
	}
	return d.w.Flush()
}

// document writes JSON piece by piece and keeps its first error.
type document struct {
	w   *bufio.Writer
	err error
}

func (d *document) text(s string) {
	if d.err == nil {
		_, d.err = d.w.WriteString(s)
	}
}

func (d *document) encode(v any) string {
	text, err := Marshal(v, "")
	d.err = cmp.Or(d.err, err)
	return strings.TrimSuffix(string(text), "\n")
}

// WriteJSON writes a value as indented JSON that is safe to print on a terminal.
func WriteJSON(w io.Writer, v any) error {
	text, err := Marshal(v, " ")
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Marshal returns a value as a line of JSON that is safe to print on a terminal. A non-empty indent spreads it over
// several lines.
func Marshal(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // keep names such as "<module>" readable
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return Escape(b.Bytes()), nil
}

// Escape returns JSON with every unprintable character as an escape sequence, so that names from captures
// cannot control a terminal: encoding/json does not escape DEL, C1 controls and direction marks. It also breaks
// up "##[", which GitHub's runner executes as a command anywhere in a log.
func Escape(data []byte) []byte {
	if bytes.Contains(data, []byte("##[")) {
		data = bytes.ReplaceAll(data, []byte("##["), []byte(`#\u0023[`))
	}
	if !slices.ContainsFunc(data, func(c byte) bool { return c > '~' || c < ' ' && c != '\n' }) { // nearly all
		return data
	}
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

// list writes a member of an object whose value is a list, one element per line.
func list[T any](d *document, name string, items []T, item func(T) any) {
	d.text(",\"" + name + "\":[")
	for i, v := range items {
		if d.err != nil {
			return // the reader is gone
		}
		if i > 0 {
			d.text(",")
		}
		d.text("\n")
		d.text(d.encode(item(v)))
	}
	d.text("]")
}

func (d *document) space(c *lifetime.Capture, s *lifetime.Space) {
	head := d.encode(space{
		ID: s.ID(), Source: s.Source, Host: s.Host, Process: s.Process, Device: s.Device, Memory: s.Memory, Allocator: s.Allocator,
		Module: s.Module, Entry: s.Entry, Axis: s.Axis.String(), Unit: s.Axis.Unit(), Begin: s.Begin, End: s.End,
		LimitBytes: known(s.Limit), BaseBytes: s.Base, LifetimePeak: known(s.LifetimePeak),
		Allocations: s.Allocations, Frees: s.Frees, Facts: s.Facts.Names(),
	})
	d.text("\n" + strings.TrimSuffix(head, "}")) // the lists of the space complete the object
	d.buffers(c, s)
	list(d, "values", s.Values, func(v lifetime.Value) any {
		return value{v.ID, v.Root, v.Begin, v.End, v.Allocation, v.Offset, v.Size, v.Requested, v.Site}
	})
	list(d, "regions", s.Regions, func(r lifetime.Region) any {
		return region{r.Begin, r.End, r.Addr, r.Size, r.Site, edges(r.Edge), r.Kind, r.Small, r.Stream, r.Pool, r.Index, r.Uses.Names()}
	})
	list(d, "stack", s.Stack, func(l lifetime.Level) any { return level{l.At, l.Bytes} })
	list(d, "totals", s.Totals, func(t lifetime.Total) any {
		return total{t.T, t.Bytes, t.Measure.String(), fragmentation(t)}
	})
	list(d, "marks", s.Marks, func(m lifetime.Mark) any {
		out := mark{Begin: m.Begin, End: m.End, Kind: m.Kind.String(), Text: m.Text, Site: m.Site}
		if m.Kind == lifetime.OOM {
			out.Requested = &m.Requested
			if free := m.Free.Or(0); m.Free.Known() {
				out.Free = &free
			}
			out.Stream = m.Stream
		}
		return out
	})
	d.text("}")
}

func (d *document) buffers(c *lifetime.Capture, s *lifetime.Space) {
	modules := layer.Of(&c.Tables)
	i := -1
	list(d, "buffers", s.Buffers, func(b lifetime.Buffer) any {
		i++
		out := buffer{
			Begin: b.Begin, End: b.End, Addr: b.Addr, Size: b.Size, Requested: b.Requested, Site: b.Site,
			Edges: edges(b.Edge), Kind: b.Kind.String(),
		}
		p := c.Purpose(s.PurposeOf(i))
		if out.Category = c.Category(&s.SpaceInfo, b.Kind, b.Site, s.PurposeOf(i)); s.Axis == lifetime.ProgramOrder ||
			out.Category == "" || p.IsOfSum() {
			out.Category = p.Alone() // the kind has a field of its own
		}
		out.Phase, out.Module = p.Phase.String(), cmp.Or(p.Module, modules.ModuleOf(b.Site, s.PurposeOf(i)))
		out.Part, out.Inferred = p.Part.String(), p.ModuleInferred
		out.How, out.Rule, out.Confidence = p.Evidence.String(), p.Rule, p.Confidence
		if s.ValueIDs != nil {
			out.Value = &s.ValueIDs[i]
		}
		if s.FreeSites != nil {
			out.FreeSite = s.FreeSites[i]
		}
		if s.FreeRequests != nil && s.FreeRequests[i] < b.End {
			out.FreeRequested = &s.FreeRequests[i]
		}
		if s.BufNotes != nil {
			out.Note = c.Notes[s.BufNotes[i]]
		}
		if h := c.HolderOf(s, i); h != nil {
			out.Name, out.HeldBy = h.Label(), &holder{h.Kind.String(), h.By(), h.Where, h.Container, h.Node, h.Others}
		}
		return out
	})
}

// holder is what keeps a buffer alive.
type holder struct {
	Kind      string `json:"kind"`      // variable, graph, cycle or unreached
	By        string `json:"by"`        // the reference, the graph or the cycle
	Where     string `json:"where"`     // module or call in which the reference begins
	Container string `json:"container"` // class of the list or dict that it leads through
	Node      string `json:"node"`      // of a graph: the node that saved it, and as what
	Others    int64  `json:"others"`    // further references that were found
}

// known returns nil for 0, which stands for an unknown number.
func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// fragmentation returns the fragmentation of a total, or nil if JSON cannot represent it.
func fragmentation(t lifetime.Total) *float32 {
	if f := float64(t.Fragmentation); !t.HasFragmentation || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &t.Fragmentation
}

func edges(e lifetime.Edge) []string {
	if e == 0 {
		return []string{}
	}
	return strings.Split(e.String(), "+")
}
