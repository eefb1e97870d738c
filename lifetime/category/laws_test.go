package category_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestLaws: answers are complete and of one piece for parts of captures, and for captures in which buffers have the stacks, sizes
// and frees of others. They are the same each time.
func TestLaws(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(meaning, "*[0-9].*.zst"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for n, file := range files {
		if filepath.Ext(file[:len(file)-len(".zst")]) == ".json" && filepath.Base(file) != "a11.trace.json.zst" {
			continue // the truth
		}
		c, err := shared(file)
		if err != nil {
			t.Fatal(err)
		}
		checkLaws(t, file, c)
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for _, s := range c.Spaces {
			if len(s.Buffers) == 0 {
				continue
			}
			from := s.Begin + r.Int64N(max(s.End-s.Begin, 1))
			checkLaws(t, file+", a part", selection.Slice(c, from, from+r.Int64N(max(s.End-from, 1))+1))
		}
		checkLaws(t, file+", shuffled", shuffled(c, r))
	}
}

// shuffled returns a capture in which buffers have stacks, sizes, edges and frees of others.
func shuffled(c *lifetime.Capture, r *rand.Rand) *lifetime.Capture {
	with := *c
	with.Spaces = slices.Clone(c.Spaces)
	for k, s := range c.Spaces {
		space := *s
		space.Buffers = slices.Clone(s.Buffers)
		space.FreeSites = slices.Clone(s.FreeSites)
		for i := range space.Buffers {
			other := &s.Buffers[r.IntN(len(s.Buffers))]
			b := &space.Buffers[i]
			switch r.IntN(6) {
			case 0:
				b.Site = other.Site
			case 1:
				b.Size, b.Requested = other.Size, other.Requested
			case 2:
				b.Edge = other.Edge
			case 3:
				b.End = max(other.End, b.Begin)
			case 4:
				if space.FreeSites != nil {
					space.FreeSites[i] = s.FreeSites[r.IntN(len(s.FreeSites))]
				}
			}
		}
		with.Spaces[k] = &space
	}
	return &with
}

// told returns the answers about all buffers of a copy of c.
func told(c *lifetime.Capture) (all []purpose.Purpose) {
	tables := c.Tables
	tables.Purposes = make([]purpose.Purpose, 1)
	for _, s := range c.Spaces {
		space := *s
		space.Purposes = nil
		category.NewJudge(&tables).Add(&space)
		for i := range space.Buffers {
			all = append(all, tables.Purpose(space.PurposeOf(i)))
		}
	}
	return all
}

func checkLaws(t *testing.T, what string, c *lifetime.Capture) {
	t.Helper()
	evidence := map[string]purpose.Evidence{category.Repeats: purpose.FromLifetime}
	for _, r := range category.Rules {
		evidence[r.Name] = r.Evidence
	}
	all := told(c)
	if !slices.Equal(all, told(c)) {
		t.Errorf("%s: other answers the second time", what)
	}
	checkSizes(t, what, c, all)
	for i, p := range all {
		e, known := evidence[p.Rule]
		if p.IsOfSum() && p.Category == purpose.UnknownCategory {
			e = purpose.FromSize
		}
		if isKnown := p.Alone() != "unknown"; isKnown != known || isKnown != (p.Confidence > 0) || p.Confidence > 1 || e != p.Evidence {
			t.Fatalf("%s: buffer %d: %+v", what, i, p)
		}
	}
}

// checkSizes: what is said to be a gradient has the size of something that is alive over passes, as a parameter is, and nothing is
// said to be data because it lives like that if it has the size of a gradient.
func checkSizes(t *testing.T, what string, c *lifetime.Capture, all []purpose.Purpose) {
	t.Helper()
	n := 0
	for _, s := range c.Spaces {
		lasting, gradients := map[int64]bool{}, map[int64]bool{}
		of := all[n : n+len(s.Buffers)]
		n += len(s.Buffers)
		for i := range s.Buffers {
			switch b := &s.Buffers[i]; {
			case of[i].Rule == "gradient":
				gradients[b.Requested] = true
			case b.Edge&lifetime.BeginUnseen != 0 || of[i].Category != purpose.TemporaryData:
				lasting[b.Requested] = true
			}
		}
		checkStates(t, what, s, of)
		for i := range s.Buffers {
			size := s.Buffers[i].Requested
			if s.Facts&lifetime.EndState != 0 && gradients[size] && !lasting[size] {
				t.Fatalf("%s: nothing but a gradient has %d bytes", what, size)
			}
			if of[i].Rule == "for_forward" && gradients[size] {
				t.Fatalf("%s: buffer %d of %d bytes is data, and others are gradients", what, i, size)
			}
		}
	}
}

// TestIdenticalBuffers: in steps that allocate the same sizes at the same sites in the same order, buffers at the same place of that
// order that are freed by the same stack, as many steps later, have one category. So have those that a backward pass leaves, whichever
// stack frees them: its thread may be the last to drop a gradient.
func TestIdenticalBuffers(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(meaning, "*.pickle.zst"))
	more, _ := filepath.Glob(filepath.Join(testdata, "..", "torchsnap", "*.pickle"))
	pairs := 0
	for _, file := range append(files, more...) {
		c, err := shared(file)
		if err != nil {
			continue // a damaged capture, or one without buffers
		}
		p := program.Of(c)
		for _, s := range c.Spaces {
			pairs += checkIdentical(t, file, c, s, p.Steps(s))
		}
	}
	if pairs < 1000 {
		t.Errorf("%d pairs of identical buffers", pairs)
	}
}

