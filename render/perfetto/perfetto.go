package perfetto

import (
	"bufio"
	"cmp"
	"io"
	"iter"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/internal/shorten"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/region"
)

// Field numbers of https://github.com/google/perfetto/tree/main/protos/perfetto/trace, by message.
const (
	tracePacket = 1 // Trace

	packetClocks    = 6 // TracePacket
	packetTimestamp = 8
	packetSequence  = 10
	packetEvent     = 11
	packetInterned  = 12
	packetFlags     = 13
	packetTrack     = 60

	trackUUID    = 1 // TrackDescriptor
	trackName    = 2
	trackProcess = 3
	trackParent  = 5
	trackCounter = 8

	eventCategory    = 3 // TrackEvent
	eventAnnotations = 4
	eventType        = 9
	eventName        = 10
	eventTrack       = 11
	eventCounter     = 30
	eventStack       = 56

	annotationName    = 1 // DebugAnnotation
	annotationInt     = 4
	annotationPointer = 7
	annotationString  = 17

	internedCategories = 1 // InternedData
	internedNames      = 2
	internedKeys       = 3
	internedFunctions  = 5
	internedFrames     = 6
	internedStacks     = 7
	internedFiles      = 18
	internedValues     = 29
)

// Values of TrackEvent.Type, TracePacket.SequenceFlags, CounterDescriptor.Unit and of clocks.
const (
	sliceBegin, sliceEnd, instant, counter = 1, 2, 3, 4

	stateCleared, needsState = 1, 2

	sizeBytes = 3

	bootTime, producersClock = 6, 128 // from 128 on, clocks have no meaning for all traces
)

// Write writes c as a Perfetto trace: packets of protocol buffers, in which a name, frame or stack is written once.
func Write(w io.Writer, c *lifetime.Capture) error {
	t := &trace{out: bufio.NewWriterSize(w, 64<<10), capture: c, clock: clock{origin: originOf(c)}, texts: map[text]uint64{}, lanes: map[string]*lanes{},
		frames: make([]bool, len(c.Frames)+1), stacks: make([]bool, len(c.Stacks)), sites: make([][]byte, len(c.Sites))}
	t.packet = number(number(nil, packetSequence, 1), packetFlags, stateCleared)
	if t.origin != noOrigin && t.origin >= 0 {
		clocks := message(nil, 1, number(number(nil, 1, bootTime), 2, 0))
		t.packet = message(t.packet, packetClocks, message(clocks, 1, number(number(nil, 1, producersClock), 2, uint64(t.origin))))
	}
	t.write()
	for i, s := range c.Spaces {
		t.space(i+1, s) // 0 is the process without a name
	}
	return t.out.Flush()
}

// trace writes the packets of a capture. bufio.Writer keeps the first error until Flush.
type trace struct {
	clock
	out     *bufio.Writer
	capture *lifetime.Capture
	tracks  uint64 // so far; each has its number as UUID

	texts  map[text]uint64 // what was interned, by number
	frames []bool          // were interned; the last is the one for outer calls
	stacks []bool
	sites  [][]byte // fields that the slices of all buffers of a site share; nil until used

	process uint64            // track of the space at hand
	lanes   map[string]*lanes // of the space at hand, by name

	packet, event, interned, stacked []byte // scratch
	calls                            []lifetime.FrameID
}

// text is a text of one kind of interned data.
type text struct {
	kind protowire.Number
	text string
}

func number(to []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), n)
}

func message(to []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), body)
}

// write writes the packet at hand.
func (t *trace) write() {
	head := protowire.AppendTag(t.out.AvailableBuffer(), tracePacket, protowire.BytesType)
	t.out.Write(protowire.AppendVarint(head, uint64(len(t.packet))))
	t.out.Write(t.packet)
}

// intern returns the number of a text, and adds the text to the next packet if it is new.
func (t *trace) intern(kind protowire.Number, s string) uint64 {
	id, ok := t.texts[text{kind, s}]
	if !ok {
		id = uint64(len(t.texts) + 1)
		t.texts[text{kind, s}] = id
		t.interned = message(t.interned, kind, message(number(nil, 1, id), 2, []byte(shorten.Clean(s))))
	}
	return id
}

// track describes a track and returns its UUID.
func (t *trace) track(parent uint64, name string, field protowire.Number, what []byte) uint64 {
	t.tracks++
	body := number(t.event[:0], trackUUID, t.tracks)
	if parent != 0 {
		body = number(body, trackParent, parent)
	}
	body = message(body, trackName, []byte(shorten.Clean(name)))
	if field != 0 {
		body = message(body, field, what)
	}
	t.event = body
	t.packet = message(number(t.packet[:0], packetSequence, 1), packetTrack, body)
	t.write()
	return t.tracks
}

