package xprofjson

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"math"

	"github.com/memlane/memlane/render/model"
)

// The messages of XProf's memory_profile.proto.

type snapshotJSON struct {
	Time     int64        `json:"timeOffsetPs,string"`
	Stats    statsJSON    `json:"aggregationStats"`
	Activity activityJSON `json:"activityMetadata"`
}

type statsJSON struct {
	Stack         int64  `json:"stackReservedBytes,string"`
	Heap          int64  `json:"heapAllocatedBytes,string"`
	Free          int64  `json:"freeMemoryBytes,string"`
	Fragmentation double `json:"fragmentation"`
	Peak          int64  `json:"peakBytesInUse,string"`
}

type activityJSON struct {
	Activity  string `json:"memoryActivity"`
	Requested int64  `json:"requestedBytes,string"`
	Occupied  int64  `json:"allocationBytes,string"`
	Addr      uint64 `json:"address,string"`
	Op        string `json:"tfOpName"`
	Step      int64  `json:"stepId,string"`
	Region    string `json:"regionType"`
	DType     string `json:"dataType"`
	Shape     string `json:"tensorShape"`
}

type summaryJSON struct {
	LifetimePeak int64     `json:"peakBytesUsageLifetime,string"`
	Peak         statsJSON `json:"peakStats"`
	PeakTime     int64     `json:"peakStatsTimePs,string"`
	Capacity     int64     `json:"memoryCapacity,string"`
}

type activeJSON struct {
	Snapshot int64 `json:"snapshotIndex,string"`
	Special  int64 `json:"specialIndex,string"`
	Count    int64 `json:"numOccurrences,string"`
}

type moduleJSON struct {
	Name  string `json:"name"`
	Begin int64  `json:"startTimePs,string"`
	End   int64  `json:"endTimePs,string"`
	ID    int64  `json:"id,string"`
	Plane string `json:"planeName"`
}

// double is a number that may be NaN or infinite. Protocol buffers write those as JSON strings.
type double float64

func (d double) MarshalJSON() ([]byte, error) {
	switch f := float64(d); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(f)
	}
}

func (s snapshot) stats() statsJSON {
	r := s.report
	return statsJSON{known(r.Stack), known(r.Allocated), known(r.Available), double(r.Fragmentation), known(r.Peak)}
}

func (s snapshot) activity() activityJSON {
	a := allocationOf(s)
	activity := "ALLOCATION"
	if s.report.Free {
		activity = "DEALLOCATION"
	}
	return activityJSON{activity, a.requested, a.occupied, s.report.Addr, a.op, s.step, a.region, a.dtype, a.shape}
}

func (p *profile) summary() summaryJSON {
	peak := snapshot{report: p.peak}
	stats := peak.stats()
	stats.Peak = usage(p.peak)
	return summaryJSON{p.lifetimePeak, stats, p.peak.RawTime, stats.Peak + stats.Free}
}

// stream writes JSON piece by piece and keeps its first error.
type stream struct {
	w      *bufio.Writer
	err    error
	html   bool // escape characters of HTML
	buffer bytes.Buffer
}

func (s *stream) text(t string) {
	if s.err == nil {
		_, s.err = s.w.WriteString(t)
	}
}

func (s *stream) value(v any) {
	s.buffer.Reset()
	e := json.NewEncoder(&s.buffer)
	e.SetEscapeHTML(s.html)
	s.err = cmp.Or(s.err, e.Encode(v))
	if s.err == nil {
		_, s.err = s.w.Write(bytes.TrimSuffix(model.Escape(s.buffer.Bytes()), []byte("\n")))
	}
}

// streamList writes a member whose value is a list.
func streamList[T any](s *stream, name string, items []T, value func(T) any) {
	s.value(name)
	s.text(":[")
	for i, item := range items {
		if i > 0 {
			s.text(",")
		}
		s.value(value(item))
	}
	s.text("]")
}

func (s *stream) profile(p *profile) {
	snapshotOf := func(n snapshot) any { return snapshotJSON{n.report.RawTime, n.stats(), n.activity()} }
	rows, special := p.rows()
	var shown []snapshot
	for _, r := range rows {
		if r.special == 0 {
			shown = append(shown, r.snapshot)
		}
	}
	s.text("{")
	streamList(s, "memoryProfileSnapshots", shown, snapshotOf)
	s.text(`,"profileSummary":`)
	s.value(p.summary())
	s.text(",")
	next := int64(-1)
	streamList(s, "activeAllocations", rows, func(r *profileRow) any {
		if r.special > 0 {
			return activeJSON{-r.special, r.special - 1, r.count}
		}
		next++
		return activeJSON{next, -1, r.count}
	})
	s.text(",")
	streamList(s, "specialAllocations", special, func(r *profileRow) any { return r.activity() })
	s.text(",")
	streamList(s, "sampledTimelineSnapshots", p.samples(), snapshotOf)
	s.text("}")
}
