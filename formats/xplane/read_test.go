package xplane_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pw "google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

const captures = "../../testdata/xplane"

// story is the history of one allocator. Its events are on two lines that begin at different times; neither
// line is consistent alone.
var story = []xevent{
	alloc(1_000_000, 0x1000, 512, 1512, "Relu"),
	free(2_000_000, 0x900, 256, 1256), // older than the window
	alloc(3_000_000, 0x2000, 1024, 2280, "MatMul"),
	free(4_000_000, 0x1000, 512, 1768),
	alloc(5_000_000, 0x1000, 512, 2280, "Relu"),
}

// TestLines reads the same events in any distribution over lines. The time of an event is the time of its line
// plus its offset.
func TestLines(t *testing.T) {
	one := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}}}})
	want := nativetest.Text(t, one)
	s := one.Spaces[0]
	if s.Base != 1512-512-256 || s.Peak(lifetime.Occupied).Bytes != 2280 || s.Allocations != 3 || s.Frees != 2 || s.Limit != 1<<20 || s.LifetimePeak != 5000 {
		t.Errorf("base %d, peak %v, %d allocations, %d frees, limit %d, lifetime peak %d", s.Base, s.Peak(lifetime.Occupied), s.Allocations, s.Frees, s.Limit, s.LifetimePeak)
	}
	shifted := func(e xevent, by int64) xevent { e.offset += by; return e }
	for name, lines := range map[string][]xline{
		"two lines": {
			{timestamp: 1000, events: []xevent{story[0], story[3]}},
			{timestamp: 1000, events: []xevent{story[1], story[2], story[4]}},
		},
		"lines that begin at different times": {
			{timestamp: 3000, events: []xevent{shifted(story[2], -2_000_000), shifted(story[4], -2_000_000)}},
			{timestamp: 1000, events: []xevent{story[0], story[1], story[3]}},
		},
		"lines without allocators": {
			{timestamp: 1, events: []xevent{{name: "Session"}, {name: "Relu", offset: 5}}}, {}, {timestamp: 1000, events: story}, {name: "empty"},
		},
		"events out of order": {
			{timestamp: 1000, events: []xevent{story[4], story[0], story[3]}}, {timestamp: 1000, events: []xevent{story[2], story[1]}},
		},
	} {
		for _, namesFirst := range []bool{false, true} {
			got := nativetest.Text(t, mustRead(t, xspace{{name: "/host:CPU", lines: lines, namesFirst: namesFirst}}))
			if got != want {
				t.Errorf("%s (names first: %v): got\n%s\nwant\n%s", name, namesFirst, got, want)
			}
		}
	}
}

