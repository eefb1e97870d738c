package render_test

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/region"
)

// fields are the values of a protocol buffer by field number: uint64 or []byte.
type fields map[protowire.Number][]any

func decoded(t *testing.T, message []byte) fields {
	t.Helper()
	all := fields{}
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		message = message[n:]
		if kind == protowire.VarintType {
			v, m := protowire.ConsumeVarint(message)
			all[field], n = append(all[field], v), m
		} else {
			v, m := protowire.ConsumeBytes(message)
			all[field], n = append(all[field], v), m
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		message = message[n:]
	}
	return all
}

// number returns the last value of a field, 0 without one.
func (f fields) number(field protowire.Number) uint64 {
	if all := f[field]; len(all) > 0 {
		return all[len(all)-1].(uint64)
	}
	return 0
}

func (f fields) bytes(field protowire.Number) []byte {
	if all := f[field]; len(all) > 0 {
		return all[len(all)-1].([]byte)
	}
	return nil
}

// importer reads a trace as trace_processor does. Field numbers are those of protos/perfetto/trace in
// https://github.com/google/perfetto; TracePacket has a timestamp (8), a sequence (10), an event (11), interned data (12), flags
// (13) and a track (60).
type importer struct {
	t        *testing.T
	interned map[protowire.Number]map[uint64]fields // by field of InternedData and iid
	tracks   map[uint64]*importedTrack
	spaces   []*importedTrack
}

type importedTrack struct {
	name     string
	parent   *importedTrack
	counters map[string][]int64 // of a process
	buffers  []importedBuffer   // of a process

	last uint64          // time of its last event
	open *importedBuffer // the slice that did not end
}

type importedBuffer struct {
	begin, end, bytes, requested uint64
	mark                         bool
	addr                         uint64
	stack                        []frame.Frame
}

func imported(t *testing.T, trace []byte) *importer {
	t.Helper()
	im := &importer{t: t, interned: map[protowire.Number]map[uint64]fields{}, tracks: map[uint64]*importedTrack{}}
	for i, packet := range decoded(t, trace)[1] {
		p := decoded(t, packet.([]byte))
		if p.number(10) != 1 || i == 0 && p.number(13) != 1 {
			t.Fatalf("packet %d: sequence %d, flags %d", i, p.number(10), p.number(13))
		}
		for kind, all := range decoded(t, p.bytes(12)) {
			for _, one := range all {
				im.intern(kind, decoded(t, one.([]byte)))
			}
		}
		if p[60] != nil {
			im.describe(decoded(t, p.bytes(60)))
		}
		if p[11] != nil {
			if p.number(13) != 2 {
				t.Fatalf("packet %d: flags %d", i, p.number(13))
			}
			im.event(p.number(8), decoded(t, p.bytes(11)))
		}
	}
	return im
}

func (im *importer) intern(kind protowire.Number, f fields) {
	if im.interned[kind] == nil {
		im.interned[kind] = map[uint64]fields{}
	}
	if id := f.number(1); id == 0 || im.interned[kind][id] != nil {
		im.t.Fatalf("interned %d of kind %d: again", id, kind)
	}
	im.interned[kind][f.number(1)] = f
}

// text returns an interned text; every use must follow its packet.
func (im *importer) text(kind protowire.Number, id uint64) string {
	f := im.interned[kind][id]
	if f == nil || !utf8.Valid(f.bytes(2)) {
		im.t.Fatalf("text %d of kind %d: %v", id, kind, f)
	}
	return string(f.bytes(2))
}

func (im *importer) describe(f fields) {
	id := f.number(1)
	track := &importedTrack{name: string(f.bytes(2)), parent: im.tracks[f.number(5)], counters: map[string][]int64{}}
	if id == 0 || im.tracks[id] != nil || (track.parent == nil) != (f[3] != nil) {
		im.t.Fatalf("track %d", id)
	}
	im.tracks[id] = track
	if f[3] != nil {
		im.spaces = append(im.spaces, track)
	}
}

func (im *importer) event(ts uint64, f fields) {
	track := im.tracks[f.number(11)]
	if track == nil || ts < track.last {
		im.t.Fatalf("event at %d: no track, or the track is at a later time", ts)
	}
	track.last = ts
	switch f.number(9) {
	case 1:
		if track.open != nil {
			im.t.Fatalf("two slices at once on track %q", track.name)
		}
		im.text(2, f.number(10))
		track.open = &importedBuffer{begin: ts, mark: im.text(1, f.number(3)) == "mark", stack: im.stack(f.number(56))}
		for _, one := range f[4] {
			a := decoded(im.t, one.([]byte))
			switch key := im.text(3, a.number(1)); key {
			case "bytes":
				track.open.bytes = a.number(4)
			case "requested_bytes":
				track.open.requested = a.number(4)
			case "addr":
				track.open.addr = a.number(7)
			default:
				if a[4] == nil { // else of a mark
					im.text(29, a.number(17))
				}
			}
		}
	case 2:
		if track.open == nil {
			im.t.Fatalf("an end without a slice on track %q", track.name)
		}
		track.open.end = ts
		track.parent.buffers = append(track.parent.buffers, *track.open)
		track.open = nil
	case 4:
		track.parent.counters[track.name] = append(track.parent.counters[track.name], int64(f.number(30)))
	}
}

