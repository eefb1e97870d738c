package hlo_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// deep is a program of n temporaries, allocated one after the other and freed in reverse, as in the forward and
// backward pass of a deep network.
func deep(n int64) []byte {
	const size = 20480
	var p program
	var placed []int64
	var allocs, frees []message
	for i := range n {
		id := i + 1
		name := fmt.Sprintf("fusion.%d", i)
		p.instructions = append(p.instructions, message{}.text(1, name).text(2, "fusion").put(3, array(f32, size/4)).
			put(7, metadata(fmt.Sprintf("jit(f)/layer%d/dot_general", i))).num(35, id))
		p.buffers = append(p.buffers, buffer(id, size, id))
		placed = append(placed, id, i*size)
		allocs = append(allocs, message{}.num(2, id).text(4, name))
		frees = append(frees, message{}.num(1, 1).num(2, n-i).text(4, fmt.Sprintf("fusion.%d", n-i-1)))
	}
	p.allocations = []message{allocation(0, n*size, placed...)}
	p.traces = []message{trace(append(allocs, frees...)...)}
	return p.proto()
}

// TestDeep: the level of a deep network rises and falls as expected.
func TestDeep(t *testing.T) {
	c, err := readProgram(t, deep(300))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Spaces[0]; len(s.Buffers) != 300 || s.Peak(lifetime.Occupied) != (lifetime.Level{At: 299, Bytes: 300 * 20480}) {
		t.Errorf("%d buffers, peak %v", len(s.Buffers), s.Peak(lifetime.Occupied))
	}
}

// read reads a program into a Capture.
func read(t testing.TB, proto []byte) {
	into := build.New(build.Everything)
	if err := hlo.Read("deep", bytes.NewReader(proto), into); err != nil {
		t.Fatal(err)
	}
	if _, err := into.Finish(); err != nil {
		t.Fatal(err)
	}
}

// TestAllocations: reading allocates each text once. Here a buffer has three texts: its instruction, that of
// its event, and its scopes.
func TestAllocations(t *testing.T) {
	const n = 20_000
	proto := deep(n)
	if per := testing.AllocsPerRun(1, func() { read(t, proto) }) / n; per > 5.2 {
		t.Errorf("%.2f allocations per buffer", per)
	}
}

// BenchmarkRead80k reads a program of 80,000 buffers into a Capture.
func BenchmarkRead80k(b *testing.B) {
	const n = 80_000
	proto := deep(n)
	b.SetBytes(int64(len(proto)))
	b.ReportAllocs()
	for b.Loop() {
		read(b, proto)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/buffer")
}
