package category_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// TestAnyAddress: a device gives any address for the next region, so what lies below what tells nothing across regions. With its regions
// moved, a recording may tell less, and never that a parameter is a state.
func TestAnyAddress(t *testing.T) {
	known, kept := 0, 0
	for n, file := range evidence(t) {
		c, err := shared(file)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(n), 7))
		for _, s := range c.Spaces {
			before := categoriesOf(c, s)
			with, space := scattered(c, s, r)
			for i, after := range categoriesOf(with, space) {
				if s.Buffers[i].Edge&lifetime.BeginUnseen == 0 || before[i] != purpose.ModelParameter && before[i] != purpose.OptimizerState {
					continue
				}
				known++
				if after == before[i] {
					kept++
				} else if after != purpose.UnknownCategory {
					t.Errorf("%s: %d bytes at %#x are %v, and %v elsewhere", file, s.Buffers[i].Requested, s.Buffers[i].Addr, before[i], after)
				}
			}
		}
	}
	t.Logf("%d of %d parameters and states are known elsewhere, too", kept, known)
}

// scattered returns a capture whose regions of one space have other places, with gaps between them.
func scattered(c *lifetime.Capture, s *lifetime.Space, r *rand.Rand) (*lifetime.Capture, *lifetime.Space) {
	with, space := *c, *s
	space.Buffers, space.Regions, space.Purposes = slices.Clone(s.Buffers), slices.Clone(s.Regions), nil
	moved := map[uint64]uint64{} // by old address
	next := uint64(1 << 40)
	for _, k := range r.Perm(len(s.Regions)) {
		region := &s.Regions[k]
		if _, ok := moved[region.Addr]; !ok {
			moved[region.Addr] = next
			next += uint64(region.Size) + 64<<20
		}
	}
	for i := range space.Buffers {
		b := &space.Buffers[i]
		for _, region := range s.Regions {
			if offset := b.Addr - region.Addr; offset < uint64(region.Size) {
				b.Addr = moved[region.Addr] + offset
				break
			}
		}
	}
	for i := range space.Regions {
		space.Regions[i].Addr = moved[space.Regions[i].Addr]
	}
	with.Spaces = slices.Clone(c.Spaces)
	with.Spaces[slices.Index(c.Spaces, s)] = &space
	return &with, &space
}

// TestSums: where addresses do not tell parameters from states and copies, the sum of all is known: each of its buffers is one of these, and
// each gradient has a parameter among them.
func TestSums(t *testing.T) {
	for _, c := range []struct {
		folder, name, sum string
		least             float64 // MiB at the peak
	}{
		{"", "n08", purpose.ParametersAndCopies, 10}, {"", "n10", purpose.ParametersAndCopies, 12},
		{"principles", "w10", purpose.ParametersAndStates, 70},
		{"principles", "w14", purpose.ParametersAndCopies, 50}, {"principles", "w11", purpose.ParametersAndCopies, 16},
	} {
		for _, k := range readKnown(t, filepath.Join(testdata, c.folder)) {
			if k.name != c.name {
				continue
			}
			of := map[string]int64{}
			for n, p := range k.judge() {
				if p.Own == "" {
					continue
				}
				if p.Name() != c.sum || p.Alone() != "unknown" || p.How != purpose.Inferred {
					t.Errorf("%s: a buffer of %q is %s, %s", c.name, p.Name(), p.Alone(), p.How)
				}
				of[k.truth[n].category] += k.truth[n].size
			}
			sum := of["parameter"] + of["optimizer_state"]
			if c.sum == purpose.ParametersAndCopies {
				sum += of["cache"] // a list of weights
				delete(of, "cache")
			}
			if float64(sum) < c.least*(1<<20) || of["parameter"]*3 < sum || len(of) > 2 {
				t.Errorf("%s: %v", c.name, of)
			}
		}
	}
}
