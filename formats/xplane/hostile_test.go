package xplane_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime/build"
)

// TestManyLines: a profile may have nearly as many empty threads as bytes. Reading must keep only a little of
// each.
func TestManyLines(t *testing.T) {
	names := xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}}}}.encode()
	plane := bytesField(nil, 2, []byte("/host:CPU"))
	space, err := decoded(names)
	if err != nil {
		t.Fatal(err)
	}
	for p := range each(space, "planes") {
		plane = encoded(t, p.Interface())
	}
	plane = append(plane, bytes.Repeat([]byte{3<<3 | 2, 0}, 200_000)...)
	data := bytesField(nil, 1, plane)
	nativetest.Bounded(t, len(data), 4<<20, 300, func() {
		if c, err := read(t, data); err != nil || c.Spaces[0].Allocations != 3 {
			t.Error(err)
		}
	})
	nativetest.Bounded(t, len(data), 4<<20, 300, func() {
		if _, err := reports(data); err != nil {
			t.Error(err)
		}
	})
}

// countingReader counts the bytes that are read of a file.
type countingReader struct {
	*bytes.Reader
	n int
}

func (c *countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(p, at)
	c.n += n
	return n, err
}

// TestDisorder: the number of passes over a profile does not depend on how many threads have unordered events,
// or how badly.
func TestDisorder(t *testing.T) {
	var threads, launching []xline
	for i := range int64(1000) {
		threads = append(threads, xline{timestamp: 1000, events: []xevent{story[1], story[0]}})
		launching = append(launching, xline{timestamp: 1000, events: []xevent{
			alloc(5e6, 0x1000*(i+1), 512, 512*(i+1), ""), around("launch", 1, 2, launches(5, i)...), alloc(6e6, 0x800000+0x1000*i, 512, 512*(i+1), ""),
		}})
	}
	backwards := xline{timestamp: 1000}
	for i := range int64(20_000) {
		backwards.events = append(backwards.events, alloc(1e9-i, i*512, 512, 512, "Relu"))
	}
	for name, c := range map[string]struct {
		lines   []xline
		perByte int
	}{"many lines": {threads, 10}, "launches only": {launching, 10}, "one line": {[]xline{backwards}, 40}} {
		data := xspace{{name: "/host:CPU", lines: c.lines}}.encode()
		in := &countingReader{Reader: bytes.NewReader(data)}
		b := build.New(build.Everything)
		if err := xplane.ReadAt("x", in, int64(len(data)), b); err != nil {
			t.Fatal(err)
		}
		if in.n > c.perByte*len(data) {
			t.Errorf("%s: %d bytes are read of a file of %d", name, in.n, len(data))
		}
	}
}

// TestManyPlanes: a file of empty planes is refused.
func TestManyPlanes(t *testing.T) {
	data := bytes.Repeat([]byte{1<<3 | 2, 0}, 200_000)
	nativetest.Bounded(t, len(data), 4<<20, 200, func() {
		if _, err := read(t, data); err == nil || !strings.Contains(err.Error(), "more than 100000 planes at byte 200000") {
			t.Error(err)
		}
	})
}
