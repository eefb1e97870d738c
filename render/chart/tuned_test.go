package chart

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/replay"
	"github.com/memlane/memlane/render/canvas"
)

// tunedOf draws a capture with the recorded settings and with expandable segments.
func tunedOf(t *testing.T, name string, o Options) string {
	t.Helper()
	c, err := formats.Open("../../testdata/replay/b16.pickle.zst", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	h := replay.Of(c.Spaces[0], c.Sources[0].Settings)
	s := replay.Default()
	own := &Tuned{"default (recorded)", false, h.Trace(s, replay.Device{})}
	s.Expandable = true
	other := &Tuned{name, true, h.Trace(s, replay.Device{})}
	var w bytes.Buffer
	if err := Tune(&w, c.Spaces[0].SpaceInfo, "dir/b16.pickle.zst", own, other, o); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

// TestTune: both replays are drawn on one scale: the map of the one that reserves a fifth has a fifth of the rows.
func TestTune(t *testing.T) {
	svg := tunedOf(t, "expandable_segments:True", Options{})
	golden(t, "tune", []byte(svg))
	for _, want := range []string{"1.69 GiB in 21 segments at the peak", "362 MiB in 2 segments at the peak", "reserves 1.69 GiB", "reserves 362 MiB"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q", want)
		}
	}
	if png := tunedOf(t, "x", Options{Format: canvas.PNG}); png != tunedOf(t, "x", Options{Format: canvas.PNG}) {
		t.Error("two drawings differ")
	}
	if svg := tunedOf(t, "</title><script>alert(1)</script>\x00", Options{}); strings.Contains(svg, "<script") || strings.Contains(svg, "\x00") {
		t.Error("a name is not escaped")
	}
}

// TestTuneKeeps: settings that need a little less, but are not recommended, are not praised.
func TestTuneKeeps(t *testing.T) {
	of := func(reserved int64) *replay.Trace {
		return &replay.Trace{Outcome: replay.Outcome{PeakReserved: reserved}, Reserved: []lifetime.Level{{At: 0, Bytes: reserved}}, Segments: []replay.Segment{{Blocks: []replay.Block{{Size: reserved, Used: true}}}}}
	}
	for helps, want := range map[bool]string{true: "x reserves 1.00 MiB less", false: "no setting helps"} {
		var w bytes.Buffer
		if err := Tune(&w, lifetime.SpaceInfo{End: 1, Axis: lifetime.Time}, "", &Tuned{"default", false, of(100 << 20)}, &Tuned{"x", helps, of(99 << 20)}, Options{}); err != nil || !strings.Contains(w.String(), want) {
			t.Errorf("recommended: %t: no %q (%v)", helps, want, err)
		}
	}
}

// TestTuneRefuses: nothing is drawn if nothing was reserved.
func TestTuneRefuses(t *testing.T) {
	empty := &Tuned{"", false, &replay.Trace{}}
	if err := Tune(&bytes.Buffer{}, lifetime.SpaceInfo{End: 1}, "", empty, empty, Options{}); err == nil {
		t.Error("an empty replay was drawn")
	}
}

// TestTuneExtremes draws the largest segments.
func TestTuneExtremes(t *testing.T) {
	huge := &Tuned{"huge", true, &replay.Trace{Outcome: replay.Outcome{PeakReserved: 1<<63 - 1}, Reserved: []lifetime.Level{{At: 0, Bytes: 1<<63 - 1}}}}
	for range 300 {
		huge.Segments = append(huge.Segments, replay.Segment{Blocks: []replay.Block{{Size: 1 << 56, Used: true}, {Size: 1}, {Size: 1 << 55}}})
	}
	var w bytes.Buffer
	if err := Tune(&w, lifetime.SpaceInfo{End: 1<<63 - 1, Axis: lifetime.Time}, "", huge, huge, Options{Width: 1}); err != nil {
		t.Fatal(err)
	}
}
