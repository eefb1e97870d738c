package chrometrace

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// counterKey identifies one series of a counter of a process.
type counterKey struct{ pid, name, series string }

// memoryWords are words in the names of memory counters.
var memoryWords = []string{"memory", "bytes", "allocated", "reserved", "hbm"}

// rateWords are words in the names of counters that measure rates, not bytes.
var rateWords = []string{"bandwidth", "/s", "per second", "utilization", "util", "%", "throughput"}

func aboutMemory(text []byte) bool {
	name := strings.ToLower(string(text))
	contains := func(word string) bool { return strings.Contains(name, word) }
	return slices.ContainsFunc(memoryWords, contains) && !slices.ContainsFunc(rateWords, contains)
}

// scales are the units of counters, by a word in their name.
var scales = []struct {
	word  string
	bytes float64
}{{"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10}, {"(gb)", 1e9}, {"(mb)", 1e6}, {"(kb)", 1e3}}

func scaleOf(name string) float64 {
	name = strings.ToLower(name)
	for _, s := range scales {
		if strings.Contains(name, s.word) {
			return s.bytes
		}
	}
	return 1
}

// maxCounters bounds the number of series.
const maxCounters = 10000

type sample struct {
	key   counterKey
	at    int64
	bytes int64
}

func (r *reader) counter(e *scan.Event) {
	isMemory := aboutMemory(e.Name)
	for _, c := range e.Args.Counters {
		if !isMemory && !aboutMemory(c.Name) || !e.TS.OK {
			continue
		}
		key := counterKey{string(e.PID), string(e.Name), string(c.Name)}
		if !r.series[key] && len(r.series) == maxCounters {
			continue
		}
		r.series[key] = true
		value := c.Value * scaleOf(key.name+" "+key.series)
		if math.IsNaN(value) || value < 0 || value > 1<<60 {
			r.noTimes++
			continue
		}
		r.samples = append(r.samples, sample{key, e.TS.NS, int64(math.Round(value))})
	}
}

// feedCounters adds a space for each series. Only its usage is recorded.
func (r *reader) feedCounters() {
	spaces := map[counterKey]build.SpaceRef{}
	for _, s := range r.samples {
		ref, ok := spaces[s.key]
		if !ok {
			name := s.key.name
			if s.key.series != "" && len(r.series) > 1 {
				name += "/" + s.key.series
			}
			ref = r.addSpace(lifetime.SpaceInfo{Process: cmp.Or(r.rank, "pid "+s.key.pid), Memory: name})
			spaces[s.key] = ref
		}
		r.b.Total(ref, lifetime.Total{T: r.time(s.at), Bytes: s.bytes, Measure: lifetime.Occupied})
	}
}

type objectEvent struct {
	pid, id string
	name    uint32
	at      int64
	size    int64
	phase   byte
}

// object reads the creation (N), destruction (D) or state (O) of an object. Objects with a recorded size are buffers.
func (r *reader) object(e *scan.Event) {
	if !e.TS.OK || len(e.ID) == 0 || e.Phase != 'D' && e.Args.Has&scan.HasSize == 0 {
		return
	}
	r.objects = append(r.objects, objectEvent{string(e.PID), string(e.ID), r.names.id(e.Name), e.TS.NS, max(e.Args.Size, 0), e.Phase})
}

// feedObjects adds a space for the objects of each process. Their addresses are not
// recorded, so they get numbers instead.
func (r *reader) feedObjects() {
	type object struct{ pid, id string }
	spaces := map[string]build.SpaceRef{}
	alive := map[object]bool{}
	numbers := map[object]uint64{}
	for _, e := range r.objects {
		ref, ok := spaces[e.pid]
		if !ok {
			ref = r.addSpace(lifetime.SpaceInfo{Process: "pid " + e.pid, Memory: "objects"})
			spaces[e.pid] = ref
			r.b.Numbered(ref)
		}
		o := object{e.pid, e.id}
		if numbers[o] == 0 {
			numbers[o] = uint64(len(numbers) + 1)
		}
		report := sized(numbers[o], e.size)
		switch {
		case e.phase == 'D' && alive[o]:
			report.Free = true
			alive[o] = false
		case e.phase != 'D' && !alive[o]:
			report.Site = r.b.Site(lifetime.Site{Op: r.names.text(e.name)})
			alive[o] = true
		default:
			continue // another state of a live object, or the end of an unknown one
		}
		r.b.Report(ref, r.time(e.at), &report)
	}
}
