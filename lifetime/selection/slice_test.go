package selection_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestSlice cuts every capture at random. The parts must pass Check and have the levels of
// the whole at every instant. Their allocations and frees must add up.
func TestSlice(t *testing.T) {
	n := 0
	for _, pattern := range []string{"torchsnap/*.pickle", "chrome/*.json.gz", "xplane/tf_*.pb", "labelled/d2*.pickle.zst"} {
		files, err := filepath.Glob(filepath.Join("../../testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for i, file := range files {
			c, err := formats.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			levelsAreSums(t, file, c, rng)
			for range 3 {
				n++
				cutInThree(t, file, c, rng)
			}
		}
	}
	t.Logf("%d captures cut", n)
}

// levelsAreSums compares levels with the sums of live buffers.
func levelsAreSums(t *testing.T, file string, c *lifetime.Capture, rng *rand.Rand) {
	t.Helper()
	for _, s := range c.Spaces {
		for range 5 {
			at, sum := s.Begin+int64(rng.Float64()*float64(s.End-s.Begin)), int64(0)
			for _, row := range s.Breakdown(at) {
				sum += row.Bytes
			}
			if level := s.LevelAt(at, lifetime.Occupied); level != sum {
				t.Errorf("%s, %s: level %d at %d, but %d bytes are alive", file, s.ID(), level, at, sum)
			}
		}
		if live := s.Summary().Live.Bytes + s.Base + s.StackAt(s.End); !s.UsageOnly() && s.LevelAt(s.End, lifetime.Occupied) != live {
			t.Errorf("%s, %s: level %d at the end, but %d bytes are alive", file, s.ID(), s.LevelAt(s.End, lifetime.Occupied), live)
		}
	}
}

func cutInThree(t *testing.T, file string, c *lifetime.Capture, rng *rand.Rand) {
	t.Helper()
	x, y := rng.Float64(), rng.Float64()
	x, y = min(x, y), max(x, y)
	begin, end := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range c.Spaces {
		if s.Axis != lifetime.ProgramOrder {
			begin, end = min(begin, s.Begin), max(end, s.End)
		}
	}
	at := func(share float64) int64 { return begin + int64(share*float64(end-begin)) }
	parts := []*lifetime.Capture{selection.Slice(c, at(0), at(x)), selection.Slice(c, at(x), at(y)), selection.Slice(c, at(y), end)}
	for k, part := range parts {
		if err := part.Check(); err != nil {
			t.Fatalf("%s, part %d: %v", file, k, err)
		}
	}
	for i, whole := range c.Spaces {
		if whole.Axis == lifetime.ProgramOrder {
			continue
		}
		allocations, frees, cut := 0, 0, true
		for _, part := range parts {
			s := part.Spaces[i]
			cut = cut && s != whole
			if !whole.UsageOnly() {
				allocations += s.Allocations
				frees += s.Frees
				sameLevels(t, file, whole, s)
			}
		}
		if cut && !whole.UsageOnly() && (allocations != counted(whole, false) || frees != counted(whole, true)) {
			t.Errorf("%s %s: %d allocations and %d frees in the parts, %d and %d in the whole", file, whole.ID(), allocations, frees,
				counted(whole, false), counted(whole, true))
		}
	}
}

// counted counts the recorded allocations or frees of buffers.
func counted(s *lifetime.Space, frees bool) (n int) {
	for _, b := range s.Buffers {
		if frees && b.Edge&(lifetime.EndOpen|lifetime.EndInferred) == 0 || !frees && b.Edge&(lifetime.BeginUnseen|lifetime.SiteFromFree) == 0 {
			n++
		}
	}
	return n
}

// sameLevels compares the levels of a part with those of the whole.
func sameLevels(t *testing.T, file string, whole, part *lifetime.Space) {
	t.Helper()
	live := func(s *lifetime.Space, at int64) (n, bytes int64) {
		for _, i := range s.LiveAt(at) {
			n++
			bytes += s.Buffers[i].Size
		}
		return n, bytes
	}
	for k := int64(0); k < 5; k++ {
		at := part.Begin + k*(part.End-part.Begin)/5
		n, bytes := live(part, at)
		m, want := live(whole, at)
		if n != m || bytes != want {
			t.Fatalf("%s %s at %d: %d buffers of %d bytes, the whole has %d of %d", file, whole.ID(), at, n, bytes, m, want)
		}
	}
}

// TestSliceParts: regions, totals, marks, stack, calls and samples of a part.
func TestSliceParts(t *testing.T) {
	const open = lifetime.EndOpen
	marks := []lifetime.Mark{{Begin: 10, End: 20}, {Begin: 10, End: 21}, {Begin: 19, End: 19}, {Begin: 20, End: 20}, {Begin: 59, End: 70}, {Begin: 60, End: 70}}
	whole := &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Begin: 0, End: 100}, Marks: marks, Buffers: []lifetime.Buffer{{Begin: 5, End: 100, Edge: open | lifetime.Pending}, {Begin: 6, End: 50}, {Begin: 7, End: 80}}, FreeSites: []lifetime.SiteID{0, 1, 2}, Regions: []lifetime.Region{{Begin: 1, End: 20}, {Begin: 2, End: 21}, {Begin: 3, End: 100, Edge: open}, {Begin: 59, End: 90}, {Begin: 60, End: 90}}, Totals: []lifetime.Total{{T: 19}, {T: 20}, {T: 59}, {T: 60}}, Stack: []lifetime.Level{{At: 5, Bytes: 1}, {At: 20, Bytes: 2}, {At: 59, Bytes: 3}, {At: 60, Bytes: 4}}}
	program := &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Axis: lifetime.ProgramOrder, End: 100}}
	c := &lifetime.Capture{Spaces: []*lifetime.Space{whole, program},
		Calls:   []lifetime.Call{{End: 19e-9}, {End: 20e-9}, {Begin: 59e-9, End: 1}, {Begin: 60e-9, End: 1}},
		Samples: []lifetime.Sample{{T: 19}, {T: 20}, {T: 59}, {T: 60}},
	}
	part := selection.Slice(c, 20, 60)
	s := part.Spaces[0]
	for _, list := range []struct{ name, have, want string }{
		{"marks", fmt.Sprint(s.Marks), fmt.Sprint([]lifetime.Mark{marks[1], marks[3], marks[4]})},
		{"regions", fmt.Sprint(s.Regions), fmt.Sprint([]lifetime.Region{{Begin: 20, End: 21, Edge: lifetime.BeginUnseen}, {Begin: 20, End: 60, Edge: lifetime.BeginUnseen | open}, {Begin: 59, End: 60, Edge: open}})},
		{"totals", fmt.Sprint(s.Totals), fmt.Sprint(whole.Totals[1:3])},
		{"stack", fmt.Sprint(s.Stack), fmt.Sprint([]lifetime.Level{{At: 20, Bytes: 2}, {At: 59, Bytes: 3}})},
		{"free sites", fmt.Sprint(s.FreeSites), "[0 1 0]"},
		{"calls", fmt.Sprint(part.Calls), fmt.Sprint(c.Calls[1:3])},
		{"samples", fmt.Sprint(part.Samples), fmt.Sprint(c.Samples[1:3])},
		{"a free that is not complete yet", fmt.Sprint(s.Buffers[0].Edge), fmt.Sprint(open | lifetime.BeginUnseen)},
		{"the same at the end", fmt.Sprint(selection.Slice(c, 20, 100).Spaces[0].Buffers[0].Edge), fmt.Sprint(open | lifetime.BeginUnseen | lifetime.Pending)},
	} {
		if list.have != list.want {
			t.Errorf("%s: %s, want %s", list.name, list.have, list.want)
		}
	}
	if part.Spaces[1] != program || selection.Slice(c, 0, 100).Spaces[0] != whole || selection.Slice(c, -5, 200).Spaces[0] != whole || selection.Slice(c, 60, 60).Spaces[0] != whole {
		t.Error("spaces that are not cut have changed")
	}
}