// checkIdentical returns the number of buffers that were compared with one of an earlier step.
func checkIdentical(t *testing.T, file string, c *lifetime.Capture, s *lifetime.Space, steps *program.Steps) (pairs int) {
	type fate struct {
		order string // sites and sizes of the step
		place int
		freed lifetime.SiteID
		later int
	}
	of := map[int][]int{} // buffers by step
	for i := range s.Buffers {
		if k := steps.At(s.Buffers[i].Begin); k >= 0 && s.Buffers[i].Edge&lifetime.BeginUnseen == 0 {
			of[k] = append(of[k], i)
		}
	}
	first := map[fate]int{}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		var order strings.Builder
		for _, i := range of[k] {
			fmt.Fprintln(&order, s.Buffers[i].Site, s.Buffers[i].Requested)
		}
		for place, i := range of[k] {
			b, is := &s.Buffers[i], c.Purpose(s.PurposeOf(i))
			if b.Edge&lifetime.EndOpen != 0 {
				continue
			}
			f := fate{order.String(), place, 0, min(steps.At(b.End-1)-k, 2)}
			switch {
			case is.Phase == purpose.Backward && (is.Category == purpose.Gradient || is.Category == purpose.Activation):
				f.later /= 2
			case s.FreeSites != nil:
				f.freed = s.FreeSites[i]
			}
			j, seen := first[f]
			if !seen {
				first[f] = i
				continue
			}
			pairs++
			if other := c.Purpose(s.PurposeOf(j)); is.Category != other.Category {
				t.Errorf("%s: buffer %d is %s, and the same of another step, %d, %s", file, i, is.Name(), j, other.Name())
			}
		}
	}
	return pairs
}

// checkStates: a size whose older states are counted leaves buffers for the parameters, and what is called a copy of the model has
// parameters of its size, and states or a recorded first step.
func checkStates(t *testing.T, what string, s *lifetime.Space, all []purpose.Purpose) {
	t.Helper()
	counted, copied, others := map[int64]int{}, map[int64]int{}, map[int64]int{}
	for i, p := range all {
		b := &s.Buffers[i]
		switch isOld := b.Edge&lifetime.BeginUnseen != 0; {
		case isOld && p.Rule == "counted_state":
			counted[b.Requested]++
		case isOld && p.Rule == "copied_model":
			copied[b.Requested]++
		default:
			others[b.Requested]++
		}
	}
	for size := range counted {
		if others[size]+others[size/2]+others[4*size] == 0 {
			t.Fatalf("%s: all buffers of %d bytes are states", what, size)
		}
	}
	for size := range copied {
		if others[size] == 0 {
			t.Fatalf("%s: all buffers of %d bytes are copies of a model", what, size)
		}
	}
}
