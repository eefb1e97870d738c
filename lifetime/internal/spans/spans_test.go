package spans

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveSpans is a Map with an entry for each address. It joins adjacent spans of equal
// value, so tests compare spans after joining.
type naiveSpans map[uint64]int

func (n naiveSpans) spans(lo, hi uint64) []Span[int] {
	var all []Span[int]
	for a := lo; a < hi; a++ {
		if v, ok := n[a]; ok {
			all = append(all, Span[int]{a, a + 1, v})
		}
	}
	return joined(all)
}

// joined joins adjacent spans of equal value.
func joined(all []Span[int]) []Span[int] {
	var out []Span[int]
	for _, s := range all {
		if k := len(out) - 1; k >= 0 && out[k].Hi == s.Lo && out[k].Val == s.Val {
			out[k].Hi = s.Hi
			continue
		}
		out = append(out, s)
	}
	return out
}

// checkSpans verifies the invariants of a Map: no empty span, no empty or full chunk, spans
// in order and disjoint.
func checkSpans[V any](m *Map[V]) error {
	last := uint64(0)
	for c, chunk := range m.chunks {
		if len(chunk) == 0 || len(chunk) >= chunkSpans {
			return fmt.Errorf("chunk %d of %d has %d spans", c, len(m.chunks), len(chunk))
		}
		for _, s := range chunk {
			if s.Lo >= s.Hi || s.Lo < last {
				return fmt.Errorf("span [%d, %d) after %d", s.Lo, s.Hi, last)
			}
			last = s.Hi
		}
	}
	return nil
}

// TestSpansAgainstNaive runs random operations on a Map and on naiveSpans. Many short spans
// make the chunks split.
func TestSpansAgainstNaive(t *testing.T) {
	for _, c := range []struct {
		name          string
		space, longes uint64
		ops, split    int
	}{
		{"crowded", 60, 20, 4000, 1},
		{"chunks split", 12000, 6, 12000, 5},
		{"long cuts over many chunks", 6000, 1500, 3000, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			var m Map[int]
			naive := naiveSpans{}
			chunks := 0
			for op := range c.ops {
				lo := rng.Uint64N(c.space)
				length := rng.Uint64N(c.longes)
				if c.longes > 100 && rng.IntN(20) > 0 {
					length %= 4 // many short ones between the long ones
				}
				hi := lo + length // often empty
				want := naive.spans(lo, hi)
				switch kind := rng.IntN(5); kind {
				case 0, 1:
					if got := joined(m.Set(lo, hi, op)); !slices.Equal(got, want) {
						t.Fatalf("op %d: set(%d, %d) replaced %v, want %v", op, lo, hi, got, want)
					}
					for a := lo; a < hi; a++ {
						naive[a] = op
					}
				case 2:
					if rng.IntN(3) > 0 && c.split > 1 {
						continue // few cuts, so that the map grows
					}
					if got := joined(m.Cut(lo, hi)); !slices.Equal(got, want) {
						t.Fatalf("op %d: cut(%d, %d) = %v, want %v", op, lo, hi, got, want)
					}
					for a := lo; a < hi; a++ {
						delete(naive, a)
					}
				case 4: // at an edge of a span, or anywhere
					for a := lo; a < hi && c.split == 1; a++ {
						delete(naive, a)
					}
					if c.split == 1 {
						m.Remove(lo, hi)
					}
				case 3:
					if got := m.Overlaps(lo, hi); got != (len(want) > 0) {
						t.Fatalf("op %d: Overlaps(%d, %d) = %v, want %v", op, lo, hi, got, want)
					}
					clipped := slices.Collect(m.Overlapping(lo, hi))
					for i := range clipped {
						clipped[i].Lo, clipped[i].Hi = max(clipped[i].Lo, lo), min(clipped[i].Hi, hi)
					}
					if got := joined(clipped); !slices.Equal(got, want) {
						t.Fatalf("op %d: Overlapping(%d, %d) = %v, want %v", op, lo, hi, got, want)
					}
				}
				chunks = max(chunks, len(m.chunks))
				if err := checkSpans(&m); err != nil {
					t.Fatalf("op %d: %v", op, err)
				}
			}
			all := slices.Collect(m.All())
			if want := naive.spans(0, c.space+c.longes); !slices.Equal(joined(all), want) {
				t.Errorf("at the end %d spans, want %d", len(all), len(want))
			}
			if chunks < c.split {
				t.Errorf("at most %d chunks: the test does not reach the splits", chunks)
			}
		})
	}
}

// TestSpansInsertInAnyOrder fills many chunks in ascending, descending and random order.
// The result must be the same.
func TestSpansInsertInAnyOrder(t *testing.T) {
	const n = 5 * chunkSpans
	up := make([]int, n)
	for i := range up {
		up[i] = i
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	for name, order := range map[string][]int{"up": up, "down": down, "shuffled": rand.New(rand.NewPCG(3, 4)).Perm(n)} {
		var m Map[int]
		for _, i := range order {
			m.insert(Span[int]{uint64(2 * i), uint64(2*i + 1), i})
		}
		if err := checkSpans(&m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		i := 0
		for s := range m.All() {
			if s.Val != i {
				t.Fatalf("%s: span %d holds %d", name, i, s.Val)
			}
			i++
		}
		if i != n {
			t.Errorf("%s: %d spans, want %d", name, i, n)
		}
		if removed := m.Cut(0, math.MaxUint64); len(removed) != n || len(m.chunks) != 0 {
			t.Errorf("%s: cutting all removed %d of %d and left %d chunks", name, len(removed), n, len(m.chunks))
		}
	}
}

func TestSpansAtTheEdges(t *testing.T) {
	const top = math.MaxUint64
	var m Map[string]
	m.Set(0, 10, "low")
	m.Set(top-10, top, "high")
	m.Set(5, 5, "empty")
	m.Set(9, 3, "backwards")
	for _, c := range []struct {
		lo, hi uint64
		want   bool
	}{
		{0, 1, true}, {9, 10, true}, {10, 11, false}, {0, 0, false}, {5, 5, false}, {7, 6, false},
		{top - 11, top - 10, false}, {top - 1, top, true}, {top, top, false}, {0, top, true},
	} {
		if got := m.Overlaps(c.lo, c.hi); got != c.want {
			t.Errorf("Overlaps(%d, %d) = %v", c.lo, c.hi, got)
		}
		if got := len(slices.Collect(m.Overlapping(c.lo, c.hi))) > 0; got != c.want {
			t.Errorf("Overlapping(%d, %d) yields one: %v", c.lo, c.hi, got)
		}
	}
	// An empty cut inside a span does not split it.
	if cut := m.Cut(5, 5); cut != nil {
		t.Errorf("an empty cut removed %v", cut)
	}
	want := []Span[string]{{0, 10, "low"}, {top - 10, top, "high"}}
	if got := slices.Collect(m.All()); !slices.Equal(got, want) {
		t.Errorf("spans %v, want %v", got, want)
	}
	// An early stop is allowed.
	for range m.All() {
		break
	}
	for range m.Overlapping(0, top) {
		break
	}
}

func TestEndOfSaturates(t *testing.T) {
	for _, c := range []struct {
		addr uint64
		size int64
		want uint64
	}{
		{0, 0, 0}, {100, 28, 128}, {math.MaxUint64, 1, math.MaxUint64}, {math.MaxUint64 - 5, 10, math.MaxUint64}, {1 << 63, math.MaxInt64, math.MaxUint64},
	} {
		if got := End(c.addr, c.size); got != c.want {
			t.Errorf("End(%d, %d) = %d, want %d", c.addr, c.size, got, c.want)
		}
	}
}
