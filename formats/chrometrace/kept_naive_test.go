package chrometrace_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// happened is a [memory] event of a generated trace.
type happened struct {
	us, bytes, total, reserved int64
	device                     int64 // -1 = the host
}

// TestKeptCallsByHand compares the changes during calls with sums over all events, in
// traces where one call encloses thousands.
func TestKeptCallsByHand(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		totalled := seed%2 == 0 // the allocator records its total
		var events []happened
		var lines []string
		devices, totals := []int64{0, -1}, map[int64]int64{}
		for i := range 3000 {
			e := happened{us: int64(i + rng.IntN(2)), device: devices[min(rng.IntN(4), 1)], reserved: int64(rng.IntN(5)) << 20}
			if i > 0 {
				e.us = max(e.us, events[i-1].us)
			}
			e.bytes = int64(1+rng.IntN(1000)) * 64
			if rng.IntN(2) == 0 {
				e.bytes = -e.bytes
			}
			if i == 2999 { // frees everything
				e.bytes = -1<<30 - totals[e.device]
			}
			totals[e.device] += e.bytes
			e.total = 1<<30 + totals[e.device]
			events = append(events, e)
			kind, fields := 1, ""
			if e.device < 0 {
				kind = 0
			}
			if totalled {
				fields = fmt.Sprintf(`"Total Allocated": %d, "Total Reserved": %d, `, e.total, e.reserved)
			}
			lines = append(lines, fmt.Sprintf(`{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":7,"tid":1,"ts":%d,"args":{%s"Bytes":%d,"Device Id":%d,"Device Type":%d,"Addr":%d}}`,
				e.us, fields, e.bytes, e.device, kind, 4096+i*64))
		}
		type span struct{ begin, end int64 }
		var spans []span
		for i := range 120 {
			s := span{begin: int64(rng.IntN(3000))}
			s.end = s.begin + int64(rng.IntN(1<<rng.IntN(13)))
			if i == 0 {
				s = span{0, 4000}
			}
			spans = append(spans, s)
			lines = append(lines, ran("cpu_op", fmt.Sprintf("op%d_%d", i, s.end-s.begin), fmt.Sprint(i), fmt.Sprint(s.begin), fmt.Sprint(s.end-s.begin), ``))
		}
		rng.Shuffle(len(lines[3000:]), func(i, j int) { lines[3000+i], lines[3000+j] = lines[3000+j], lines[3000+i] })

		var want []string
		for i, s := range spans {
			from := slices.IndexFunc(events, func(e happened) bool { return e.us >= s.begin && e.us <= s.end })
			if from < 0 {
				continue
			}
			var last happened
			for _, e := range events {
				if e.us <= s.end {
					last = e
				}
			}
			var c lifetime.Call
			level, before, highest, inside := int64(0), int64(0), int64(0), false
			for _, e := range events {
				if e.device != last.device || e.us > s.end {
					continue
				}
				if e.us >= s.begin && !inside {
					before, highest, inside = level, level, true
				}
				level += e.bytes
				if inside {
					highest = max(highest, level)
					c.Allocated += max(e.bytes, 0)
					c.Freed += max(-e.bytes, 0)
				}
			}
			above := int64(0) // allocated before the trace
			if totalled {
				above, c.Reserved = 1<<30, last.reserved
			}
			want = append(want, fmt.Sprintf("op%d_%d: %g to %g, %g s: before %d after %d peak %d allocated %d freed %d reserved %d",
				i, s.end-s.begin, float64(s.begin)*1000/1e9, float64(s.end)*1000/1e9, float64((s.end-s.begin)*1000)/1e9, before+above, level+above, highest+above, c.Allocated, c.Freed, c.Reserved))
		}
		c := keptCalls(t, "x", strings.NewReader(`{"schemaVersion": 1, "traceEvents": [`+strings.Join(lines, ",\n")+`]}`))
		var got []string
		for i := range c.Calls {
			k := &c.Calls[i]
			got = append(got, fmt.Sprintf("%s: %g to %g, %g s: before %d after %d peak %d allocated %d freed %d reserved %d",
				c.FunctionName(k.Site), k.Begin, k.End, k.Seconds, k.Before, k.After, k.Peak, k.Allocated, k.Freed, k.Reserved))
		}
		slices.Sort(got)
		slices.Sort(want)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("seed %d: %d calls, want %d; the first that differs:\n got %s\nwant %s", seed, len(got), len(want), got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			}
		}
	}
}
