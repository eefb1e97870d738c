package xplane_test

import (
	"bytes"
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
)

// TestManyLines: a profile may have as many threads as it has bytes, for nothing.
// However it is read, each takes no more than what is noted of it.
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
