package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
)

// TestTrend: of ten noisy days with a regression of stage 3 on day six, the ranks, the day and the first capture are found, and
// nothing else. Without a regression nothing is found.
func TestTrend(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, regression := range []int{6, 11} {
		var trend fleet.Trend
		for day := 1; day <= 10; day++ {
			records, table := causes(64, 8)
			for _, r := range records {
				m := &r.Memories[0]
				if m.Leaked > 0 && day < regression {
					m.Peak, m.ReservedPeak, m.Leaked = m.Peak-m.Leaked, m.ReservedPeak-m.Leaked, 0
				}
				noise := rng.Int64N(20 << 20)
				m.Peak, m.ReservedPeak = m.Peak+noise, m.ReservedPeak+noise
				r.Name = fmt.Sprintf("day%d/%s", day, r.Name)
			}
			roles, err := fleet.ReadRoles(strings.NewReader(table))
			if err != nil {
				t.Fatal(err)
			}
			trend.Add(fmt.Sprint("day", day), of(records...), roles)
		}
		changes := trend.Changes()
		if regression > 10 {
			if len(changes) != 0 {
				t.Errorf("changes without a regression: %+v", changes)
			}
			continue
		}
		if len(changes) != 3 {
			t.Fatalf("%+v", changes)
		}
		for i, measure := range []string{"reserved bytes", "peak", "leaked bytes"} {
			c := changes[i]
			if c.Measure != measure || c.Run != 5 || c.Role != "pipeline stage 3" || len(c.Ranks) != 8 || c.Capture != "day6/rank24.pickle" || (c.After-c.Before-400<<20)>>20 > 10 {
				t.Errorf("%+v", c)
			}
		}
		if r := trend.Runs[0].Kinds["cuda"]; r.Memories != 63 || r.Category != "activation" {
			t.Errorf("%+v", r)
		}
	}
}

// TestTrendOfNoise: of a thousand ranks whose figures only vary, also in two levels or with single spikes, none has a change.
func TestTrendOfNoise(t *testing.T) {
	const mib = 1 << 20
	rng := rand.New(rand.NewPCG(5, 9))
	for name, noise := range map[string]func() float64{
		"normal":  func() float64 { return 100 * rng.NormFloat64() },
		"uniform": func() float64 { return 400 * rng.Float64() },
		"two":     func() float64 { return 200 * float64(rng.IntN(2)) },
		"spikes": func() float64 {
			if rng.IntN(20) == 0 {
				return 800
			}
			return 5 * rng.NormFloat64()
		},
	} {
		var trend fleet.Trend
		for day := range 12 {
			var records []*fleet.Record
			for rank := range 1000 {
				peak := int64((1000 + noise()) * mib)
				records = append(records, &fleet.Record{Name: fmt.Sprintf("day%d/rank%d", day, rank), Memories: []fleet.Memory{{Rank: fmt.Sprintf("rank %d", rank), Device: "cuda:0", Peak: peak}}})
			}
			trend.Add(fmt.Sprint("day", day), of(records...), nil)
		}
		ranks := 0
		for _, c := range trend.Changes() {
			ranks += len(c.Ranks)
		}
		if ranks > 0 {
			t.Errorf("%s: %d of 1,000 have a change", name, ranks)
		}
	}
}