// TestFilter: a selection by size keeps exactly the buffers of that size.
// TestName: Name selects buffers by their recorded name or what holds them.
func TestName(t *testing.T) {
	c, err := formats.Open("../../testdata/torchsnap/held.pickle", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{`^model\.layers\.\d\.weight$`: 2, "exp_avg": 4, "^optimizer$": 4, "in the graph of history": 48, `^history\[\d+\]$`: 12, "reference cycle": 1, ".": 124} {
		part, err := (&selection.Selection{Name: regexp.MustCompile(pattern)}).Buffers(c)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
		} else if got := len(part.Spaces[0].LiveAt(part.Spaces[0].AtEnd())); got != want {
			t.Errorf("%s: %d buffers, want %d", pattern, got, want)
		}
	}
	_, err = (&selection.Selection{Name: regexp.MustCompile("teacher")}).Buffers(c)
	if err == nil || !strings.Contains(err.Error(), `has a recorded name or holder that matches "teacher"`) {
		t.Error(err)
	}
}

func TestFilter(t *testing.T) {
	for _, pattern := range []string{"torchsnap/*.pickle", "xplane/*.pb", "jaxprof/*.prof"} {
		files, err := filepath.Glob(filepath.Join("../../testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			c, err := formats.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			large, err := (&selection.Selection{MinSize: 1 << 20}).Buffers(c)
			if _, nothing := err.(*selection.NothingError); nothing {
				continue
			}
			if err == nil {
				err = large.Check()
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for i, s := range c.Spaces {
				at, want := s.Peak(lifetime.Occupied).At, 0
				for _, live := range s.LiveAt(at) {
					if s.Buffers[live].Size >= 1<<20 {
						want++
					}
				}
				if got := len(large.Spaces[i].LiveAt(at)); got != want {
					t.Errorf("%s %s: %d buffers of 1 MiB and more live at the peak, want %d", file, s.ID(), got, want)
				}
			}
		}
	}
}
