package xplane_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/outline"
)

// TestPeakAndEnd: reading only the peak and the end gives the same peak and end as reading everything, also if
// the events require all buffers.
func TestPeakAndEnd(t *testing.T) {
	// A block freed at the address of a buffer that has ended. It cannot be from before the window, so its begin
	// depends on earlier events.
	reused := append(story[:len(story):len(story)], free(6_000_000, 0x1000, 512, 1768), free(7_000_000, 0x1010, 128, 1640))
	inputs := map[string][]byte{
		"in order": xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: story}}}}.encode(),
		"out of order": xspace{{name: "/host:CPU", lines: []xline{
			{timestamp: 1000, events: []xevent{story[4], story[0], story[3]}}, {timestamp: 1000, events: []xevent{story[2], story[1]}}}}}.encode(),
		"used before": xspace{{name: "/host:CPU", lines: []xline{{timestamp: 1000, events: reused}}}}.encode(),
	}
	files, err := filepath.Glob("../../testdata/xplane/*.xplane.pb")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d profiles: %v", len(files), err)
	}
	for _, file := range files {
		if inputs[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range inputs {
		t.Run(filepath.Base(name), func(t *testing.T) { comparePeakAndEnd(t, data) })
	}
}

// comparePeakAndEnd compares reading only the peak and the end with reading all buffers.
func comparePeakAndEnd(t *testing.T, data []byte) {
	t.Helper()
	whole, wholeErr := read(t, data)
	b := build.New(build.PeakAndEnd)
	var part *outline.Outline
	err := xplane.ReadAt("x", bytes.NewReader(data), int64(len(data)), b)
	if err == nil {
		part, err = b.FinishOutline()
	}
	if fmt.Sprint(err) != fmt.Sprint(wholeErr) {
		t.Fatalf("error %v, with all buffers %v", err, wholeErr)
	}
	if err != nil {
		return
	}
	part.SetRows()
	want := outline.Of(whole)
	if len(part.Spaces) != len(want.Spaces) || !reflect.DeepEqual(part.Losses, want.Losses) || !reflect.DeepEqual(part.Sites, want.Sites) ||
		!reflect.DeepEqual(part.Stacks, want.Stacks) || !reflect.DeepEqual(part.Frames, want.Frames) {
		t.Fatalf("%d spaces of %d, losses\n got %v\nwant %v", len(part.Spaces), len(want.Spaces), part.Losses, want.Losses)
	}
	for i, s := range want.Spaces {
		s.Recording, part.Spaces[i].Recording = nil, nil // reading only the peak and the end may not keep it
		if !reflect.DeepEqual(part.Spaces[i], s) {
			t.Errorf("%s:\n got %+v\nwant %+v", s.ID(), part.Spaces[i], s)
		}
	}
}
