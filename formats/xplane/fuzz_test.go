package xplane_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// reduced returns a profile with a few lines of each plane, a few events of each kind, and the names that they
// use.
func reduced(t testing.TB, data []byte) []byte {
	space, err := decoded(data)
	if err != nil {
		t.Fatal(err)
	}
	for plane := range each(space, "planes") {
		events, stats := map[int64]bool{}, map[int64]bool{}
		keep(plane, "lines", 3, func(protoreflect.Message) any { return 0 })
		for line := range each(plane, "lines") {
			keep(line, "events", 4, func(event protoreflect.Message) any { return get(event, "metadata_id").Int() })
			keep(line, "events", 40, func(protoreflect.Message) any { return 0 })
			for event := range each(line, "events") {
				events[get(event, "metadata_id").Int()] = true
				for stat := range each(event, "stats") {
					stats[get(stat, "metadata_id").Int()] = true
					stats[int64(get(stat, "ref_value").Uint())] = true
				}
			}
		}
		for field, used := range map[protoreflect.Name]map[int64]bool{"event_metadata": events, "stat_metadata": stats} {
			names := get(plane, field).Map()
			names.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
				if !used[key.Int()] {
					names.Clear(key)
				}
				return true
			})
		}
	}
	return encoded(t, space)
}

// keep leaves the first most messages of each kind in a list.
func keep(m protoreflect.Message, name protoreflect.Name, most int, kind func(protoreflect.Message) any) {
	list := get(m, name)
	if list.List().Len() == 0 {
		return
	}
	few, seen := m.NewField(m.Descriptor().Fields().ByName(name)).List(), map[any]int{}
	for item := range each(m, name) {
		if seen[kind(item)]++; seen[kind(item)] <= most {
			few.Append(protoreflect.ValueOfMessage(item))
		}
	}
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOfList(few))
}

// encoded encodes a profile in the form that profilers write: fields in order, each name once.
func encoded(t testing.TB, space proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(space)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzReadAt reads arbitrary input in all modes: no panic, bounded memory, one clear error or a capture that
// passes Check, and the same peak and end in every mode. If the protobuf library accepts the input, both find
// the same events.
func FuzzReadAt(f *testing.F) {
	f.Add(xspace{{name: "/device:TPU:3"}, {name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}, {timestamp: 5, events: story[:2]}}}}.encode())
	f.Add(xspace{{name: "/host:CPU", namesFirst: true, lines: []xline{{events: []xevent{
		{name: "train", duration: 9, stats: []xstat{{"_r", int64(1)}, {"_pt", int64(1)}, {"_p", int64(2)}}},
		{name: "MemoryAllocation", stats: []xstat{{"_ct", int64(1)}, {"_c", int64(2)}, {"allocator_name", "a"}, {"index_on_host", uint64(3)}}},
	}}}}}.encode())
	f.Add(xspace{{name: "/host:CPU", lines: []xline{
		{events: []xevent{around("$a.py:1 main", 0, 9), around("Execute", 1, 2, launches(5, 7)...)}},
		{events: []xevent{around("Run", 2, 8, launched(5, 7)...), alloc(3e6, 0x1000, 512, 512, "dot"), free(4e6, 0x1000, 512, 0)}},
	}}}.encode())
	for _, data := range nativetest.Contents(f, captures+"/*.xplane.pb", "../../testdata/labelled/*.xplane.pb.zst") {
		f.Add(reduced(f, data))
		if len(data) < 30<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nativetest.Bounded(t, len(data), 16<<20, 10_000, func() { readAnything(t, data) })
		if space, err := decoded(data); err == nil && unambiguous(space) {
			compareEvents(t, encoded(t, space))
		}
	})
}

// unambiguous reports whether the event names of each plane are distinct, as in real profiles. Of two equal
// names this reader uses the last, the oracle both.
func unambiguous(space protoreflect.Message) bool {
	for plane := range each(space, "planes") {
		seen := map[string]bool{}
		for _, name := range namesIn(plane, "event_metadata") {
			if seen[name] {
				return false
			}
			seen[name] = true
		}
	}
	return true
}

func readAnything(t *testing.T, data []byte) {
	if _, err := read(t, data); err != nil {
		nativetest.Message(t, err, 400)
	}
	comparePeakAndEnd(t, data)
	if c, err := reports(data); err == nil {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
}

// reports reads the allocator reports unchanged.
func reports(data []byte) (*lifetime.Capture, error) {
	b := build.New(build.Reports)
	if err := xplane.ReadAt("x", bytes.NewReader(data), int64(len(data)), b); err != nil {
		return nil, err
	}
	return b.Finish()
}

// reported sums the allocator events. Sums wrap.
type reported struct {
	allocations, frees         int
	addr, requested, allocated int64
}

// compareEvents compares the events read from an encoded profile with those that the protobuf library finds.
func compareEvents(t *testing.T, data []byte) {
	t.Helper()
	c, err := reports(data)
	if err != nil {
		t.Fatalf("a complete profile is refused: %v", err)
	}
	var got, want reported
	for _, s := range c.Spaces {
		for r := range s.Reports.All() {
			if r.Free {
				got.frees++
			} else {
				got.allocations++
			}
			got.addr, got.requested, got.allocated = got.addr+int64(r.Addr), got.requested+r.Requested, got.allocated+r.Occupied
		}
	}
	for _, h := range allEvents(t, data) {
		if h.alloc {
			want.allocations++
		} else {
			want.frees++
		}
		want.addr, want.requested, want.allocated = want.addr+h.figure("addr", 0), want.requested+h.figure("requested_bytes", -1), want.allocated+h.figure("allocation_bytes", -1)
	}
	if got != want {
		t.Errorf("%+v, the protobuf library finds %+v", got, want)
	}
}