// TestEvents reads the event layouts of other profilers.
func TestEvents(t *testing.T) {
	tpu := func(name string, offset, size, inUse, stack int64) xevent {
		e := xevent{name: name, offset: offset, stats: []xstat{{"index_on_host", int64(3)}, {"bytes_reserved", stack}, {"bytes_allocated", inUse},
			{"bytes_available", 10_000 - inUse - stack}, {"fragmentation", int64(0)}, {"peak_bytes_in_use", int64(7)}, {"addr", int64(64)}}}
		if size > 0 {
			e.stats = append(e.stats, xstat{"requested_bytes", size}, xstat{"allocation_bytes", size})
		}
		return e
	}
	c := mustRead(t, xspace{
		{name: "/device:TPU:3"},
		{name: "/host:CPU", lines: []xline{{events: []xevent{
			tpu("MemoryAllocation", 1000, 700, 700, 0), tpu("MemoryDeallocation", 2000, 0, 0, 0), tpu("MemoryAllocation", 3000, 600, 600, 5000),
			tpu("MemoryDeallocation", 4000, 0, 0, 5000),
		}}}},
	})
	s := c.Spaces[0]
	if s.Device != "tpu:3" || s.ID() != "host/tpu:3" || s.Limit != 10_000 {
		t.Errorf("%s, limit %d", s.ID(), s.Limit)
	}
	if peak := s.Peak(lifetime.Occupied); peak.Bytes != 5600 {
		t.Errorf("peak %d, want heap plus stack", peak.Bytes)
	}
	if len(c.Losses) != 0 || s.Base != 0 {
		t.Errorf("base %d, losses %v", s.Base, c.Losses)
	}

	strange := alloc(1000, 1, 512, 512, "")
	strange.stats = []xstat{{"allocator_name", "in the event"}, {"tf_op", "(null)"}, {"shape", "[2]"}, {"bytes_allocated", int64(600)},
		{"allocation_bytes", int64(512)}, {"addr", int64(-8)}, {"fragmentation", math.NaN()}, {"unknown", []byte{1, 2}}, {"id", int64(-5)}}
	c = mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1752000000000000000, events: []xevent{strange}}}}})
	s = c.Spaces[0]
	b, site := s.Buffers[0], c.Sites[s.Buffers[0].Site]
	if s.Allocator != "in the event" || site.Op != "" || site.Shape != "[2]" || b.Addr != math.MaxUint64-7 || s.Base != 88 || b.Begin != 1752000000000000001 {
		t.Errorf("%s %+v %+v, base %d", s.Allocator, site, b, s.Base)
	}
	if f := s.Totals[0]; !f.HasFragmentation || f.Fragmentation == f.Fragmentation {
		t.Errorf("fragmentation %v, want NaN", f.Fragmentation)
	}
}

// TestModules: compiled programs in a profile give the same model as alone. A damaged program does not prevent
// reading the others.
func TestModules(t *testing.T) {
	proto, err := os.ReadFile(filepath.Join(captures, "padded.hlo.pb"))
	if err != nil {
		t.Fatal(err)
	}
	b := build.New(build.Everything)
	if err := hlo.Read("", bytes.NewReader(proto), b); err != nil {
		t.Fatal(err)
	}
	alone, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	named := func(id uint64, name string) []byte { return bytesField(varintField(nil, 1, id), 2, []byte(name)) }
	entry := func(id uint64, meta []byte) []byte { return bytesField(varintField(nil, 1, id), 2, meta) }
	plane := bytesField(nil, 2, []byte("/host:metadata"))
	for i, m := range []struct {
		name  string
		stat  uint64
		proto []byte
	}{{"jit_a(1)", 1, proto}, {"jit_broken(2)", 1, []byte("\x0a\xff")}, {"jit_b(3)", 2, proto}, {"no program", 3, proto}} {
		meta := bytesField(named(uint64(i+1), m.name), 5, bytesField(varintField(nil, 1, m.stat), 6, m.proto))
		plane = bytesField(plane, 4, entry(uint64(i+1), meta))
	}
	for i, name := range []string{"Hlo Proto", "hlo_proto", "other"} {
		plane = bytesField(plane, 5, entry(uint64(i+1), named(uint64(i+1), name)))
	}
	c, err := read(t, bytesField(bytesField(nil, 1, plane), 4, []byte("host")))
	if err != nil {
		t.Fatal(err)
	}
	peaks := map[string][]lifetime.Level{}
	for _, s := range c.Spaces {
		peaks[s.Host+" "+s.Module] = append(peaks[s.Host+" "+s.Module], s.Peak(lifetime.Occupied))
	}
	var want []lifetime.Level
	for _, s := range alone.Spaces {
		want = append(want, s.Peak(lifetime.Occupied))
	}
	if len(peaks) != 2 || !slices.Equal(peaks["host jit_a(1)"], want) || !slices.Equal(peaks["host jit_b(3)"], want) {
		t.Errorf("peaks %v, alone %v", peaks, want)
	}
	if !slices.ContainsFunc(c.Losses, func(l loss.Loss) bool {
		return l.Reason == loss.DamagedModule && l.Count == 1 && strings.HasPrefix(l.First, "jit_broken(2)")
	}) {
		t.Errorf("losses %v", c.Losses)
	}
}

