package render_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/region"
)

// traceEvent is an event of the Chrome format for the JSON importer of Perfetto's
// trace_processor: pid and tid are numbers, ts is in microseconds.
type traceEvent struct {
	Phase    string                     `json:"ph"`
	PID      int64                      `json:"pid"`
	TID      int64                      `json:"tid"`
	TS       json.Number                `json:"ts"`
	Name     string                     `json:"name"`
	Category string                     `json:"cat"`
	ID       string                     `json:"id"`
	Scope    string                     `json:"s"`
	Args     map[string]json.RawMessage `json:"args"`
}

type traceFile struct {
	DisplayTimeUnit string            `json:"displayTimeUnit"`
	OtherData       map[string]string `json:"otherData"`
	TraceEvents     []traceEvent      `json:"traceEvents"`
}

// tracks is the importer's state of a process.
type tracks struct {
	name     string
	counters map[string][]int64
	last     map[string]*big.Rat // time of the last value of a counter
	open     map[string]string   // begun slices: category and name
	begun    map[string]*big.Rat
	buffers  []traceEvent
	points   int
}

// TestPerfettoJSON checks the structure that trace_processor needs. Processes have one name,
// and counters are in order of time. Every asynchronous slice begins once and ends once
// after that, with the same name and category; ids are unique. Counters and slices match
// the spaces.
func TestPerfettoJSON(t *testing.T) {
	ofCaptures(t, func(t *testing.T, c *lifetime.Capture) {
		d := json.NewDecoder(strings.NewReader(string(written(t, c, "perfetto.json", ""))))
		d.DisallowUnknownFields()
		var file traceFile
		if err := d.Decode(&file); err != nil || d.More() {
			t.Fatal(err)
		}
		all := map[int64]*tracks{}
		ids := map[string]bool{}
		for i, e := range file.TraceEvents {
			if all[e.PID] == nil {
				all[e.PID] = &tracks{counters: map[string][]int64{}, last: map[string]*big.Rat{}, open: map[string]string{}, begun: map[string]*big.Rat{}}
			}
			if err := all[e.PID].add(e, ids); err != nil {
				t.Fatalf("event %d, %+v: %v", i, e, err)
			}
		}
		if len(all) != len(c.Spaces) {
			t.Errorf("%d processes, %d spaces", len(all), len(c.Spaces))
		}
		for i, s := range c.Spaces {
			checkTracks(t, s, all[int64(i+1)])
		}
	})
}

// add processes an event like the importer.
func (p *tracks) add(e traceEvent, ids map[string]bool) error {
	ts, ok := new(big.Rat).SetString(string(e.TS))
	if !ok || ts.Sign() < 0 || e.PID < 1 || e.TID != e.PID {
		return fmt.Errorf("time %s", e.TS)
	}
	key := e.Category + " " + e.Name
	switch e.Phase {
	case "M":
		if e.Name == "process_name" {
			if p.name != "" {
				return fmt.Errorf("a second name")
			}
			return json.Unmarshal(e.Args["name"], &p.name)
		}
	case "C":
		var bytes int64
		if err := json.Unmarshal(e.Args["bytes"], &bytes); err != nil || len(e.Args) != 1 {
			return fmt.Errorf("no value: %v", err)
		}
		if last := p.last[e.Name]; last != nil && ts.Cmp(last) <= 0 {
			return fmt.Errorf("a counter goes back in time")
		}
		p.last[e.Name] = ts
		p.counters[e.Name] = append(p.counters[e.Name], bytes)
	case "b":
		if ids[e.ID] || !strings.HasPrefix(e.ID, "0x") || e.Category == "" {
			return fmt.Errorf("an id that was used before, or no category")
		}
		ids[e.ID], p.open[e.ID], p.begun[e.ID] = true, key, ts
		if e.Category == "buffer" {
			p.buffers = append(p.buffers, e)
		}
	case "e":
		if p.open[e.ID] != key || ts.Cmp(p.begun[e.ID]) < 0 {
			return fmt.Errorf("ends what did not begin, or before")
		}
		delete(p.open, e.ID)
	case "i":
		if e.Scope != "p" {
			return fmt.Errorf("a point of scope %q", e.Scope)
		}
		p.points++
	default:
		return fmt.Errorf("phase %q", e.Phase)
	}
	return nil
}

// checkTracks compares a process with its space.
func checkTracks(t *testing.T, s *lifetime.Space, p *tracks) {
	t.Helper()
	if len(p.open) > 0 || p.name == "" || !strings.HasPrefix(p.name, s.ID()) {
		t.Errorf("%s: %d slices do not end", p.name, len(p.open))
	}
	peak, last := int64(0), int64(0)
	for i, n := range p.counters["in use"] {
		if i == 0 {
			peak = n
		}
		peak, last = max(peak, n), n
	}
	end := int64(0)
	for level := range s.Levels(lifetime.Occupied) {
		end = level.Bytes
	}
	if want := s.Peak(lifetime.Occupied).Bytes; peak != want || last != end {
		t.Errorf("%s: the counter has a peak of %d and ends at %d, want %d and %d", p.name, peak, last, want, end)
	}
	reserved := int64(0)
	for _, n := range p.counters["reserved"] {
		reserved = max(reserved, n)
	}
	if _, want := region.Reserved(s); reserved != want {
		t.Errorf("%s: %d reserved, want %d", p.name, reserved, want)
	}
	var have, want int64
	for _, e := range p.buffers {
		var bytes int64
		if err := json.Unmarshal(e.Args["bytes"], &bytes); err != nil {
			t.Error(err)
		}
		have += bytes
	}
	for i := range s.Buffers {
		want += s.Buffers[i].Size
	}
	if len(p.buffers) != len(s.Buffers) || have != want {
		t.Errorf("%s: %d buffers of %d bytes, want %d of %d", p.name, len(p.buffers), have, len(s.Buffers), want)
	}
}

// TestPerfettoJSONTime checks that times are exact microseconds since the first window, even of
// spaces that are farther apart than a float can express, and units for other axes.
func TestPerfettoJSONTime(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: "x"})
	for i, at := range []int64{-1 << 62, 1 << 62, 7} {
		s := b.Space()
		b.Describe(s, lifetime.SpaceInfo{Device: fmt.Sprint("d", i), Axis: []lifetime.Axis{lifetime.Time, lifetime.Time, lifetime.Event}[i]})
		b.Alloc(s, at, build.Block{Addr: 1 << 20, Requested: 1, Occupied: 1})
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	text := string(written(t, c, "perfetto.json", ""))
	for _, want := range []string{
		`"origin_ns":"-4611686018427387905"`, `"name":"d2 (1 µs: 1 event)"`,
		`{"ph":"b","pid":1,"tid":1,"ts":0.001,`, `{"ph":"e","pid":1,"tid":1,"ts":0.002,`,
		`{"ph":"b","pid":2,"tid":2,"ts":9223372036854775.809,`, `{"ph":"b","pid":3,"tid":3,"ts":1,`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