// at writes an event, with what it interned.
func (t *trace) at(instant int64) {
	n := min(t.since(instant), math.MaxInt64/t.unit) // the viewer's times are signed
	p := number(number(number(t.packet[:0], packetTimestamp, n*t.unit), packetSequence, 1), packetFlags, needsState)
	if len(t.interned) > 0 {
		p = message(p, packetInterned, t.interned)
		t.interned = t.interned[:0]
	}
	t.packet = message(p, packetEvent, t.event)
	t.write()
}

// begin starts an event.
func (t *trace) begin(kind, track uint64) {
	t.event = number(number(t.event[:0], eventType, kind), eventTrack, track)
}

func (t *trace) space(pid int, s *lifetime.Space) {
	t.enter(s)
	clear(t.lanes)
	name := []byte(shorten.Clean(title(s)))
	process := message(number(number(nil, 1, uint64(pid)), 3, uint64(pid)), 6, name)
	t.process = t.track(0, title(s), trackProcess, process)
	t.counter("in use", s.Levels(lifetime.Occupied))
	t.counter("reserved", slices.Values(region.Levels(s)))
	t.marks(s)
	t.buffers(s)
}

func (t *trace) counter(name string, levels iter.Seq[lifetime.Level]) {
	track := uint64(0)
	for level := range region.LastOfEach(levels) {
		if track == 0 {
			track = t.track(t.process, name, trackCounter, number(nil, 3, sizeBytes))
		}
		t.begin(counter, track)
		t.event = number(t.event, eventCounter, uint64(level.Bytes))
		t.at(level.At)
	}
}

// lanes are the tracks of slices of one name. Slices of one track must nest, and lifetimes overlap. The viewer shows tracks
// of one name as one.
type lanes struct {
	name string // bounded, because every track repeats it
	free []uint64
}

// laneName bounds the names of tracks, in characters.
const laneName = 120

// lane returns a track for a slice.
func (t *trace) lane(name string) uint64 {
	l := t.lanes[name]
	if l == nil {
		l = &lanes{name: shorten.Name(name, laneName)}
		t.lanes[name] = l
	}
	last := len(l.free) - 1
	if last < 0 {
		return t.track(t.process, l.name, 0, nil)
	}
	track := l.free[last]
	l.free = l.free[:last]
	return track
}

func (t *trace) marks(s *lifetime.Space) {
	for i := range s.Marks {
		m := &s.Marks[i]
		if m.Kind == lifetime.Instruction {
			continue
		}
		kind := m.Kind.String()
		track := t.process
		if m.Begin != m.End {
			track = t.lane(kind)
			t.begin(sliceBegin, track)
		} else {
			t.begin(instant, track)
		}
		t.event = number(t.event, eventCategory, t.intern(internedCategories, "mark"))
		t.event = number(t.event, eventName, t.intern(internedNames, cmp.Or(m.Text, kind)))
		t.string("kind", kind)
		if m.Kind == lifetime.OOM {
			t.number("requested_bytes", m.Requested)
			if m.Free.Known() {
				t.number("free_bytes", m.Free.Or(0))
			}
		}
		t.at(m.Begin)
		if m.Begin != m.End {
			t.begin(sliceEnd, track)
			t.at(m.End)
		}
	}
}

// number adds an argument.
func (t *trace) number(name string, n int64) {
	t.annotate(name, annotationInt, uint64(n))
}

// string adds an argument that is not empty.
func (t *trace) string(name, value string) {
	if value != "" {
		t.annotate(name, annotationString, t.intern(internedValues, value))
	}
}

func (t *trace) annotate(name string, field protowire.Number, value uint64) {
	key := t.intern(internedKeys, name)
	size := protowire.SizeTag(annotationName) + protowire.SizeVarint(key) + protowire.SizeTag(field) + protowire.SizeVarint(value)
	t.event = protowire.AppendVarint(protowire.AppendTag(t.event, eventAnnotations, protowire.BytesType), uint64(size))
	t.event = number(number(t.event, annotationName, key), field, value)
}

// buffers writes the buffers in order of time.
func (t *trace) buffers(s *lifetime.Space) {
	tracks := make([]uint64, len(s.Buffers))
	names := map[lifetime.SiteID]string{}
	nameOf := func(site lifetime.SiteID) string {
		name, ok := names[site]
		if !ok {
			name = t.capture.PlaceOf(site).String()
			names[site] = name
		}
		return name
	}
	end := func(i int) {
		name := nameOf(s.Buffers[i].Site)
		t.begin(sliceEnd, tracks[i])
		t.at(s.Buffers[i].End)
		t.lanes[name].free = append(t.lanes[name].free, tracks[i])
	}
	for c := range s.Changes() {
		if !c.Begin {
			end(c.Buffer)
			continue
		}
		name := nameOf(s.Buffers[c.Buffer].Site)
		tracks[c.Buffer] = t.lane(name)
		t.buffer(s, c.Buffer, tracks[c.Buffer], name)
	}
	for i := range s.Buffers {
		if s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			end(i)
		}
	}
}

