package replay

import (
	"math/rand/v2"
	"testing"
)

// long returns a history of n events with up to 2,000 live blocks of many sizes.
func long(n int) *History {
	var p program
	rng := rand.New(rand.NewPCG(1, 2))
	var live []int32
	for len(p.events) < n {
		if len(live) > 0 && (len(live) == 2000 || rng.IntN(2) == 0) {
			i := rng.IntN(len(live))
			p.free(live[i])
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		live = append(live, p.alloc(int64(512+rng.IntN(1<<(9+rng.IntN(16))))))
	}
	return &p.History
}

// BenchmarkRun replays a million events. An event takes less than 1 us and 40 B.
func BenchmarkRun(b *testing.B) {
	h := long(1_000_000)
	for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:21"} {
		s, err := Parse(conf)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(conf, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				h.Run(s, Device{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(h.events)), "ns/event")
		})
	}
}
