package formats_test

import (
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
	shape := level{4: {}, 5: {6: {}, 17: {}}}
	stats := level{}
	for pattern, top := range map[string]level{
		"../testdata/xplane/tf_leak.xplane.pb": {1: {3: {4: {4: stats}}, 4: {2: {5: stats}}, 5: {2: {}}, 6: stats}},
		"../testdata/xplane/sharded.hlo.pb": {
			1: {3: {2: {3: shape, 7: {}}, 4: {}}, 4: {}, 7: {1: {2: {}}}, 8: {1: {}}, 12: {5: {}}, 14: {5: {}}, 15: {}, 17: {3: {}, 4: {}}},
			3: {1: {3: {}}, 3: {9: {}}, 4: {1: {}}}},
		"../testdata/jaxprof/leak_after.memory.prof": {2: {3: {}}, 4: {4: {}}, 5: {}}, // 1 tells the format
	} {
		data, added := nativetest.Contents(t, pattern)[0], 0
		newer := withUnknown(t, data, top, &added)
		if readAlike(t, pattern, data, newer); added < 100 {
			t.Errorf("%s: only %d messages", pattern, added)
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

// withUnknown adds a field of each wire type to a message and to the messages in it.
func withUnknown(t *testing.T, message []byte, at level, added *int) (out []byte) {
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		m := protowire.ConsumeFieldValue(number, wire, message[n:])
		if n < 0 || m < 0 {
			t.Fatalf("a damaged message: field %d in %v", number, at)
		}
		if inner, ok := at[number]; ok && wire == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(message[n:])
			out = protowire.AppendBytes(append(out, message[:n]...), withUnknown(t, body, inner, added))
		} else {
			out = append(out, message[:n+m]...)
		}
		message = message[n+m:]
	}
	*added++
	out = protowire.AppendVarint(protowire.AppendTag(out, 2000, protowire.VarintType), 7)
	out = protowire.AppendBytes(protowire.AppendTag(out, 2001, protowire.BytesType), []byte("new"))
	out = protowire.AppendFixed32(protowire.AppendTag(out, 2002, protowire.Fixed32Type), 7)
	return protowire.AppendFixed64(protowire.AppendTag(out, 2003, protowire.Fixed64Type), 7)
}
