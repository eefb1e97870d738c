package xplane_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// schema is the part of xplane.proto that the oracle reads.
const schema = `
name: "xplane.proto" syntax: "proto3"
message_type: { name: "XSpace"
	field: { name: "planes" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".XPlane" } }
message_type: { name: "XPlane"
	field: { name: "name" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
	field: { name: "lines" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".XLine" }
	field: { name: "event_metadata" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".XPlane.EventMetadataEntry" }
	field: { name: "stat_metadata" number: 5 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".XPlane.StatMetadataEntry" }
	nested_type: { name: "EventMetadataEntry" options: { map_entry: true }
		field: { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
		field: { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".XName" } }
	nested_type: { name: "StatMetadataEntry" options: { map_entry: true }
		field: { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
		field: { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".XName" } } }
message_type: { name: "XName"
	field: { name: "name" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES } }
message_type: { name: "XLine"
	field: { name: "timestamp_ns" number: 3 label: LABEL_OPTIONAL type: TYPE_INT64 }
	field: { name: "events" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".XEvent" } }
message_type: { name: "XEvent"
	field: { name: "metadata_id" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
	field: { name: "offset_ps" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 }
	field: { name: "duration_ps" number: 3 label: LABEL_OPTIONAL type: TYPE_INT64 }
	field: { name: "stats" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".XStat" } }
message_type: { name: "XStat"
	field: { name: "metadata_id" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
	field: { name: "double_value" number: 2 label: LABEL_OPTIONAL type: TYPE_DOUBLE oneof_index: 0 }
	field: { name: "uint64_value" number: 3 label: LABEL_OPTIONAL type: TYPE_UINT64 oneof_index: 0 }
	field: { name: "int64_value" number: 4 label: LABEL_OPTIONAL type: TYPE_INT64 oneof_index: 0 }
	field: { name: "str_value" number: 5 label: LABEL_OPTIONAL type: TYPE_BYTES oneof_index: 0 }
	field: { name: "bytes_value" number: 6 label: LABEL_OPTIONAL type: TYPE_BYTES oneof_index: 0 }
	field: { name: "ref_value" number: 7 label: LABEL_OPTIONAL type: TYPE_UINT64 oneof_index: 0 }
	oneof_decl: { name: "value" } }
`

var spaceType = func() protoreflect.MessageDescriptor {
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(schema), &file); err != nil {
		panic(err)
	}
	known, err := protodesc.NewFile(&file, nil)
	if err != nil {
		panic(err)
	}
	return known.Messages().ByName("XSpace")
}()

// decoded decodes a profile with the protobuf library, without the fields that are not in schema. It panics at
// a map entry without a key.
func decoded(data []byte) (space *dynamicpb.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder panics: %v", p)
		}
	}()
	space = dynamicpb.NewMessage(spaceType)
	return space, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, space)
}

// get returns a field of a message.
func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

// each yields the messages of a list.
func each(m protoreflect.Message, name protoreflect.Name) iter.Seq[protoreflect.Message] {
	return func(yield func(protoreflect.Message) bool) {
		list := get(m, name).List()
		for i := range list.Len() {
			if !yield(list.Get(i).Message()) {
				return
			}
		}
	}
}

// namesIn returns the names of a metadata map by number.
func namesIn(plane protoreflect.Message, field protoreflect.Name) map[int64]string {
	names := map[int64]string{}
	get(plane, field).Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		names[key.Int()] = string(get(value.Message(), "name").Bytes())
		return true
	})
	return names
}

// happened is an allocator event, as the oracle decodes it.
type happened struct {
	at            *big.Int // picoseconds
	offset        int64    // since the timestamp of its line
	alloc         bool
	space         string
	stats         map[string]int64
	texts         map[string]string
	fragmentation string // "none" if missing
	op            string
}