// buffer writes the beginning of a buffer with all its arguments.
func (t *trace) buffer(s *lifetime.Space, i int, track uint64, name string) {
	b := &s.Buffers[i]
	shared := t.site(b.Site, name)
	t.begin(sliceBegin, track)
	t.event = append(t.event, shared...)
	t.number("bytes", b.Size)
	t.number("requested_bytes", b.Requested)
	if s.Facts&lifetime.Addresses != 0 {
		t.annotate("addr", annotationPointer, b.Addr)
	}
	if b.Kind != lifetime.Plain {
		t.string("kind", b.Kind.String())
	}
	if b.Edge != 0 {
		t.string("edges", b.Edge.String())
	}
	if s.BufNotes != nil {
		t.string("note", t.capture.Notes[s.BufNotes[i]])
	}
	t.at(b.Begin)
}

// site returns the fields of slices that all buffers of a site share.
func (t *trace) site(id lifetime.SiteID, name string) []byte {
	if t.sites[id] == nil {
		site := &t.capture.Sites[id]
		t.event = number(t.event[:0], eventCategory, t.intern(internedCategories, "buffer"))
		t.event = number(t.event, eventName, t.intern(internedNames, name))
		for _, arg := range [][2]string{{"op", site.Op}, {"shape", site.Shape}, {"dtype", site.DType}, {"region", site.Region},
			{"module", site.Module}, {"instr", site.Instr}, {"opcode", site.Opcode}} {
			t.string(arg[0], arg[1])
		}
		if site.Stack != 0 {
			t.stack(site.Stack)
			t.event = number(t.event, eventStack, uint64(site.Stack))
		}
		t.sites[id] = slices.Clone(t.event)
	}
	return t.sites[id]
}

// stack interns a stack under its own number, outermost call first.
func (t *trace) stack(id lifetime.StackID) {
	if t.stacks[id] {
		return
	}
	t.stacks[id] = true
	calls, cut := t.capture.Innermost(t.calls[:0], id)
	t.calls = calls
	body := number(t.stacked[:0], 1, uint64(id))
	if outer := uint64(len(t.capture.Frames)); cut {
		if !t.frames[outer] {
			t.frames[outer] = true
			t.interned = message(t.interned, internedFrames, number(number(nil, 1, outer), 2, t.intern(internedFunctions, frame.OuterCalls)))
		}
		body = number(body, 2, outer)
	}
	for _, frame := range slices.Backward(calls) {
		t.frame(frame)
		body = number(body, 2, uint64(frame))
	}
	t.interned = message(t.interned, internedStacks, body)
	t.stacked = body
}

// frame interns a frame under its own number.
func (t *trace) frame(id lifetime.FrameID) {
	if t.frames[id] {
		return
	}
	t.frames[id] = true
	f := &t.capture.Frames[id]
	body := number(number(nil, 1, uint64(id)), 2, t.intern(internedFunctions, cmp.Or(f.Function, "[unknown function]")))
	if f.File != "" {
		body = number(body, 5, t.intern(internedFiles, f.File))
	}
	if f.Line > 0 {
		body = number(body, 6, uint64(f.Line))
	}
	t.interned = message(t.interned, internedFrames, body)
}

// noOrigin is the origin of a capture without a clock.
const noOrigin = math.MaxInt64

// originOf returns the first instant of the capture on a clock.
func originOf(c *lifetime.Capture) int64 {
	origin := int64(noOrigin)
	for _, s := range c.Spaces {
		if s.Axis == lifetime.Time {
			origin = min(origin, s.Begin)
		}
	}
	return origin
}

// clock converts instants of a space to times of the trace.
type clock struct {
	origin int64  // time 0 of what is on a clock
	zero   int64  // time 0 of the space at hand
	unit   uint64 // of its axis, in nanoseconds of the trace
}

func (t *clock) enter(s *lifetime.Space) {
	t.zero, t.unit = s.Begin, 1000
	if s.Axis == lifetime.Time {
		t.zero, t.unit = t.origin, 1
	}
}

// since returns the units between time 0 and an instant. Spans of damaged captures may exceed an int64.
func (t *clock) since(at int64) uint64 {
	return uint64(max(at, t.zero)) - uint64(t.zero) // a mark may begin before its window
}

// title returns the name of the process of a space.
func title(s *lifetime.Space) string {
	name := cmp.Or(s.ID(), "(unnamed)")
	if s.Axis != lifetime.Time {
		name += " (1 µs: 1 " + s.Axis.Unit() + ")"
	}
	return name
}
