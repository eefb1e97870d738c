package perfetto

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/model"
)

// Write writes c as one JSON document.
func Write(w io.Writer, c *lifetime.Capture) error {
	t := &trace{out: bufio.NewWriterSize(w, 64<<10), capture: c, frames: make([]string, len(c.Frames)), origin: math.MaxInt64}
	for _, s := range c.Spaces {
		if s.Axis == lifetime.Time {
			t.origin = min(t.origin, s.Begin)
		}
	}
	t.text(`{"displayTimeUnit":"ns","otherData":{"producer":"memlane"`)
	if t.origin != math.MaxInt64 { // a text: it may be more than a number of JSON can tell
		t.text(`,"origin_ns":"` + strconv.FormatInt(t.origin, 10) + `"`)
	}
	t.text(`},"traceEvents":[`)
	for i, s := range c.Spaces {
		t.space(i+1, s) // 0 is the process of no name
	}
	t.text("\n]}\n")
	return t.out.Flush()
}

// trace writes the events of a capture. An error stays with out until it is
// flushed.
type trace struct {
	out     *bufio.Writer
	capture *lifetime.Capture
	frames  []string // as they stand in a stack, without quotes; "" where not used yet
	origin  int64    // time 0 of what is on a clock
	some    bool     // an event was written
	ids     int      // of asynchronous slices so far

	// Of the space at hand.
	pid  int
	zero int64 // its time 0
	unit uint64
}

func (t *trace) text(s string) { t.out.WriteString(s) }