// stack returns a callstack, innermost call first.
func (im *importer) stack(id uint64) (frames []frame.Frame) {
	if id == 0 {
		return nil
	}
	for _, iid := range slices.Backward(im.interned[7][id][2]) {
		f := im.interned[6][iid.(uint64)]
		out := frame.Frame{Function: im.text(5, f.number(2)), Line: int(f.number(6))}
		if f[5] != nil {
			out.File = im.text(18, f.number(5))
		}
		frames = append(frames, out)
	}
	return frames
}

// TestPerfetto checks that the trace has each buffer, its stack and the levels of its space.
func TestPerfetto(t *testing.T) {
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) { checkTrace(t, c, written(t, c, "perfetto", "")) })
	for _, name := range hostile.Texts {
		c := hostile.Capture(name)
		checkTrace(t, c, written(t, c, "perfetto", ""))
	}
}

func checkTrace(t *testing.T, c *lifetime.Capture, trace []byte) {
	t.Helper()
	im := imported(t, trace)
	if len(im.spaces) != len(c.Spaces) {
		t.Fatalf("%d processes, %d spaces", len(im.spaces), len(c.Spaces))
	}
	for i, s := range c.Spaces {
		got := im.spaces[i]
		if got.name == "" {
			t.Errorf("space %d: its process has no name", i)
		}
		in, reserved := levelsOf(s.Levels(lifetime.Occupied)), levelsOf(slices.Values(region.Levels(s)))
		if !slices.Equal(got.counters["in use"], in) || !slices.Equal(got.counters["reserved"], reserved) {
			t.Errorf("%s: counters %v, want %v and %v", got.name, got.counters, in, reserved)
		}
		var want []string
		unit := int64(1000)
		if s.Axis == lifetime.Time {
			unit = 1
		}
		for k := range s.Buffers {
			b := &s.Buffers[k]
			addr := b.Addr
			if s.Facts&lifetime.Addresses == 0 {
				addr = 0
			}
			line := fmt.Sprint((b.End-b.Begin)*unit, b.Size, b.Requested, addr)
			for f := range c.FramesOf(c.Sites[b.Site].Stack) {
				line += fmt.Sprint(" ", max(f.Line, 0))
			}
			want = append(want, line)
		}
		var have []string
		for _, b := range got.buffers {
			if b.mark {
				continue
			}
			line := fmt.Sprint(b.end-b.begin, b.bytes, b.requested, b.addr)
			for _, f := range b.stack {
				line += fmt.Sprint(" ", f.Line)
			}
			have = append(have, line)
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(have, want) {
			t.Errorf("%s: %d buffers, want %d", got.name, len(have), len(want))
		}
	}
	for id, track := range im.tracks {
		if track.open != nil {
			t.Errorf("track %d: a slice does not end", id)
		}
	}
}

// levelsOf returns the last level of each instant.
func levelsOf(levels iter.Seq[lifetime.Level]) (all []int64) {
	last := int64(math.MinInt64)
	for level := range levels {
		if all != nil && level.At == last {
			all = all[:len(all)-1]
		}
		all, last = append(all, level.Bytes), level.At
	}
	return all
}

// TestPerfettoTime checks that times are nanoseconds since the first window and end where those of the viewer end; one unit of
// other axes is a microsecond, as the name of the space says. The clock of the capture is in the trace, unless it is before 1970.
func TestPerfettoTime(t *testing.T) {
	for first, last := range map[int64]uint64{1700000000000000000: 1<<62 - 1700000000000000000 + 1, -1 << 62: math.MaxInt64} {
		b := build.New(build.Everything)
		b.Source(lifetime.Source{File: "x"})
		for i, at := range []int64{first, 1 << 62, 7} {
			s := b.Space()
			b.Describe(s, lifetime.SpaceInfo{Device: fmt.Sprint("d", i), Axis: []lifetime.Axis{lifetime.Time, lifetime.Time, lifetime.Event}[i]})
			b.Alloc(s, at, build.Block{Addr: 1 << 20, Requested: 1, Occupied: 1})
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		trace := written(t, c, "perfetto", "")
		var begins []uint64
		var names []string
		for _, space := range imported(t, trace).spaces {
			begins, names = append(begins, space.buffers[0].begin), append(names, space.name)
		}
		if want := []uint64{1, last, 1000}; !slices.Equal(begins, want) {
			t.Errorf("buffers begin at %d, want %d", begins, want)
		}
		if want := []string{"d0", "d1", "d2 (1 µs: 1 event)"}; !slices.Equal(names, want) {
			t.Errorf("spaces %q, want %q", names, want)
		}
		clocks := decoded(t, decoded(t, decoded(t, trace)[1][0].([]byte)).bytes(6))[1]
		if first < 0 {
			if clocks != nil {
				t.Errorf("clocks %v before 1970", clocks)
			}
			continue
		}
		if origin := decoded(t, clocks[1].([]byte)); origin.number(1) != 128 || origin.number(2) != uint64(first-1) {
			t.Errorf("clocks %v", clocks)
		}
	}
}
