package selection_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestByEvent checks that an axis of events changes instants, but no level: the levels of every capture have the same
// values in the same order, each at its own instant, and the buffers are the same.
func TestByEvent(t *testing.T) {
	changed := 0
	for _, pattern := range []string{"torchsnap/*.pickle", "chrome/*.json.gz", "xplane/*.pb", "labelled/d2*.pickle.zst", "gpumemprof/*.json"} {
		files, err := filepath.Glob(filepath.Join("../../testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			c, err := formats.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			part := *c
			part.Spaces = nil
			for _, s := range c.Spaces {
				by := selection.ByEvent(s)
				part.Spaces = append(part.Spaces, by)
				if by == s {
					continue
				}
				changed++
				keepsLevels(t, file+" "+s.ID(), s, by)
			}
			if err := part.Check(); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if changed < 50 {
		t.Errorf("only %d spaces", changed)
	}
}

func keepsLevels(t *testing.T, name string, s, by *lifetime.Space) {
	t.Helper()
	for _, m := range []lifetime.Measure{lifetime.Occupied, lifetime.Requested} {
		var want, got []int64
		for l := range s.Levels(m) {
			want = append(want, l.Bytes)
		}
		for l := range by.Levels(m) {
			got = append(got, l.Bytes)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the levels differ", name)
		}
		if s.Peak(m).Bytes != by.Peak(m).Bytes {
			t.Errorf("%s: peak %v, want %v", name, by.Peak(m), s.Peak(m))
		}
	}
	for i := range s.Marks {
		if m := &s.Marks[i]; m.Kind == lifetime.OOM && s.LevelAt(m.Begin, lifetime.Occupied) != by.LevelAt(by.Marks[i].Begin, lifetime.Occupied) {
			t.Errorf("%s: another level at failure %d", name, i)
		}
	}
	last := int64(0)
	for c := range by.Changes() {
		if c.T > last+1 && len(by.Regions) == 0 && len(by.Stack) == 0 && len(by.Marks) == 0 {
			t.Errorf("%s: no event from %d to %d", name, last, c.T)
		}
		last = c.T
	}
}
