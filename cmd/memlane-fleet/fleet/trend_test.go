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
