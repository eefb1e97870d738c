package category

import (
	"math/rand/v2"
	"testing"
)

// TestSubset: buckets are all buffers of their sizes. A few of many equal weights that happen to have the bytes of all gradients are
// none: 3 of 66 packed weights and 1 of their 66 scales have twice those of 88 small gradients.
func TestSubset(t *testing.T) {
	if used := subset(2*(66*131072+22*16384), map[int64]int{5767168: 66, 720896: 66}, 87); used != nil {
		t.Errorf("coincidence: %v", used)
	}
	r := rand.New(rand.NewPCG(1, 0))
	for range 1000 {
		candidates, total, n := map[int64]int{}, int64(0), 0
		for range 1 + r.IntN(8) {
			size, count := r.Int64N(1<<20)+1, 1+r.IntN(3)
			if candidates[size] > 0 {
				continue
			}
			if candidates[size] = count; len(candidates) == 1 || r.IntN(2) == 0 {
				total += size * int64(count)
				n += count
			}
		}
		sum := int64(0)
		for size, is := range subset(total, candidates, n) {
			if is {
				sum += size * int64(candidates[size])
			}
		}
		if sum != total {
			t.Fatalf("%d of %v: found %d", total, candidates, sum)
		}
		if subset(total, candidates, n-1) != nil && len(candidates) == 1 {
			t.Fatalf("%d of %v: more than %d", total, candidates, n-1)
		}
	}
}

// TestSameSizes: a line that clones five equal gradients and the loss has the sizes of all gradients, each time that it is asked.
func TestSameSizes(t *testing.T) {
	for range 100 {
		if ok := sameSizes(map[int64]int{1000: 5, 10: 1}, map[int64]int{1000: 5}); !ok {
			t.Fatal("the sizes of the gradients are not found")
		}
	}
}
