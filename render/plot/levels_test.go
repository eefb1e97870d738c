package plot_test

import (
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/plot"
)

func TestMain(m *testing.M) {
	deep.FixDraws(100)
	os.Exit(m.Run())
}

// TestHighest holds the columns of a line to a look at each instant.
func TestHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const from, to = 10, 34
		levels := []lifetime.Level{{At: from, Bytes: rapid.Int64Range(0, 9).Draw(t, "first")}}
		for _, at := range slices.Sorted(slices.Values(rapid.SliceOf(rapid.Int64Range(from, to+5)).Draw(t, "times"))) {
			levels = append(levels, lifetime.Level{At: at, Bytes: rapid.Int64Range(0, 9).Draw(t, "level")})
		}
		n := rapid.SampledFrom([]int{1, 2, 3, 8, 24}).Draw(t, "columns")
		want := make([]int64, n)
		for k := range want {
			for at := int64(from) + int64(k)*24/int64(n); at < from+int64(k+1)*24/int64(n); at++ {
				before := int64(0)
				for _, l := range levels {
					if l.At == at {
						want[k] = max(want[k], l.Bytes)
					}
					if l.At <= at {
						before = l.Bytes
					}
				}
				want[k] = max(want[k], before)
				for i, l := range levels { // what lasts into the column
					if l.At < at && (i+1 == len(levels) || levels[i+1].At >= at) {
						want[k] = max(want[k], l.Bytes)
					}
				}
			}
		}
		if got := plot.Highest(slices.Values(levels), from, to, n); !slices.Equal(got, want) {
			t.Fatalf("%v in %d columns: %v, want %v", levels, n, got, want)
		}
	})
}
