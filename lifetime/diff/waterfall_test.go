package diff_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
)

// TestWaterfall checks the way from one peak to the other, and that its changes always add up.
func TestWaterfall(t *testing.T) {
	d := compare(t, "torchsnap/pair_before.pickle", "torchsnap/pair_after.pickle")
	var steps []string
	for _, s := range d.Waterfall(0) {
		steps = append(steps, fmt.Sprintf("%s %+d = %d", s.Name, s.Delta>>20, s.Level>>20))
	}
	if have, want := strings.Join(steps, ", "), "<listcomp> (pair.py:9) -16 = 52, duplicate (pair.py:10) -12 = 40, kv_cache (pair.py:11) +5 = 45"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
	files, err := filepath.Glob("../../testdata/meaning/[ak]*.pickle.zst")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for i := range files[1:] {
		d := diff.Compare(judge.Of(open(t, strings.TrimPrefix(files[i], "../../testdata/")).Capture), open(t, strings.TrimPrefix(files[i+1], "../../testdata/")))
		for n := range d.Pairs {
			p := &d.Pairs[n]
			steps := d.Waterfall(n)
			if p.Before == nil || p.After == nil {
				if steps != nil {
					t.Errorf("%s: steps of one side", p.Name)
				}
				continue
			}
			level := p.Before.Peak
			for _, s := range steps {
				if level += s.Delta; level != s.Level || s.Delta == 0 {
					t.Errorf("%s and %s: %+v at %d", files[i], files[i+1], s, level)
				}
			}
			if level != p.After.Peak {
				t.Errorf("%s and %s: the steps end at %d, the peak is %d", files[i], files[i+1], level, p.After.Peak)
			}
		}
	}
}

// TestRenamed checks that buffers of a renamed place are neither gone nor new, unless they may be others: buffers of one size, or two places that could be it.
func TestRenamed(t *testing.T) {
	place := func(function string, sizes ...int64) (all []line) {
		for _, size := range sizes {
			all = append(all, line{function, "m.py", 0, size})
		}
		return all
	}
	d := diff.Compare(
		captureOf(t, slices.Concat(place("old", 100, 100, 50), place("one", 700, 700), place("twin", 30, 60), place("stays", 5))),
		captureOf(t, slices.Concat(place("new", 100, 100, 50), place("other", 700, 700), place("a", 30, 60), place("b", 60, 30), place("stays", 5))))
	want := []string{"gone one (m.py) -1400 -1400", "new other (m.py) 1400 1400", "gone twin (m.py) -90 -90", "new a (m.py) 90 90", "new b (m.py) 90 90"}
	if got := words(d); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
