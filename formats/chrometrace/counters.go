package chrometrace

import (
	"bytes"
	"math"
	"strings"

	"github.com/memlane/memlane/formats/chrometrace/internal/scan"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// counterKey is a counter of a process: its name, and that of one of its
// series.
type counterKey struct{ pid, name, series string }

// memoryWords tell counters of memory from others.
var memoryWords = []string{"memory", "bytes", "allocated", "reserved", "hbm"}

// rates are words of counters that are about memory but no amount of it.
var rates = []string{"bandwidth", "/s", "per second", "utilization", "util", "%", "throughput"}

func aboutMemory(text []byte) bool {
	text = bytes.ToLower(text)
	contains := func(words []string) bool {
		for _, w := range words {
			if bytes.Contains(text, []byte(w)) {
				return true
			}
		}
		return false
	}
	return contains(memoryWords) && !contains(rates)
}

// scales are what counters count in, by what their name holds.
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

// maxCounters bounds the series of counters.
const maxCounters = 10000

// sample is a value of a counter.
type sample struct {
	key   counterKey
	at    int64
	bytes int64
}

// counter takes the values of a counter that is about memory.
func (r *reader) counter(e *scan.Event) {
	named := aboutMemory(e.Name)
	for _, c := range e.Args.Counters {
		if !named && !aboutMemory(c.Name) || !e.TS.OK {
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

// feedCounters makes a space of every counter: its usage is all that is known.
func (r *reader) feedCounters() {
	spaces := map[counterKey]build.SpaceRef{}
	for _, s := range r.samples {
		ref, ok := spaces[s.key]
		if !ok {
			ref = r.b.Space()
			spaces[s.key] = ref
			name := s.key.name
			if s.key.series != "" && len(r.series) > 1 {
				name += "/" + s.key.series
			}
			process := r.rank
			if process == "" {
				process = "pid " + s.key.pid
			}
			r.b.Describe(ref, lifetime.SpaceInfo{Source: r.source, Host: r.host, Process: process, Memory: name, Axis: lifetime.Time, Facts: lifetime.Clock})
		}
		r.b.Total(ref, lifetime.Total{T: r.time(s.at), Bytes: s.bytes, Measure: lifetime.Occupied})
	}
}

// objectEvent is an event in the life of an object that tells its size.
type objectEvent struct {
	pid, id string
	name    uint32
	at      int64
	size    int64
	phase   byte
}

// object takes the creation (N), destruction (D) or state (O) of an object. It
// is a buffer when its size is told.
func (r *reader) object(e *scan.Event) {
	if !e.TS.OK || len(e.ID) == 0 || e.Phase != 'D' && e.Args.Has&scan.HasSize == 0 {
		return
	}
	r.objects = append(r.objects, objectEvent{string(e.PID), string(e.ID), r.names.id(e.Name), e.TS.NS, max(e.Args.Size, 0), e.Phase})
}

// feedObjects makes a space of the objects of each process. Where they lie is
// not told: they are numbered in place of an address.
func (r *reader) feedObjects() {
	type object struct{ pid, id string }
	spaces := map[string]build.SpaceRef{}
	alive := map[object]bool{}
	numbers := map[object]uint64{}
	for _, e := range r.objects {
		ref, ok := spaces[e.pid]
		if !ok {
			ref = r.b.Space()
			spaces[e.pid] = ref
			r.b.Numbered(ref)
			r.b.Describe(ref, lifetime.SpaceInfo{Source: r.source, Host: r.host, Process: "pid " + e.pid, Memory: "objects", Axis: lifetime.Time, Facts: lifetime.Clock})
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
			continue // another state of an object that is known, or an end without a size
		}
		r.b.Report(ref, r.time(e.at), &report)
	}
}
