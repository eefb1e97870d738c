package gpumemprof_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/gpumemprof"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

const captures = "../../testdata/gpumemprof/"

// names are the captures in testdata.
var names = []string{"inefficient", "spike", "both", "empty"}

func contentOf(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(captures + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// read reads data and checks the properties of every capture.
func read(t testing.TB, in io.Reader) (*lifetime.Capture, error) {
	t.Helper()
	b := build.New(build.Everything)
	if err := gpumemprof.Read("x.json", in, b); err != nil {
		nativetest.Message(t, err, 300)
		return nil, err
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	return c, nil
}

// losses formats the losses of a capture.
func losses(c *lifetime.Capture) string {
	var all []string
	for _, l := range c.Losses {
		all = append(all, fmt.Sprintf("%s %d %s", l.Reason, l.Count, l.First))
	}
	return strings.Join(all, "; ")
}

// TestGolden compares the whole model of the captures with their native text.
func TestGolden(t *testing.T) {
	for _, name := range names {
		c, err := read(t, bytes.NewReader(contentOf(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Losses) > 0 {
			t.Errorf("%s: %s", name, losses(c))
		}
		nativetest.Golden(t, c, captures+name+".native")
	}
}

const (
	result = `{"function_name":"f","execution_time":0.5,"memory_before":{"timestamp":10,"allocated_memory":100},` +
		`"memory_after":{"timestamp":10.5,"allocated_memory":300,"reserved_memory":400,"inactive_memory":7,"device_id":2},` +
		`"memory_peak":{"timestamp":10.25,"allocated_memory":350},"memory_allocated":250,"memory_freed":50}`
	event = `{"timestamp_ns":5,"event_type":" Sample","device_id":-1,"device_used_bytes":9,"host":"h"}`
)

// TestRecords reads every layout of a file.
func TestRecords(t *testing.T) {
	for _, c := range []struct {
		name, text     string
		calls, samples int
		losses         string
	}{
		{"a list of results", "[" + result + "," + result + "]", 2, 0, ""},
		{"a list of events", " \n[" + event + "]\n", 0, 1, ""},
		{"both in one list", "[" + event + "," + result + "]", 1, 1, ""},
		{"nothing", "[]", 0, 0, ""},
		{"nothing under a key", `{"results":[]}`, 0, 0, ""},
		{"an export", `{"metadata":{"num_results":1},"results":[` + result + `],"snapshots":[{"timestamp":1}]}`, 1, 0, ""},
		{"a case", `{"case":"[{","input":[` + result + `],"output":{"results":[[{}]]}}`, 1, 0, ""},
		{"results and events", `{"results":[` + result + `],"events":[` + event + `]}`, 1, 1, ""},
		{"a key twice", `{"results":[` + result + `],"results":[` + result + `]}`, 2, 0, ""},
		{"odd values of known keys", `{"results":null,"input":7,"events":{"a":[]},"results":[` + result + `]}`, 1, 0, ""},
		{"other records", `{"results":[` + result + `,7,null,"x",[` + result + `],{},` + result + `]}`, 2, 0, "incomplete-record 5 results[1]"},
		{"no name", `[` + strings.Replace(result, `"f"`, `null`, 1) + `,` + strings.Replace(result, `"f"`, `""`, 1) + `]`, 0, 0, "incomplete-record 2 [0]"},
		{"no memory before", `[` + strings.Replace(result, `memory_before`, `memory`, 1) + `]`, 0, 0, "incomplete-record 1 [0]"},
		{"a name that is a number", `[` + strings.Replace(result, `"f"`, `3`, 1) + `,` + result + `]`, 1, 0, "incomplete-record 1 [0]"},
		{"an event without figures", `[{"timestamp_ns":5,"device_total_bytes":7}]`, 0, 0, "incomplete-record 1 [0]"},
		{"cut", `[` + result + `,` + result[:50], 1, 0, "truncated 1 byte " + fmt.Sprint(2+len(result))},
		{"cut at once", `{"results":[`, 0, 0, "truncated 1 byte 12"},
		{"damaged", `[` + result + `,{"a":NaN}]`, 1, 0, "truncated 1 byte " + fmt.Sprint(2+len(result)) + ": invalid character 'N' looking for beginning of value"},
		{"a tower", `[` + result + `,` + strings.Repeat("[", 20000), 1, 0, "truncated 1 byte " + fmt.Sprint(2+len(result)) + ": invalid character '[' exceeded max depth"},
	} {
		have, err := read(t, strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(have.Calls) != c.calls || len(have.Samples) != c.samples || losses(have) != c.losses {
			t.Errorf("%s: %d calls, %d samples, lost %q", c.name, len(have.Calls), len(have.Samples), losses(have))
		}
	}
}

// TestFigures: every number is in its field, and missing numbers are not known.
func TestFigures(t *testing.T) {
	c, err := read(t, strings.NewReader(`{"results":[`+result+`],"events":[`+event+`,
		{"timestamp_ns":6.0,"collector":"stormlog.mps_tracker","host":"unknown","rank":1,"allocator_allocated_bytes":1e3,"allocator_reserved_bytes":9223372036854775807,
		"allocator_inactive_bytes":5,"device_used_bytes":9223372036854775808,"device_total_bytes":8,"metadata":{"memory_capabilities":{"supports_allocator_inactive":false}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	call := c.Calls[0]
	if f, ok := c.FrameOf(call.Site); !ok || f != (frame.Frame{Function: "f", Kind: frame.User}) {
		t.Errorf("site %+v", f)
	}
	call.Site, call.Space = 0, 0
	if want := (lifetime.Call{Begin: 10, End: 10.5, Seconds: 0.5, Before: 100, After: 300, Peak: 350, Reserved: 400, Inactive: 7, Allocated: 250, Freed: 50}); call != want {
		t.Errorf("call %+v", call)
	}
	for i, want := range []struct {
		space  string
		sample lifetime.Sample
	}{
		{"h/cpu", lifetime.Sample{T: 5, Regular: true, Allocated: -1, Reserved: -1, Inactive: -1, DeviceUsed: 9, DeviceTotal: -1}},
		{"rank 1/mps:0", lifetime.Sample{T: 6, Allocated: 1000, Reserved: 1<<63 - 1, Inactive: -1, DeviceUsed: 1<<63 - 1, DeviceTotal: 8}},
	} {
		have := c.Samples[i]
		id := c.Spaces[have.Space].ID()
		if have.Space = 0; have != want.sample || id != want.space {
			t.Errorf("sample %+v of %s, want %v", have, id, want)
		}
	}
	s := c.Spaces[0]
	if peak := s.Peak(lifetime.Occupied); s.ID() != "cuda:2" || !s.UsageOnly() || peak != (lifetime.Level{At: 10250000000, Bytes: 350}) {
		t.Errorf("space %s: peak %v", s.ID(), peak)
	}
	if c.Sources[0].Producer != "stormlog" || c.Spaces[2].Limit != 8 {
		t.Errorf("%+v, %+v", c.Sources[0], c.Spaces[2])
	}
}

// TestRefused: any other file gives one clear error.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "byte 0: the file ends before its results and events",
		"7":                      "byte 1: no results and no events before this byte; expected a list of them",
		`{"a":[]}`:               "byte 8: no results and no events before this byte",
		`{"a":[`:                 "byte 6: the file ends before its results and events",
		"hello":                  "byte 0: invalid character 'h'",
		"[{]":                    "invalid character ']'",
		"{1:2}":                  "write the file again with json.dump",
		strings.Repeat("[", 1e5): "exceeded max depth",
	} {
		if c, err := read(t, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v %v, want %q", text, c, err, want)
		}
	}
	broken := errors.New("broken disk")
	if _, err := read(t, io.MultiReader(strings.NewReader("["+result), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestCut cuts the captures at every byte: complete records are used, with a loss, or there is one clear error.
func TestCut(t *testing.T) {
	for _, name := range names {
		data := contentOf(t, name)
		whole, err := read(t, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		calls, samples := 0, 0
		for at := range len(bytes.TrimSpace(data)) {
			c, err := read(t, bytes.NewReader(data[:at]))
			if err != nil {
				if calls+samples > 0 || !strings.HasPrefix(err.Error(), "byte ") {
					t.Errorf("%s cut at %d: %v", name, at, err)
				}
				continue
			}
			if !strings.HasPrefix(losses(c), "truncated 1 byte ") || len(c.Calls) < calls || len(c.Samples) < samples {
				t.Errorf("%s cut at %d: %d calls, %d samples, lost %q", name, at, len(c.Calls), len(c.Samples), losses(c))
			}
			calls, samples = len(c.Calls), len(c.Samples)
		}
		if calls != len(whole.Calls) || samples != len(whole.Samples) {
			t.Errorf("%s: %d calls and %d samples before the last byte", name, calls, samples)
		}
	}
}

// TestSniff distinguishes these files from others.
func TestSniff(t *testing.T) {
	for _, name := range names {
		if data := contentOf(t, name); !gpumemprof.Sniff(data[:min(len(data), 4096)]) {
			t.Errorf("%s is not recognized", name)
		}
	}
	for text, want := range map[string]bool{
		"[]": true, " [\n] \t": true, `{"events":[]}`: true, `{"case":1,"results":[` + result: true, `{"a":{"events":[{}]},"input":[` + event: true,
		`[` + result: true, `[{"call_count":1,"execution_time":2,"function_name":"f"`: true, `[{"allocator_reserved_bytes":`: true,
		`{"results":[],"events":[` + event: true, `{"results":[],"summary":{"a`: true,
		"": false, "[": false, "{": false, "[]x": false, "[] []": false, "[[]]": false, "[1": false, "{}": false, "x": false, "[{}]": false, "null": false,
		`{"a":{"results":[]}}`: false, `{"results":{}}`: false, `[{"ph":"X","args":{"function_name":"f","execution_time":1}`: false,
		`{"traceEvents":[{"args":{"input":[]}}]}`: false, `{"results":[{"a":1}]}`: false, `[{"function_name":"f"}]`: false,
	} {
		if have := gpumemprof.Sniff([]byte(text)); have != want {
			t.Errorf("%s: %t", text, have)
		}
	}
	others, err := filepath.Glob("../../testdata/*/*")
	if err != nil || len(others) < 100 {
		t.Fatal(len(others), err)
	}
	for _, file := range others {
		data, err := os.ReadFile(file)
		if err == nil && !strings.HasPrefix(filepath.ToSlash(file), captures) && gpumemprof.Sniff(data[:min(len(data), 4096)]) {
			t.Errorf("%s is taken", file)
		}
	}
}

// TestManyDevices: a file cannot create any number of spaces. Records of the devices beyond the limit are
// counted and dropped.
func TestManyDevices(t *testing.T) {
	var b strings.Builder
	b.WriteByte('[')
	for i := range 2 * (build.MaxSpaces + 100) {
		fmt.Fprintf(&b, `{"timestamp_ns":1,"device_used_bytes":1,"device_id":%d},`, i%(build.MaxSpaces+100))
	}
	c, err := read(t, strings.NewReader(strings.TrimSuffix(b.String(), ",")+"]"))
	if err != nil || len(c.Spaces) != build.MaxSpaces || losses(c) != "too-many-spaces 200 [10000]" {
		t.Errorf("%d spaces, lost %s, %v", len(c.Spaces), losses(c), err)
	}
}
