package xplane_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	pw "google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
)

// forms writes profiles in every form that the wire format allows: numbers of names, order of fields, lengths
// of numbers, unknown fields.
type forms struct {
	*rand.Rand
	numbers map[string]uint64
}

func newForms(seed uint64) *forms {
	f := &forms{rand.New(rand.NewPCG(seed, 1)), map[string]uint64{}}
	ranges := [][2]uint64{{1, 100}, {0, 30}, {100, 200}, {200, 1 << 14}, {1<<14 - 3, 1<<14 + 3}, {1<<16 - 20, 1<<16 + 20}, {1 << 30, 1 << 40}, {1<<64 - 100, 1<<64 - 1}}
	from := ranges[f.IntN(len(ranges))]
	used := map[uint64]bool{}
	for i, name := range formNames {
		r := from
		if f.IntN(3) == 0 {
			r = ranges[f.IntN(len(ranges))]
		}
		if r[0] > math.MaxInt64 && (i < events || i >= texts) {
			r = ranges[0]
		}
		n := r[0] + f.Uint64N(r[1]-r[0])
		for used[n] {
			n++
		}
		f.numbers[name], used[n] = n, true
	}
	return f
}

// formNames are the names in a profile, events first.
var formNames = []string{
	"MemoryAllocation", "MemoryDeallocation", "Relu", "a name",
	"allocator_name", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation", "peak_bytes_in_use", "requested_bytes", "allocation_bytes", "addr",
	"tf_op", "region_type", "shape", "unknown", "another", "GPU_0_bfc", "GPU_1_bfc", "MatMul", "temp",
}

const (
	events = 4  // statistics follow them
	texts  = 18 // texts that statistics may refer to
)

// number returns a number of any length on the wire.
func (f *forms) number() uint64 { return f.Uint64() >> f.IntN(64) }

// value returns the value of a statistic, of any type; usually the type that profilers write.
func (f *forms) value(name string) []byte {
	kind := f.IntN(3) // the usual types
	if f.IntN(6) == 0 {
		kind = 3 + f.IntN(4)
	}
	switch {
	case kind == 3:
		return bytesField(nil, 6, make([]byte, f.IntN(200)))
	case kind == 4 || kind < 3 && name == "fragmentation" && kind != 0:
		return pw.AppendFixed64(pw.AppendTag(nil, 2, pw.Fixed64Type), math.Float64bits(f.Float64()))
	case kind == 5 || kind < 3 && slices.Contains([]string{"allocator_name", "tf_op", "region_type", "shape"}, name):
		text := formNames[texts+f.IntN(len(formNames)-texts)]
		if f.IntN(4) == 0 {
			return bytesField(nil, 5, []byte(text+strings.Repeat("/", f.IntN(150))))
		}
		return varintField(nil, 7, f.numbers[text])
	case kind == 6:
		return nil // a name without a value
	}
	return varintField(nil, pw.Number(3+f.IntN(2)), f.number())
}

