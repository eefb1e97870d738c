package lifetime_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
)

// TestSlice cuts every capture at random: the parts are sound, have the levels
// that the whole has at every instant, and their allocations and frees add up.
func TestSlice(t *testing.T) {
	n := 0
	for _, pattern := range []string{"torchsnap/*.pickle", "chrome/*.json.gz", "xplane/tf_*.pb", "labelled/d2*.pickle.zst"} {
		files, err := filepath.Glob(filepath.Join("../testdata", pattern))
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

// levelsAreSums checks the level at an instant against what is alive then.
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
	at := func(share float64) func(*lifetime.Space) int64 {
		return func(s *lifetime.Space) int64 { return s.Begin + int64(share*float64(s.End-s.Begin)) }
	}
	parts := []*lifetime.Capture{c.Slice(at(0), at(x)), c.Slice(at(x), at(y)), c.Slice(at(y), at(1))}
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

// TestFilter: the buffers that are asked for, and their levels, whatever the rest
// is; together the parts have all of them.
func TestFilter(t *testing.T) {
	for _, pattern := range []string{"torchsnap/*.pickle", "xplane/*.pb", "jaxprof/*.prof"} {
		files, err := filepath.Glob(filepath.Join("../testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			c, err := formats.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			large := c.Filter(func(_ *lifetime.Space, b *lifetime.Buffer) bool { return b.Size >= 1<<20 })
			small := c.Filter(func(_ *lifetime.Space, b *lifetime.Buffer) bool { return b.Size < 1<<20 })
			for _, part := range []*lifetime.Capture{large, small} {
				if err := part.Check(); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			}
			for i, s := range c.Spaces {
				at := s.Peak(lifetime.Occupied).At
				if n, m := len(large.Spaces[i].LiveAt(at)), len(small.Spaces[i].LiveAt(at)); n+m != len(s.LiveAt(at)) {
					t.Errorf("%s %s: %d and %d of %d buffers", file, s.ID(), n, m, len(s.LiveAt(at)))
				}
			}
		}
	}
}
