package torchsnap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRead reads anything: no panic, one clear error or a capture that passes
// Check and survives a trip through native text (readBytes sees to that).
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(captures + "/*.pickle")
	if err != nil || len(files) == 0 {
		f.Fatal("no captures", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 7<<10 {
			f.Add(data)
		}
	}
	const base = 0x7f0000000000
	f.Add(pickled(snapshot(list{segment(0, base, 4096, block(base, 512, 500, "active_allocated"), block(base+512, 512, 9, "active_pending_free"))}, list{
		event("segment_alloc", base, 4096, 0), event("alloc", base, 500, 1, "frames", stackOf("f", "g")), event("free_requested", base, 500, 2),
		event("free_completed", base, 500, 3), event("oom", 0, 5, 4, "device_free", 7), event("snapshot", 0, 5, 5), event("annotate", base, 5, 6, "user_metadata", "m"),
		event("segment_unmap", base, 512, 7)})))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readBytes(t, data); err != nil {
			if msg := err.Error(); strings.ContainsAny(msg, "\n\x1b\x00") || utf8.RuneCountInString(msg) > 300 {
				t.Errorf("message %q", msg)
			}
		}
	})
}
