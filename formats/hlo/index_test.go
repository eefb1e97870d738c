package hlo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestValueIndex compares an index with a map, for ids that are close together, far apart, negative and repeated.
func TestValueIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int64{100, 100_000, math.MaxInt64} {
		var x valueIndex
		want := map[int64]int32{}
		for i := range int32(5000) {
			id := r.Int64N(most) - 5
			if r.IntN(4) == 0 {
				x.remove(id)
				delete(want, id)
			} else {
				x.set(id, i)
				want[id] = i
			}
			for _, id := range []int64{id, id + 1, r.Int64N(most)} {
				got, ok := x.get(id)
				if w, known := want[id]; ok != known || got != w {
					t.Fatalf("ids below %d: %d is %d %t, not %d %t", most, id, got, ok, w, known)
				}
			}
		}
		if len(x.list) > 4*x.n+1024 {
			t.Errorf("ids below %d: the list has %d entries for %d values", most, len(x.list), x.n)
		}
	}
}