// quoted returns s as JSON text that a terminal can show.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text can be encoded, and a buffer written
	return string(model.Escape(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
}

// event writes what all events begin with; more follows.
func (t *trace) event(phase string, at int64, name string) {
	if t.some {
		t.text(",")
	}
	t.some = true
	fmt.Fprintf(t.out, "\n{\"ph\":%q,\"pid\":%d,\"tid\":%d,\"ts\":%s,\"name\":%s", phase, t.pid, t.pid, t.microseconds(at), name)
}

// microseconds returns the timestamp of an instant. Spans of damaged captures
// may be more than an int64 tells.
func (t *trace) microseconds(at int64) string {
	n := uint64(max(at, t.zero)) - uint64(t.zero) // a mark may begin before its window
	if t.unit == 1000 {
		return strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

func (t *trace) space(pid int, s *lifetime.Space) {
	t.pid, t.zero, t.unit = pid, s.Begin, 1000
	if s.Axis == lifetime.Time {
		t.zero, t.unit = t.origin, 1
	}
	name := cmp.Or(s.ID(), "(unnamed)")
	if s.Axis != lifetime.Time {
		name += " (1 µs: 1 " + s.Axis.Unit() + ")"
	}
	t.event("M", t.zero, `"process_name"`)
	t.text(`,"args":{"name":` + quoted(name) + "}}")
	t.event("M", t.zero, `"process_sort_index"`)
	fmt.Fprintf(t.out, `,"args":{"sort_index":%d}}`, pid)
	t.counter(`"in use"`, s.Levels(lifetime.Occupied))
	t.counter(`"reserved"`, slices.Values(s.ReservedLevels()))
	t.marks(s)
	t.buffers(s)
}

// counter writes the last level of each instant.
func (t *trace) counter(name string, levels iter.Seq[lifetime.Level]) {
	var last lifetime.Level
	any := false
	write := func() {
		if any {
			t.event("C", last.At, name)
			fmt.Fprintf(t.out, `,"args":{"bytes":%d}}`, last.Bytes)
		}
	}
	for level := range levels {
		if level.At != last.At {
			write()
		}
		last, any = level, true
	}
	write()
}

func (t *trace) marks(s *lifetime.Space) {
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Kind == lifetime.Instruction {
			continue
		}
		name := quoted(cmp.Or(m.Text, m.Kind.String()))
		args := fmt.Sprintf(`,"cat":"mark","args":{"kind":%q`, m.Kind.String())
		if m.Kind == lifetime.OOM {
			args += fmt.Sprintf(`,"requested_bytes":%d`, m.Requested)
			if m.Free >= 0 {
				args += fmt.Sprintf(`,"free_bytes":%d`, m.Free)
			}
		}
		args += "}"
		if m.Begin == m.End {
			t.event("i", m.Begin, name)
			t.text(`,"s":"p"` + args + "}")
			continue
		}
		t.ids++
		t.event("b", m.Begin, name)
		fmt.Fprintf(t.out, `,"id":"0x%x"%s}`, t.ids, args)
		t.end(m.End, name, "mark", t.ids)
	}
}

// end writes the end of an asynchronous slice: what a viewer finds its beginning
// by.
func (t *trace) end(at int64, name, category string, id int) {
	t.event("e", at, name)
	fmt.Fprintf(t.out, `,"cat":%q,"id":"0x%x"}`, category, id)
}

// buffers writes the buffers in order of time.
func (t *trace) buffers(s *lifetime.Space) {
	first := t.ids + 1
	t.ids += len(s.Buffers)
	names := map[lifetime.SiteID]string{}
	nameOf := func(i int) string {
		site := s.Buffers[i].Site
		if names[site] == "" {
			names[site] = quoted(t.capture.PlaceOf(site).String())
		}
		return names[site]
	}
	for c := range s.Changes() {
		if c.Begin {
			t.begin(s, c.Buffer, nameOf(c.Buffer), first+c.Buffer)
		} else {
			t.end(c.T, nameOf(c.Buffer), "buffer", first+c.Buffer)
		}
	}
	for i := range s.Buffers {
		if s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			t.end(s.Buffers[i].End, nameOf(i), "buffer", first+i)
		}
	}
}

// begin writes the beginning of a buffer, with all that is known of it.
func (t *trace) begin(s *lifetime.Space, i int, name string, id int) {
	b := &s.Buffers[i]
	site := &t.capture.Sites[b.Site]
	t.event("b", b.Begin, name)
	fmt.Fprintf(t.out, `,"cat":"buffer","id":"0x%x","args":{"bytes":%d,"requested_bytes":%d`, id, b.Size, b.Requested)
	if s.Facts&lifetime.Addresses != 0 {
		fmt.Fprintf(t.out, `,"addr":"0x%x"`, b.Addr)
	}
	kind, edges, note := "", "", ""
	if b.Kind != lifetime.Plain {
		kind = b.Kind.String()
	}
	if b.Edge != 0 {
		edges = b.Edge.String()
	}
	if s.BufNotes != nil {
		note = t.capture.Notes[s.BufNotes[i]]
	}
	for _, arg := range []struct{ name, value string }{
		{"kind", kind}, {"edges", edges}, {"note", note}, {"op", site.Op}, {"shape", site.Shape}, {"dtype", site.DType},
		{"region", site.Region}, {"module", site.Module}, {"instr", site.Instr}, {"opcode", site.Opcode},
	} {
		if arg.value != "" {
			t.text(`,"` + arg.name + `":` + quoted(arg.value))
		}
	}
	t.stack(site.Stack)
	t.text("}}")
}

// stack writes a stack as the last argument, a line for each call.
func (t *trace) stack(id lifetime.StackID) {
	if id == 0 {
		return
	}
	t.text(`,"stack":"`)
	for i, frame := range t.capture.Stacks[id] {
		if i > 0 {
			t.text(`\n`)
		}
		if t.frames[frame] == "" {
			f := t.capture.Frames[frame]
			text := f.Function
			if place := f.Place(); place != "" {
				text += " (" + place + ")"
			}
			text = quoted(text)
			t.frames[frame] = text[1 : len(text)-1]
		}
		t.text(t.frames[frame])
	}
	t.text(`"`)
}