// TestBareEvents: missing statistics are not known.
func TestBareEvents(t *testing.T) {
	event := func(offset, addr int64, stats ...xstat) xevent {
		return xevent{name: "MemoryAllocation", offset: offset, stats: append([]xstat{{"allocator_name", ref("GPU_0_bfc")}, {"addr", addr}}, stats...)}
	}
	c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{name: "t", events: []xevent{
		event(1000, 4096, xstat{"allocation_bytes", int64(64)}, xstat{"bytes_allocated", int64(64)}),
		event(2000, 8192, xstat{"requested_bytes", int64(50)}),
	}}}}})
	s := c.Spaces[0]
	var buffers []string
	for _, b := range s.Buffers {
		buffers = append(buffers, fmt.Sprint(b.Size, "/", b.Requested))
	}
	if have := strings.Join(buffers, " "); have != "64/0 50/50" {
		t.Errorf("buffers %s", have)
	}
	if len(s.Totals) != 1 || s.Totals[0].HasFragmentation || s.Stack != nil || s.Limit != 0 || s.LifetimePeak != 0 {
		t.Errorf("totals %v, stack %v, limit %d, peak of the process %d", s.Totals, s.Stack, s.Limit, s.LifetimePeak)
	}
}

// TestOtherFields: unknown fields of events are skipped, for every wire type and for short and long numbers.
// Damage inside an event gives one error that names the byte.
func TestOtherFields(t *testing.T) {
	with := func(other []byte) xspace {
		events := slices.Clone(story)
		for i := range events {
			events[i].other = other
		}
		return xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: events}}}}
	}
	want := nativetest.Text(t, mustRead(t, with(nil)))
	for name, other := range map[string][]byte{
		"a number":             varintField(nil, 9, 1<<40),
		"a long number":        varintField(nil, 1000, math.MaxUint64),
		"bytes":                bytesField(nil, 9, bytes.Repeat([]byte("x"), 200)),
		"fixed64":              pw.AppendFixed64(pw.AppendTag(nil, 9, pw.Fixed64Type), 1),
		"fixed32":              pw.AppendFixed32(pw.AppendTag(nil, 9, pw.Fixed32Type), 1),
		"an empty statistic":   bytesField(nil, 4, nil),
		"an unknown statistic": bytesField(nil, 4, append(varintField(nil, 1, 1<<20), 0xff, 0xff)),
	} {
		if got := nativetest.Text(t, mustRead(t, with(other))); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	known := func(value ...byte) []byte {
		return bytesField(nil, 4, append(varintField(nil, 1, firstNumber), value...))
	}
	for name, other := range map[string][]byte{
		"a group":                         {9<<3 | 3},
		"bytes beyond the event":          {9<<3 | 2, 0xff, 0xff, 0x7f},
		"a statistic that ends early":     known(4<<3, 0x80),
		"a double that ends early":        known(2<<3|1, 1, 2, 3),
		"a statistic of a group":          known(4<<3 | 3),
		"a text beyond its statistic":     known(5<<3|2, 0x7f),
		"a number of more than ten bytes": append([]byte{9 << 3}, bytes.Repeat([]byte{0xff}, 11)...),
		"a tag without end":               bytes.Repeat([]byte{0xff}, 11),
		"a text a byte too long":          known(5<<3|2, 1),
	} {
		if _, err := read(t, with(other).encode()); err == nil || !strings.Contains(err.Error(), "byte ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// At the end of an event that another one follows.
	for name, end := range map[string][]byte{"bytes": {9<<3 | 2, 1}, "a statistic": {4<<3 | 2, 1}, "fixed64": {9<<3 | 1, 1, 2, 3, 4, 5, 6, 7}, "fixed32": {9<<3 | 5, 1, 2, 3}} {
		cut := xevent{name: "MemoryAllocation", offset: 1, other: end}
		x := xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: append([]xevent{cut}, story...)}}}}
		if _, err := read(t, x.encode()); err == nil || !strings.Contains(err.Error(), "byte ") {
			t.Errorf("%s beyond the event: %v", name, err)
		}
	}
}

