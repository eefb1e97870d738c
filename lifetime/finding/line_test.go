package finding

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRuns compares the merge of sorted lists with a stable sort.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var got runs[[2]int]
		var want [][2]int // a key, and the number of the list
		for list := range r.IntN(9) {
			keys := make([]int, r.IntN(12))
			for i := range keys {
				keys[i] = r.IntN(20)
			}
			slices.Sort(keys)
			var elements [][2]int
			for _, key := range keys {
				elements = append(elements, [2]int{key, list})
			}
			got.add(elements)
			want = append(want, elements...)
		}
		byKey := func(x, y [2]int) int { return cmp.Compare(x[0], y[0]) }
		slices.SortStableFunc(want, byKey)
		if merged := got.merged(byKey); !slices.Equal(merged, want) {
			t.Fatalf("%v, want %v", merged, want)
		}
	}
}