// allEvents returns the allocator events in order of time.
func allEvents(t testing.TB, data []byte) []happened {
	t.Helper()
	space, err := decoded(data)
	if err != nil {
		t.Fatal(err)
	}
	var all []happened
	for plane := range each(space, "planes") {
		if string(get(plane, "name").Bytes()) != "/host:CPU" {
			continue
		}
		events, stats := namesIn(plane, "event_metadata"), namesIn(plane, "stat_metadata")
		for line := range each(plane, "lines") {
			start := new(big.Int).Mul(big.NewInt(get(line, "timestamp_ns").Int()), big.NewInt(1000))
			for event := range each(line, "events") {
				name := events[get(event, "metadata_id").Int()]
				if name != "MemoryAllocation" && name != "MemoryDeallocation" {
					continue
				}
				offset := get(event, "offset_ps").Int()
				h := happened{at: new(big.Int).Add(start, big.NewInt(offset)), offset: offset, alloc: name == "MemoryAllocation",
					stats: map[string]int64{}, texts: map[string]string{}, fragmentation: "none"}
				for stat := range each(event, "stats") {
					h.take(stat, stats)
				}
				all = append(all, h)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y happened) int { return x.at.Cmp(y.at) })
	return all
}

// take reads a statistic that is a number or a text; the text may be a reference to a name.
func (h *happened) take(stat protoreflect.Message, names map[int64]string) {
	key := names[get(stat, "metadata_id").Int()]
	set := stat.WhichOneof(stat.Descriptor().Oneofs().ByName("value"))
	if set == nil {
		return
	}
	text := ""
	switch set.Name() {
	case "int64_value":
		h.number(key, stat.Get(set).Int())
		return
	case "uint64_value":
		h.number(key, int64(stat.Get(set).Uint()))
		return
	case "double_value":
		if key == "fragmentation" {
			h.fragmentation = fmt.Sprint(stat.Get(set).Float())
		}
		return
	case "bytes_value":
		return
	case "str_value":
		text = string(stat.Get(set).Bytes())
	case "ref_value":
		text = names[int64(stat.Get(set).Uint())]
	}
	h.texts[key] = text
	switch key {
	case "allocator_name":
		h.space = text
	case "tf_op":
		h.op = strings.TrimPrefix(text, "(null)")
	}
}

// figure returns a number of the event, or none if it is missing.
func (h *happened) figure(name string, none int64) int64 {
	if v, ok := h.stats[name]; ok {
		return v
	}
	return none
}

func (h *happened) number(key string, v int64) {
	h.stats[key] = v
	switch key {
	case "index_on_host":
		h.space = string(rune('0' + v))
	case "fragmentation":
		h.fragmentation = fmt.Sprint(float64(v))
	}
}

// replayed is the result of a simple replay of one allocator's events.
type replayed struct {
	allocations, frees int
	base               int64 // constant difference between reported and live bytes
	constant           bool
	peak               int64
	atPeak             map[string]int64 // bytes by operation, older buffers and base as ""
}

// replay processes the events of one space with a map of the live buffers. A buffer that is freed without an
// allocation was alive from the beginning.
func replay(all []happened, space string) replayed {
	type block struct {
		size int64
		op   string
	}
	r := replayed{constant: true}
	alive := map[int64]block{}
	opened := map[int64]bool{}
	for _, h := range all { // first: who is older than the window
		if addr := h.stats["addr"]; h.space == space && h.alloc {
			opened[addr] = true
		} else if h.space == space && !opened[addr] {
			opened[addr] = true
			alive[addr] = block{size: h.stats["allocation_bytes"]}
		}
	}
	sum := func() (n int64) {
		for _, b := range alive {
			n += b.size
		}
		return n
	}
	first := true
	for _, h := range all {
		if h.space != space {
			continue
		}
		addr := h.stats["addr"]
		if h.alloc {
			r.allocations++
			alive[addr] = block{h.stats["allocation_bytes"], h.op}
		} else {
			r.frees++
			delete(alive, addr)
		}
		gap := h.stats["bytes_allocated"] - sum()
		if first {
			r.base, first = gap, false
		}
		r.constant = r.constant && gap == r.base
		if level := h.stats["bytes_allocated"] + h.stats["bytes_reserved"]; level > r.peak {
			r.peak = level
			r.atPeak = map[string]int64{"": r.base, "stack": h.stats["bytes_reserved"]}
			for _, b := range alive {
				r.atPeak[b.op] += b.size
			}
		}
	}
	return r
}

// TestReplay compares every capture with a replay that shares no code with the reader: counts, the bytes older
// than the window, the constant difference between reported and live bytes at every event, the peak and its
// breakdown.
func TestReplay(t *testing.T) {
	files, _ := filepath.Glob(captures + "/*.xplane.pb")
	if dir := os.Getenv("MEMLANE_CAPTURES"); dir != "" {
		for _, pattern := range []string{"xplane/tf/*.xplane.pb", "labelled/*.xplane.pb", "public/xplane/*.xplane.pb"} {
			more, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, more...)
		}
	}
	spaces, events := 0, 0
	for _, file := range files {
		if strings.Contains(file, "MANGLED") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(c.Losses, func(l loss.Loss) bool { return l.Reason == loss.TotalMismatch }); i >= 0 {
			t.Errorf("%s: %v", file, c.Losses[i])
		}
		all := allEvents(t, data)
		for _, s := range c.Spaces {
			if s.Axis == lifetime.Time {
				spaces++
				events += s.Allocations + s.Frees
				compare(t, filepath.Base(file), c, s, replay(all, cmp.Or(s.Allocator, strings.TrimPrefix(s.Device, "tpu:"))))
			}
		}
	}
	t.Logf("%d spaces, %d events", spaces, events)
	if spaces < 4 {
		t.Error("too few spaces")
	}
}

func compare(t *testing.T, file string, c *lifetime.Capture, s *lifetime.Space, want replayed) {
	t.Helper()
	peak := s.Peak(lifetime.Occupied)
	if s.Allocations != want.allocations || s.Frees != want.frees || s.Base != want.base || !want.constant || peak.Bytes != want.peak {
		t.Errorf("%s %s: %d allocations, %d frees, base %d, peak %d; replay: %+v", file, s.ID(), s.Allocations, s.Frees, s.Base, peak.Bytes, want)
	}
	got := map[string]int64{"": 0, "stack": 0}
	for _, row := range s.Breakdown(peak.At) {
		if row.Kind == lifetime.FromStack {
			got["stack"] += row.Bytes
		} else {
			got[c.Sites[row.Site].Op] += row.Bytes
		}
	}
	if !maps.Equal(got, want.atPeak) {
		t.Errorf("%s %s: the peak consists of %v; replay: %v", file, s.ID(), got, want.atPeak)
	}
}
