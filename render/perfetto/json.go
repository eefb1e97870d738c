package perfetto

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/model"
)

// WriteJSON writes c as one JSON document in the Chrome format.
func WriteJSON(w io.Writer, c *lifetime.Capture) error {
	t := &document{out: bufio.NewWriterSize(w, 64<<10), capture: c, clock: clock{origin: originOf(c)}}
	t.texts, t.frames = map[string]string{}, make([]string, len(c.Frames))
	t.text(`{"displayTimeUnit":"ns","otherData":{"producer":"memlane"`)
	if t.origin != noOrigin { // a string: it may exceed the range of JSON numbers
		t.text(`,"origin_ns":"` + strconv.FormatInt(t.origin, 10) + `"`)
	}
	t.text(`},"traceEvents":[`)
	for i, s := range c.Spaces {
		t.space(i+1, s) // 0 is the process without a name
	}
	t.text("\n]}\n")
	return t.out.Flush()
}

// document writes the events of a capture as JSON. bufio.Writer keeps the first error until Flush.
type document struct {
	clock
	out     *bufio.Writer
	capture *lifetime.Capture
	texts   map[string]string  // arguments quoted so far
	frames  []string           // JSON text of a frame in a stack, without quotes; "" until used
	calls   []lifetime.FrameID // scratch
	events  bool               // an event was written
	ids     int                // of asynchronous slices so far

	// Of the space at hand.
	process string // its number in JSON
}

func (t *document) text(s string) { t.out.WriteString(s) }

// number writes a number in a base. Every buffer has about ten numbers, so they bypass package fmt.
func (t *document) number(n uint64, base int) {
	t.out.Write(strconv.AppendUint(t.out.AvailableBuffer(), n, base))
}

// bytes writes a number of bytes, which may be negative.
func (t *document) bytes(n int64) { t.out.Write(strconv.AppendInt(t.out.AvailableBuffer(), n, 10)) }

// quoted returns s as a JSON string that is safe to print on a terminal.
func quoted(s string) string {
	text, _ := model.Marshal(s, "") // a string never fails
	return strings.TrimSuffix(string(text), "\n")
}

// quoted returns quoted(s). It caches the results, because the texts of sites repeat with every buffer.
func (t *document) quoted(s string) string {
	q, ok := t.texts[s]
	if !ok {
		q = quoted(s)
		if len(t.texts) < maxQuoted {
			t.texts[s] = q
		}
	}
	return q
}

// maxQuoted bounds the cached texts, because a program may have one per buffer.
const maxQuoted = 1 << 14

// event writes the fields common to all events. The caller adds the others and closes the object.
func (t *document) event(phase string, at int64, name string) {
	if t.events {
		t.text(",")
	}
	t.events = true
	t.text("\n{\"ph\":\"")
	t.text(phase)
	t.text("\",\"pid\":")
	t.text(t.process)
	t.text(",\"tid\":")
	t.text(t.process)
	t.text(",\"ts\":")
	t.microseconds(at)
	t.text(",\"name\":")
	t.text(name)
}

// microseconds writes the timestamp of an instant.
func (t *document) microseconds(at int64) {
	n := t.since(at)
	if t.unit == 1000 {
		t.number(n, 10)
		return
	}
	t.number(n/1000, 10)
	n %= 1000
	t.out.Write(append(t.out.AvailableBuffer(), '.', byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10)))
}

func (t *document) space(pid int, s *lifetime.Space) {
	t.process = strconv.Itoa(pid)
	t.enter(s)
	t.event("M", t.zero, `"process_name"`)
	t.text(`,"args":{"name":` + quoted(title(s)) + "}}")
	t.event("M", t.zero, `"process_sort_index"`)
	fmt.Fprintf(t.out, `,"args":{"sort_index":%d}}`, pid)
	t.counter(`"in use"`, s.Levels(lifetime.Occupied))
	t.counter(`"reserved"`, slices.Values(s.ReservedLevels()))
	t.marks(s)
	t.buffers(s)
}

func (t *document) counter(name string, levels iter.Seq[lifetime.Level]) {
	for level := range lastOfEach(levels) {
		t.event("C", level.At, name)
		t.text(`,"args":{"bytes":`)
		t.bytes(level.Bytes)
		t.text("}}")
	}
}

func (t *document) marks(s *lifetime.Space) {
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Kind == lifetime.Instruction {
			continue
		}
		name := quoted(cmp.Or(m.Text, m.Kind.String()))
		args := fmt.Sprintf(`,"cat":"mark","args":{"kind":%q`, m.Kind.String())
		if m.Kind == lifetime.OOM {
			args += fmt.Sprintf(`,"requested_bytes":%d`, m.Requested)
			if m.Free.Known() {
				args += fmt.Sprintf(`,"free_bytes":%d`, m.Free.Or(0))
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
		t.id(t.ids)
		t.text(args + "}")
		t.end(m.End, name, "mark", t.ids)
	}
}

// end writes the end of an asynchronous slice, with the fields that identify its beginning.
func (t *document) end(at int64, name, category string, id int) {
	t.event("e", at, name)
	t.text(`,"cat":"`)
	t.text(category)
	t.text(`"`)
	t.id(id)
	t.text("}")
}

// id writes the number of an asynchronous slice.
func (t *document) id(id int) {
	t.text(`,"id":"0x`)
	t.number(uint64(id), 16)
	t.text(`"`)
}

// buffers writes the buffers in order of time.
func (t *document) buffers(s *lifetime.Space) {
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

// begin writes the beginning of a buffer with all its arguments.
func (t *document) begin(s *lifetime.Space, i int, name string, id int) {
	b := &s.Buffers[i]
	t.event("b", b.Begin, name)
	t.text(`,"cat":"buffer"`)
	t.id(id)
	t.text(`,"args":{"bytes":`)
	t.bytes(b.Size)
	t.text(`,"requested_bytes":`)
	t.bytes(b.Requested)
	if s.Facts&lifetime.Addresses != 0 {
		t.text(`,"addr":"0x`)
		t.number(b.Addr, 16)
		t.text(`"`)
	}
	if b.Kind != lifetime.Plain {
		t.arg("kind", b.Kind.String())
	}
	if b.Edge != 0 {
		t.arg("edges", b.Edge.String())
	}
	if s.BufNotes != nil {
		t.arg("note", t.capture.Notes[s.BufNotes[i]])
	}
	site := &t.capture.Sites[b.Site]
	for name, value := range textsOf(site) {
		t.arg(name, value)
	}
	t.stack(site.Stack)
	t.text("}}")
}

// arg writes an argument if its value is not empty.
func (t *document) arg(name, value string) {
	if value == "" {
		return
	}
	t.text(`,"`)
	t.text(name)
	t.text(`":`)
	t.text(t.quoted(value))
}

// stack writes a stack as the last argument, one line per call.
func (t *document) stack(id lifetime.StackID) {
	if id == 0 {
		return
	}
	t.text(`,"stack":"`)
	frames, cut := t.capture.Innermost(t.calls[:0], id)
	t.calls = frames
	for i, frame := range frames {
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
	if cut {
		t.text(`\n` + lifetime.OuterCalls)
	}
	t.text(`"`)
}