// TestSameNanosecond: events of several threads are ordered by time to the picosecond, also those before their
// line's timestamp.
func TestSameNanosecond(t *testing.T) {
	one := []xevent{alloc(2_500, 0x1000, 512, 512, "a"), free(2_700, 0x1000, 512, 0), alloc(2_900, 0x1000, 256, 256, "b"), free(3_100, 0x1000, 256, 0)}
	want := nativetest.Text(t, mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: one}}}}))
	shifted := func(e xevent, by int64) xevent { e.offset += by; return e }
	for name, lines := range map[string][]xline{
		"in turn": {{timestamp: 1000, events: []xevent{one[0], one[2]}}, {timestamp: 1000, events: []xevent{one[1], one[3]}}},
		"before the timestamp": {{timestamp: 1000, events: []xevent{one[1], one[2]}},
			{timestamp: 1010, events: []xevent{shifted(one[0], -10_000), shifted(one[3], -10_000)}}},
	} {
		if got := nativetest.Text(t, mustRead(t, xspace{{name: "/host:CPU", lines: lines}})); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestOnlyFrees: a window with frees and without allocations.
func TestOnlyFrees(t *testing.T) {
	c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: []xevent{free(1000, 0x900, 256, 512), free(2000, 0x1000, 512, 0)}}}}})
	if s := c.Spaces[0]; s.Frees != 2 || len(s.Buffers) != 2 || s.Peak(lifetime.Occupied).Bytes != 768 {
		t.Errorf("%d frees, %d buffers, peak %v", s.Frees, len(s.Buffers), s.Peak(lifetime.Occupied))
	}
}

// TestNamesCut cuts a profile in which the names of events follow those of statistics. Without both event names
// the frees cannot be interpreted.
func TestNamesCut(t *testing.T) {
	whole := xplaneT{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}}}.encode()
	var lines, events, stats []byte
	for rest := whole; len(rest) > 0; {
		number, _, n := pw.ConsumeField(rest)
		switch {
		case number == 4:
			events = append(events, rest[:n]...)
		case number == 5:
			stats = append(stats, rest[:n]...)
		default:
			lines = append(lines, rest[:n]...)
		}
		rest = rest[n:]
	}
	data := bytesField(nil, 1, slices.Concat(lines, stats, events))
	for at := len(data) - len(events) - len(stats); at < len(data); at++ {
		c, err := read(t, data[:at])
		switch {
		case err != nil && !strings.Contains(err.Error(), "ends early"):
			t.Errorf("cut at %d: %v", at, err)
		case err == nil && len(c.Spaces) > 0:
			t.Errorf("cut at %d of %d: %d allocations, %d frees", at, len(data), c.Spaces[0].Allocations, c.Spaces[0].Frees)
		}
	}
}

// TestDataTypes: types by TensorFlow's numbers; reference types are 100 higher.
func TestDataTypes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "", 1: "float", 30: "uint4", 31: "unknown dtype enum (31)", 100: "unknown dtype enum (100)", 101: "float_ref", 130: "uint4_ref",
		131: "unknown dtype enum (131)", -1: "unknown dtype enum (-1)",
	} {
		e := alloc(1000, 0x1000, 512, 512, "Relu")
		for i := range e.stats {
			if e.stats[i].name == "data_type" {
				e.stats[i].value = n
			}
		}
		c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: []xevent{e}}}}})
		if got := c.Sites[c.Spaces[0].Buffers[0].Site].DType; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// TestSteps: steps are the roots that are not nested in another root, on any line.
