package xplane_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
)

// FuzzReadAt reads anything, in all ways: no panic, one clear error or a capture
// that passes Check, and the same peak and end however they are kept.
func FuzzReadAt(f *testing.F) {
	f.Add(xspace{{name: "/device:TPU:3"}, {name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}, {timestamp: 5, events: story[:2]}}}}.encode())
	f.Add(xspace{{name: "/host:CPU", namesFirst: true, lines: []xline{{events: []xevent{
		{name: "train", duration: 9, stats: []xstat{{"_r", int64(1)}, {"_pt", int64(1)}, {"_p", int64(2)}}},
		{name: "MemoryAllocation", stats: []xstat{{"_ct", int64(1)}, {"_c", int64(2)}, {"allocator_name", "a"}, {"index_on_host", uint64(3)}}},
	}}}}}.encode())
	if data, err := os.ReadFile(captures + "/tf_warm_cache.xplane.pb"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := read(t, data); err != nil {
			if msg := err.Error(); strings.ContainsAny(msg, "\n\x1b\x00") || len(msg) > 400 {
				t.Errorf("message %q", msg)
			}
		}
		comparePeakAndEnd(t, data)
		b := lifetime.NewBuilder()
		b.KeepReports()
		if err := xplane.ReadAt("x", bytes.NewReader(data), int64(len(data)), b); err == nil {
			c, err := b.Finish()
			if err == nil {
				err = c.Check()
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
}
