package replay

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
)

// TestTrace: a trace is consistent with the outcome, and of the recorded settings with the
// recording.
func TestTrace(t *testing.T) {
	for _, name := range []string{"replay/b16.pickle.zst", "replay/b16.c2.oom.pickle.zst", "replay/b17.pickle.zst", "labelled/d16_warm_cache.pickle.zst"} {
		c, histories := open(t, "../../testdata/"+name)
		h := histories[0]
		for _, conf := range []string{"", "expandable_segments:True"} {
			s, err := Parse(conf)
			if err != nil {
				t.Fatal(err)
			}
			d := Device{Capacity: h.Capacity()}
			trace, reserved, size := h.Trace(s, d), int64(0), int64(0)
			for _, level := range trace.Reserved {
				if level.At <= trace.PeakAt {
					reserved = level.Bytes
				}
			}
			for i := range trace.Segments {
				size += trace.Segments[i].Size()
				if used := trace.Segments[i].Used(); used > trace.Segments[i].Size() {
					t.Errorf("%s %q: %d of %d bytes are used", name, conf, used, size)
				}
			}
			if size != reserved || reserved != trace.PeakReserved {
				t.Errorf("%s %q: %d bytes in segments, %d on the curve, %d of the outcome", name, conf, size, reserved, trace.PeakReserved)
			}
			if conf == "" && h.FromStart() && !trace.OOM {
				sameLevels(t, name, trace.Reserved, region.Levels(c.Spaces[0]))
			}
		}
	}
}

// sameLevels compares levels at every instant.
func sameLevels(t *testing.T, name string, got, want []lifetime.Level) {
	t.Helper()
	at := func(levels []lifetime.Level, instant int64) (bytes int64) {
		for _, l := range levels {
			if l.At > instant {
				break
			}
			bytes = l.Bytes
		}
		return bytes
	}
	for _, l := range got {
		if w := at(want, l.At); w != l.Bytes {
			t.Errorf("%s: %d bytes at %d, recorded %d", name, l.Bytes, l.At, w)
			return
		}
	}
}