func TestSteps(t *testing.T) {
	root := func(offset, duration, step int64) xevent {
		return xevent{name: "train", offset: offset, duration: duration, stats: []xstat{{"_r", int64(1)}, {"step_num", step}}}
	}
	c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{
		{events: []xevent{root(1_000_000, 5_000_000, 7), alloc(2_000_000, 1, 512, 512, "a"), root(8_000_000, 1_000_000, 8)}},
		{events: []xevent{root(3_000_000, 3_000_000, 70), {name: "evaluate", offset: 9_500_000, stats: []xstat{{"_r", int64(1)}}}}},
	}}})
	var got []string
	for _, m := range c.Spaces[0].Marks {
		if m.End <= m.Begin {
			t.Errorf("%s ends at %d and begins at %d", m.Text, m.End, m.Begin)
		}
		got = append(got, m.Kind.String()+" "+m.Text)
	}
	if want := []string{"step train 7", "step train 8", "step evaluate"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNothing: a profile without allocator events has no space and one loss.
func TestNothing(t *testing.T) {
	c := mustRead(t, xspace{{name: "/host:CPU", lines: []xline{{events: []xevent{{name: "Relu"}}}}}})
	if len(c.Spaces) != 0 || len(c.Losses) != 1 || c.Losses[0].Reason != loss.NoMemoryEvents {
		t.Errorf("%d spaces, losses %v", len(c.Spaces), c.Losses)
	}
}

// TestDamage: a file that is not an XSpace gives one error that names the byte.
func TestDamage(t *testing.T) {
	whole := xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}}}}.encode()
	if _, err := read(t, converted(whole)); err == nil || !strings.Contains(err.Error(), "was converted as text") || !strings.Contains(err.Error(), "byte ") {
		t.Errorf("a file that was converted: %v", err)
	}
	for name, data := range map[string][]byte{
		"a group":              append(slices.Clone(whole), 0x0b),
		"field number 0":       append(slices.Clone(whole), 0x02, 0x00),
		"a line out of bounds": bytesField(nil, 1, append(bytesField(nil, 2, []byte("/host:CPU")), 0x1a, 0x7f)),
	} {
		data := append(data, bytesField(nil, 4, []byte("another host"))...)
		if _, err := read(t, data); err == nil || !strings.Contains(err.Error(), "byte ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// converted converts data as text: bytes that are not UTF-8 become U+FFFD.
func converted(data []byte) []byte {
	return []byte(strings.ToValidUTF8(string(bytes.Repeat(data, 3)), "\ufffd"))
}

// TestTruncated cuts a capture at many places: it is read up to the cut with a loss, or refused.
func TestTruncated(t *testing.T) {
	data, err := os.ReadFile(captures + "/tf_warm_cache.xplane.pb")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := read(t, data)
	if err != nil {
		t.Fatal(err)
	}
	read1 := 0
	for at := 0; at < len(data); at += deep.Or(29, 7) {
		c, err := read(t, data[:at])
		switch {
		case err != nil && !strings.Contains(err.Error(), "ends early"):
			t.Errorf("cut at %d: %v", at, err)
		case err == nil && len(c.Spaces) > 0:
			read1++
			if c.Spaces[0].Allocations != whole.Spaces[0].Allocations {
				t.Errorf("cut at %d: %d allocations", at, c.Spaces[0].Allocations)
			}
		}
	}
	if read1 == 0 {
		t.Error("no cut file could be read")
	}
}

// TestCutBetweenNames cuts a file whose names come first at every byte: what is before the cut is read, and nothing else.
func TestCutBetweenNames(t *testing.T) {
	var events []xevent
	for i, e := range story {
		other := xevent{name: "Execute", offset: e.offset + 10}
		long := xevent{name: "Session", offset: e.offset + 20, stats: []xstat{{"name", strings.Repeat("x", 50*i)}}}
		events = append(events, e, other, long)
	}
	data := xspace{{name: "/host:CPU", namesFirst: true, lines: []xline{{timestamp: 1000, events: events}}}}.encode()
	before := 0
	for at := range len(data) + 1 {
		c, err := read(t, data[:at])
		now := 0
		switch {
		case err != nil && !strings.Contains(err.Error(), "ends early"):
			t.Errorf("cut at %d: %v", at, err)
		case err == nil && len(c.Spaces) > 0:
			now = c.Spaces[0].Allocations + c.Spaces[0].Frees
		}
		if now < before {
			t.Errorf("cut at %d: %d events, and %d of a shorter file", at, now, before)
		}
		before = now
	}
	if before != len(story) {
		t.Errorf("%d events", before)
	}
}

// TestSniff distinguishes an XSpace from other files.
func TestSniff(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.xplane.pb")
	if len(files) == 0 {
		t.Fatal("no captures")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !xplane.Sniff(data[:4096]) || !xplane.Sniff(converted(data[:4096])[:4096]) {
			t.Errorf("%s is not recognized", file)
		}
	}
	for _, other := range []string{"", "\x80\x04}", "{}", "memlane native 2\n", "\x0a\x04\x08\x01\x10\x02\x12", "\x0a\x20\x0a\x05jit_f\x12\x04main", "\x1f\x8b", "\x0a", "\n\n\n", "\x12\x04\xff\xff\xff\xff"} {
		if xplane.Sniff([]byte(other)) {
			t.Errorf("%q is recognized as an XSpace", other)
		}
	}
	plane := "\x0a\x07\x12\x05/host"
	for head, want := range map[string]bool{
		plane:                                      true,
		plane[:4]:                                  false, // the name is not whole
		"\x0a\x07\x12\x05/ho\x00t":                 false,
		"\x0a\x07\x12\x05/hos\xff":                 false,
		"\x0a\x02\x12\x00":                         true, // a plane without a name
		"\x0a\x09\x08\x01\x12\x05/host":            true, // its number first
		"\x0a\x0b\x08\x81\x01\x12\x05/host":        true,
		"\x0a\x03\x08\xff\xff":                     false, // which does not end
		"\x0a\x02\x08\x01":                         false,
		"\x0a\x04\x08\x01\x1a\x00":                 true, // a line behind it
		"\x0a\x02\x1a\x00":                         true,
		"\x0a\x01\x1a":                             false,
		"\x0a\x02\x42\x00":                         false,
		"\x0a\x00\x0a\x00":                         true, // empty planes
		"\x0a\x00":                                 false,
		"\x0a\x00\x12\x01x":                        false,
		"\x22\x04host" + plane:                     true, // texts before
		"\x12\x03err\x1a\x04warn\x22\x01h" + plane: true,
		"\x22\x04host":                             false,
		"\x22\x00" + plane:                         false,
		"\x22\x04h":                                false,
		"\x22\x02h\xff" + plane:                    false,
		"\x2a\x04host" + plane:                     false,
		"\x0a" + strings.Repeat("\ufffd", 8):       true, // converted
		"\x0a" + strings.Repeat("\ufffd", 7):       false,
		"\x12" + strings.Repeat("\ufffd", 8):       false,
	} {
		if got := xplane.Sniff([]byte(head)); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
}

// broken is a file that cannot be read from some byte on.
type broken struct {
	data []byte
	from int64
}

var errDisk = errors.New("broken disk")

func (b *broken) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.from {
		return 0, errDisk
	}
	return copy(p, b.data[at:]), nil
}

// TestReadError: read errors are returned; only the end of the file counts as truncation.
func TestReadError(t *testing.T) {
	events := slices.Repeat(story, 2000) // more than a window
	data := xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: events}}}}.encode()
	for _, from := range []int64{0, 100, int64(len(data)) / 2, int64(len(data)) - 1} {
		b := build.New(build.Everything)
		if err := xplane.ReadAt("x", &broken{data, from}, int64(len(data)), b); !errors.Is(err, errDisk) {
			t.Errorf("from byte %d: %v", from, err)
		}
	}
}
