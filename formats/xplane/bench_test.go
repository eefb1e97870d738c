package xplane_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	pw "google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/outline"
)

// The input of the benchmarks: one event in three is an allocator event. cmd/memlane-bench measures whole
// commands in comparison with XProf.
const (
	benchLines  = 16
	benchEvents = 100_000
	benchFiller = 250_000
)

// readBig reads data and keeps all buffers or only those of the peak and the end.
func readBig(t testing.TB, data []byte, peakAndEnd bool) *outline.Outline {
	t.Helper()
	keep := build.Everything
	if peakAndEnd {
		keep = build.PeakAndEnd
	}
	b := build.New(keep)
	if err := xplane.ReadAt("big", bytes.NewReader(data), int64(len(data)), b); err != nil {
		t.Fatal(err)
	}
	if peakAndEnd {
		o, err := b.FinishOutline()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return outline.Of(c)
}

// BenchmarkRead reads a profile into the model: it finds, decodes, merges and pairs the events.
func BenchmarkRead(b *testing.B) {
	data := bigProfile(benchEvents, benchFiller)
	for name, peakAndEnd := range map[string]bool{"AllBuffers": false, "PeakAndEnd": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				readBig(b, data, peakAndEnd)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchEvents, "ns/event")
		})
	}
}

// BenchmarkSkip reads a profile without allocator events.
func BenchmarkSkip(b *testing.B) {
	data := bigProfile(benchLines, benchFiller)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		readBig(b, data, true)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchFiller, "ns/event")
}

// TestAllocations bounds the allocations of reading: their number depends on lines, sites and chunks, not on
// events.
func TestAllocations(t *testing.T) {
	for _, peakAndEnd := range []bool{false, true} {
		allocations := func(n int) float64 {
			data := bigProfile(n, n)
			return testing.AllocsPerRun(2, func() { readBig(t, data, peakAndEnd) })
		}
		fixed, all := allocations(20_000), allocations(60_000)
		if perEvent := (all - fixed) / 40_000; perEvent > 0.01 || fixed > 10_000 {
			t.Errorf("only peak and end: %v: %.4f allocations per event, %.0f for the first 20,000", peakAndEnd, perEvent, fixed)
		}
	}
}

// bigProfile returns a profile with a number of allocator events, with the statistics of a BFC allocator, and
// shorter events of other kinds between them.
func bigProfile(events, filler int) []byte {
	g := bigTrace{rnd: rand.New(rand.NewPCG(1, 2))}
	plane := bytesField(nil, 2, []byte("/host:CPU"))
	for i := range benchLines {
		plane = bytesField(plane, 3, g.line(i, events, filler))
	}
	return bytesField(nil, 1, append(plane, g.names()...))
}

// bigTrace makes events in order of time over all lines.
type bigTrace struct {
	rnd    *rand.Rand
	now    uint64
	inUse  uint64
	blocks []bigBlock
}

type bigBlock struct{ addr, size uint64 }

var bigStats = []string{"allocator_name", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use",
	"requested_bytes", "allocation_bytes", "addr", "tf_op", "id", "region_type", "data_type", "shape"}

// Numbers of the texts that events refer to.
const bigTexts, bigOps = 100, 400

func (g *bigTrace) line(i, events, filler int) []byte {
	out := varintField(bytesField(varintField(nil, 1, uint64(i+1)), 2, fmt.Appendf(nil, "worker/%d", i)), 3, 1_752_000_000_000_000_000)
	var event []byte
	for n := range events / benchLines {
		g.now += g.rnd.Uint64N(5_000_000)
		event = g.event(event[:0])
		out = bytesField(out, 4, event)
		for range filler*(n+1)/events - filler*n/events {
			event = varintField(varintField(varintField(event[:0], 1, 3+g.rnd.Uint64N(2000)), 2, g.now), 3, g.rnd.Uint64N(9_000_000))
			event = stat(stat(event, 20, 4, g.rnd.Uint64N(1<<20)), 21, 7, bigTexts+g.rnd.Uint64N(bigOps))
			out = bytesField(out, 4, event)
		}
	}
	return out
}

// event appends an allocation or a free.
func (g *bigTrace) event(b []byte) []byte {
	kind, block := uint64(1), bigBlock{g.now, 512 << g.rnd.UintN(18)}
	if n := len(g.blocks); n > 0 && (n > 4000 || g.rnd.UintN(2) == 0) {
		i := g.rnd.IntN(n)
		kind, block = 2, g.blocks[i]
		g.blocks[i] = g.blocks[n-1]
		g.blocks = g.blocks[:n-1]
		g.inUse -= block.size
	} else {
		g.blocks = append(g.blocks, block)
		g.inUse += block.size
	}
	b = varintField(varintField(b, 1, kind), 2, g.now)
	for i, v := range []uint64{bigTexts, 0, g.inUse, 1<<37 - g.inUse, 0, g.inUse + 1<<20, block.size - 7, block.size, block.addr,
		bigTexts + g.rnd.Uint64N(bigOps), 5, bigTexts + 1, 14, bigTexts + 2} {
		switch bigStats[i] {
		case "allocator_name", "tf_op", "region_type", "shape":
			b = stat(b, uint64(i+1), 7, v)
		case "fragmentation":
			value := varintField(nil, 1, uint64(i+1))
			b = bytesField(b, 4, pw.AppendFixed64(pw.AppendTag(value, 2, pw.Fixed64Type), 0x3fb0000000000000+g.rnd.Uint64N(1<<30)))
		default:
			b = stat(b, uint64(i+1), 4, v)
		}
	}
	return b
}

func stat(b []byte, id uint64, field pw.Number, v uint64) []byte {
	return bytesField(b, 4, varintField(varintField(nil, 1, id), field, v))
}

// names are the metadata maps.
func (g *bigTrace) names() []byte {
	var out []byte
	add := func(field pw.Number, id uint64, name string) {
		out = bytesField(out, field, bytesField(varintField(nil, 1, id), 2, bytesField(varintField(nil, 1, id), 2, []byte(name))))
	}
	add(4, 1, "MemoryAllocation")
	add(4, 2, "MemoryDeallocation")
	for i := range uint64(2000) {
		add(4, i+3, fmt.Sprintf("ThunkExecute#hlo_op=fusion.%d#", i))
	}
	for i, name := range bigStats {
		add(5, uint64(i+1), name)
	}
	add(5, 20, "run_id")
	add(5, 21, "hlo_op")
	for i := range uint64(bigOps) {
		add(5, bigTexts+i, fmt.Sprintf("train_step/transformer/layer_%d/dot_general", i))
	}
	return out
}
