package hlo_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
)

// TestLongName: a very long instruction name is not copied in full for every part of its result.
func TestLongName(t *testing.T) {
	const parts = 20_000
	var shapes, buffers []message
	allocation := allocation(0, 8*parts)
	for i := range int64(parts) {
		shapes = append(shapes, array(f32))
		buffers = append(buffers, buffer(i+1, 8, 1, i))
		allocation = allocation.put(9, message{}.num(1, i+1).num(2, 8*i))
	}
	ins := message{}.text(1, strings.Repeat("n", 4096)).text(2, "tuple").put(3, tupleOf(shapes...)).num(35, 1)
	proto := program{instructions: []message{ins}, buffers: buffers, allocations: []message{allocation}}.proto()
	nativetest.Bounded(t, len(proto), 4<<20, 150, func() {
		if _, err := readBare(proto); err != nil {
			t.Error(err)
		}
	})
}