// shuffled concatenates fields, usually in order.
func (f *forms) shuffled(fields ...[]byte) []byte {
	if f.IntN(8) == 0 {
		f.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	return bytes.Join(fields, nil)
}

// event returns an event at an offset.
func (f *forms) event(offset uint64) []byte {
	name := formNames[f.IntN(events)]
	fields := [][]byte{varintField(nil, 1, f.numbers[name]), varintField(nil, 2, offset), varintField(nil, 3, f.number())}
	for _, stat := range formNames[events:texts] {
		if f.IntN(4) != 0 {
			number := varintField(nil, 1, f.numbers[stat])
			if f.numbers[stat] == 0 && f.IntN(2) == 0 {
				number = nil // as protocol buffers write 0
			}
			fields = append(fields, bytesField(nil, 4, f.shuffled(number, f.value(stat))))
		}
	}
	switch f.IntN(12) {
	case 0:
		fields = append(fields, varintField(nil, pw.Number(5+f.IntN(3000)), f.number()))
	case 1:
		fields = append(fields, pw.AppendFixed64(pw.AppendTag(nil, 9, pw.Fixed64Type), f.Uint64()))
	case 2:
		fields = append(fields, pw.AppendFixed32(pw.AppendTag(nil, 9, pw.Fixed32Type), f.Uint32()))
	case 3:
		fields = append(fields, bytesField(nil, 9, make([]byte, f.IntN(20_000))))
	}
	if f.IntN(20) == 0 {
		fields = fields[:f.IntN(3)] // short ones
		fields = append(fields, varintField(nil, 2, offset))
	}
	return f.shuffled(fields...)
}

// profile returns a profile with a number of events.
func (f *forms) profile(most int) []byte {
	var lines [][]byte
	offset := uint64(0)
	for most > 0 {
		line := [][]byte{varintField(nil, 3, f.number()>>8)}
		for n := 1 + f.IntN(most); n > 0; n-- {
			line = append(line, bytesField(nil, 4, f.event(offset)))
			offset += 1 + f.Uint64N(1<<20)
			most--
		}
		if f.IntN(4) == 0 {
			line = append(line, bytesField(nil, 2, []byte("a thread")))
		}
		lines = append(lines, bytesField(nil, 3, f.shuffled(line...)))
	}
	var names [][]byte
	for i, name := range formNames {
		meta := f.shuffled(varintField(nil, 1, f.numbers[name]), bytesField(nil, 2, []byte(name)))
		field := pw.Number(5)
		if i < events {
			field = 4
		}
		names = append(names, bytesField(nil, field, bytesField(varintField(nil, 1, f.numbers[name]), 2, meta))) // maps have the key first
	}
	return bytesField(nil, 1, f.shuffled(bytesField(nil, 2, []byte("/host:CPU")), bytes.Join(lines, nil), bytes.Join(names, nil)))
}

// form formats everything that is read of an event.
const form = "at %d free %v in %s: addr %d requested %d occupied %d allocated %d stack %d available %d peak %d fragmentation %s op %q region %q shape %q"

// TestForms compares every statistic of every event, in all forms of the wire format, with the result of the
// protobuf library.
func TestForms(t *testing.T) {
	for seed := range uint64(deep.Or(20, 80)) {
		f := newForms(seed)
		most := 60
		if seed%20 == 0 {
			most = 1500 // more than one window
		}
		data := f.profile(most)
		c, err := reports(data)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var got []string
		for _, s := range c.Spaces {
			for r := range s.Reports.All() {
				fragmentation := "none"
				if r.HasFragmentation {
					fragmentation = fmt.Sprint(r.Fragmentation)
				}
				site := c.Sites[r.Site]
				got = append(got, fmt.Sprintf(form,
					r.RawTime, r.Free, s.Allocator, int64(r.Addr), r.Requested, r.Occupied, r.Allocated, r.Stack, r.Available, r.Peak, fragmentation, site.Op, site.Region, site.Shape))
			}
		}
		var want []string
		for _, h := range allEvents(t, data) {
			want = append(want, fmt.Sprintf(form,
				h.offset, !h.alloc, h.space, h.figure("addr", 0), h.figure("requested_bytes", -1), h.figure("allocation_bytes", -1), h.figure("bytes_allocated", -1),
				h.figure("bytes_reserved", -1), h.figure("bytes_available", -1), h.figure("peak_bytes_in_use", -1), h.fragmentation, h.op, h.texts["region_type"], h.texts["shape"]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("seed %d:\n got %s\nwant %s", seed, got[i], want[i])
					break
				}
			}
			t.Fatalf("seed %d: %d events, the protobuf library finds %d", seed, len(got), len(want))
		}
		if most == 60 {
			comparePeakAndEnd(t, data)
		}
		if whole, err := read(t, data); err != nil || total(whole) != len(want) {
			t.Errorf("seed %d: %d events in order of time, want %d (%v)", seed, total(whole), len(want), err)
		}
	}
}

func total(c *lifetime.Capture) (n int) {
	for _, s := range c.Spaces {
		n += s.Allocations + s.Frees
	}
	return n
}
