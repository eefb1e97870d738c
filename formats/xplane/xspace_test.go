package xplane_test

import (
	"bytes"
	"math"
	"sort"
	"testing"

	pw "google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// The types below describe an XSpace that a test encodes.
type (
	xspace []xplaneT
	// xplaneT numbers its metadata in order of first use, from 1.
	xplaneT struct {
		name       string
		lines      []xline
		namesFirst bool // unlike what profilers write
	}
	xline struct {
		name      string
		timestamp int64
		events    []xevent
	}
	xevent struct {
		name             string
		offset, duration int64
		stats            []xstat
		other            []byte // fields that no reader knows, or that are damaged
	}
	// xstat has a value of type int64, uint64, float64, string, []byte or ref.
	xstat struct {
		name  string
		value any
	}
	// ref is a text stored among the names of statistics.
	ref string
)

func varintField(b []byte, n pw.Number, v uint64) []byte {
	return pw.AppendVarint(pw.AppendTag(b, n, pw.VarintType), v)
}

func bytesField(b []byte, n pw.Number, v []byte) []byte {
	return pw.AppendBytes(pw.AppendTag(b, n, pw.BytesType), v)
}

func (x xspace) encode() []byte {
	var out []byte
	for _, p := range x {
		out = bytesField(out, 1, p.encode())
	}
	return bytesField(out, 4, []byte("host"))
}

// numbers assigns numbers to names. firstNumber makes them different from positions.
type numbers map[string]int64

const firstNumber = 200

func (n numbers) of(name string) uint64 {
	id, ok := n[name]
	if !ok {
		id = firstNumber + int64(len(n))
		n[name] = id
	}
	return uint64(id)
}

func (n numbers) encode(out []byte, field pw.Number) []byte {
	var names []string
	for name := range n {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		meta := bytesField(varintField(nil, 1, n.of(name)), 2, []byte(name))
		out = bytesField(out, field, bytesField(varintField(nil, 1, n.of(name)), 2, meta))
	}
	return out
}

func (p xplaneT) encode() []byte {
	events, stats := numbers{}, numbers{}
	var lines []byte
	for i, l := range p.lines {
		var line []byte
		line = varintField(line, 1, uint64(i+1))
		line = bytesField(line, 2, []byte(l.name))
		line = varintField(line, 3, uint64(l.timestamp))
		for _, e := range l.events {
			line = bytesField(line, 4, e.encode(events, stats))
		}
		lines = bytesField(lines, 3, line)
	}
	out := bytesField(nil, 2, []byte(p.name))
	names := stats.encode(events.encode(nil, 4), 5)
	if p.namesFirst {
		return append(append(out, names...), lines...)
	}
	return append(append(out, lines...), names...)
}

func (e xevent) encode(events, stats numbers) []byte {
	out := varintField(nil, 1, events.of(e.name))
	out = varintField(out, 2, uint64(e.offset))
	out = append(varintField(out, 3, uint64(e.duration)), e.other...)
	for _, s := range e.stats {
		b := varintField(nil, 1, stats.of(s.name))
		switch v := s.value.(type) {
		case int64:
			b = varintField(b, 4, uint64(v))
		case uint64:
			b = varintField(b, 3, v)
		case float64:
			b = pw.AppendFixed64(pw.AppendTag(b, 2, pw.Fixed64Type), math.Float64bits(v))
		case string:
			b = bytesField(b, 5, []byte(v))
		case []byte:
			b = bytesField(b, 6, v)
		case ref:
			b = varintField(b, 7, stats.of(string(v)))
		}
		out = bytesField(out, 4, b)
	}
	return out
}

// alloc and free return events of a BFC allocator with inUse bytes afterwards.
func alloc(offset int64, addr, size, inUse int64, op string) xevent {
	return xevent{name: "MemoryAllocation", offset: offset, stats: append(state(addr, size, inUse),
		xstat{"tf_op", ref(op)}, xstat{"region_type", ref("temp")}, xstat{"data_type", int64(1)}, xstat{"shape", ref("[4]")})}
}

func free(offset int64, addr, size, inUse int64) xevent {
	return xevent{name: "MemoryDeallocation", offset: offset, stats: state(addr, size, inUse)}
}

func state(addr, size, inUse int64) []xstat {
	const limit = 1 << 20
	return []xstat{{"allocator_name", ref("GPU_0_bfc")}, {"bytes_reserved", int64(0)}, {"bytes_allocated", inUse}, {"bytes_available", limit - inUse},
		{"fragmentation", 0.25}, {"peak_bytes_in_use", int64(5000)}, {"requested_bytes", size - 1}, {"allocation_bytes", size}, {"addr", addr}}
}

// read reads an encoded XSpace and checks the model.
func read(t testing.TB, data []byte) (*lifetime.Capture, error) {
	t.Helper()
	b := build.New(build.Everything)
	if err := xplane.ReadAt("x", bytes.NewReader(data), int64(len(data)), b); err != nil {
		return nil, err
	}
	c, err := b.Finish()
	if err == nil {
		if broken := c.Check(); broken != nil {
			t.Error(broken)
		}
	}
	return c, err
}

func mustRead(t testing.TB, x xspace) *lifetime.Capture {
	t.Helper()
	c, err := read(t, x.encode())
	if err != nil {
		t.Fatal(err)
	}
	return c
}
