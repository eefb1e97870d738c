package formats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/mutants"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"google.golang.org/protobuf/encoding/protowire"
)

// level is a message: its fields that are messages, by number.
type level map[protowire.Number]level

// TestUnknownFields: newer programs write fields that readers do not know, in messages of any level. Readers skip them, as readers of protocol
// buffers do.
func TestUnknownFields(t *testing.T) {
	shape := level{5: {6: {}, 17: {}}}
	shape[4] = shape
	stats, sharding := level{}, level{}
	sharding[5] = sharding
	program := level{
		1: {3: {2: {3: shape, 7: {}}, 4: {}}, 4: {}, 7: {1: {2: {}}}, 8: {1: {}}, 12: sharding, 14: sharding, 15: {2: {}}, 17: {3: {}, 4: {}}},
		3: {1: {3: {}}, 3: {9: {}}, 4: {1: {}}}}
	plane := level{3: {4: {4: stats}}, 4: {2: {5: stats}}, 5: {2: {}}, 6: stats}
	for pattern, top := range map[string]level{
		"../testdata/xplane/tf_leak.xplane.pb":       {1: plane},
		"../testdata/xplane/sharded.hlo.pb":          program,
		"../testdata/jaxprof/leak_after.memory.prof": {1: {}, 2: {3: {}}, 4: {4: {}}, 5: {}},
	} {
		data, added := nativetest.Contents(t, pattern)[0], 0
		newer := withUnknown(t, data, top, 0, &added)
		if readAlike(t, pattern, data, newer); added < 100 {
			t.Errorf("%s: only %d messages", pattern, added)
		}
	}
	for _, pattern := range []string{"../testdata/xplane/*.hlo.pb*", "../testdata/hlotext/proto/*.pb"} { // of a profile, each with its programs
		for i, proto := range nativetest.Contents(t, pattern) {
			added := 0
			data, newer := profileOf(proto), withUnknown(t, profileOf(withUnknown(t, proto, program, 2, &added)), level{1: plane}, 0, &added)
			readAlike(t, fmt.Sprint(pattern, i), data, newer)
		}
	}
	for _, pattern := range []string{
		"../testdata/torchsnap/expandable.pickle", "../testdata/torchsnap/held.pickle", "../testdata/chrome/t215_cpu_leak.json.gz",
		"../testdata/chrome/cpu_leak.json.gz", "../testdata/gpumemprof/spike.json",
	} {
		data := nativetest.Contents(t, pattern)[0]
		newer, objects := mutants.WithFields(data, "further")
		if readAlike(t, pattern, data, newer); objects < 8 {
			t.Errorf("%s: only %d objects", pattern, objects)
		}
	}
}

// readAlike checks that a capture with unknown fields is read as without them.
func readAlike(t *testing.T, name string, data, newer []byte) {
	t.Helper()
	text := func(data []byte) string {
		file := filepath.Join(t.TempDir(), "capture")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range c.Sources {
			c.Sources[i].File = name
			c.Sources[i].Settings = slices.DeleteFunc(c.Sources[i].Settings, func(s lifetime.Setting) bool {
				return s.Key == "further" || s.Key == "roundup_power2_divisions" // their keys are data
			})
		}
		c.Losses = slices.DeleteFunc(c.Losses, func(l loss.Loss) bool { return l.Reason == loss.UnknownKey }) // which says so
		return nativetest.Text(t, c)
	}
	if text(newer) != text(data) {
		t.Errorf("%s: with unknown fields it is read differently", name)
	}
}

// profileOf returns an XSpace with one program.
func profileOf(proto []byte) []byte {
	field := func(number protowire.Number, body ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(body...))
	}
	one := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	program := field(4, one, field(2, one, field(2, []byte("jit_f(1)")), field(5, one, field(6, proto))))
	return field(1, field(2, []byte("/host:metadata")), program, field(5, one, field(2, one, field(2, []byte("Hlo Proto")))))
}

// withUnknown adds fields of each wire type to a message and to the messages in it, at both ends. At depths 0 and 1 the first field tells the
// format of a capture, so there they are at the end alone.
func withUnknown(t *testing.T, message []byte, at level, depth int, added *int) (out []byte) {
	if depth > 1 {
		out = unknown()
	}
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		m := protowire.ConsumeFieldValue(number, wire, message[n:])
		if n < 0 || m < 0 {
			t.Fatalf("a damaged message: field %d in %v", number, at)
		}
		if inner, ok := at[number]; ok && wire == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(message[n:])
			out = protowire.AppendBytes(append(out, message[:n]...), withUnknown(t, body, inner, depth+1, added))
		} else {
			out = append(out, message[:n+m]...)
		}
		message = message[n+m:]
	}
	*added++
	return append(out, unknown()...)
}

func unknown() []byte {
	out := protowire.AppendVarint(protowire.AppendTag(nil, 2000, protowire.VarintType), 7)
	out = protowire.AppendBytes(protowire.AppendTag(out, 2001, protowire.BytesType), []byte("new"))
	out = protowire.AppendFixed32(protowire.AppendTag(out, 2002, protowire.Fixed32Type), 7)
	return protowire.AppendFixed64(protowire.AppendTag(out, 2003, protowire.Fixed64Type), 7)
}
