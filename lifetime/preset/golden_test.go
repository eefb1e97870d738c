package preset_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/preset"
)

const goldens = "../../testdata/gpumemprof/golden/"

// goldenCase is an input and the output of the original, by preset.
type goldenCase struct {
	Case   string
	Input  json.RawMessage
	Output map[string]any
}

func casesIn(t testing.TB, file string) []goldenCase {
	t.Helper()
	f, err := os.Open(goldens + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []goldenCase }
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

// capture reads the records of a case as a file.
func capture(t testing.TB, input []byte) *lifetime.Capture {
	t.Helper()
	c, err := formats.Open("-", formats.Input{Stdin: bytes.NewReader(input)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if len(c.Losses) > 0 {
		t.Errorf("lost %v", c.Losses)
	}
	return c
}

// generic returns v after encoding to JSON and decoding.
func generic(t testing.TB, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// difference describes the first difference of two JSON values, "" if there is none. Floats may differ by 1e-9, relative or
// absolute.
func difference(path string, have, want any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok || len(have) != len(want) {
			return fmt.Sprintf("%s: %v, want %v", path, have, want)
		}
		for key := range want {
			if d := difference(path+"."+key, have[key], want[key]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Sprintf("%s: %v, want %v", path, have, want)
		}
		for i := range want {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), have[i], want[i]); d != "" {
				return d
			}
		}
		return ""
	case float64:
		if have, ok := have.(float64); ok && math.Abs(have-want) <= 1e-9*max(1, math.Abs(want)) {
			return ""
		}
	}
	if have != want {
		return fmt.Sprintf("%s: %v, want %v", path, have, want)
	}
	return ""
}

// TestReports: every report equals that of the original.
func TestReports(t *testing.T) {
	cases := casesIn(t, "reports.json.gz")
	if len(cases) != 57 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		read := capture(t, c.Input)
		for _, p := range preset.Presets {
			have := generic(t, p.Optimize(read, read.Calls, p.Thresholds))
			if d := difference("report", have, c.Output[p.Name]); d != "" {
				t.Errorf("%s by %s: %s", c.Case, p.Name, d)
			}
		}
	}
}

// TestGaps: every list of gap findings equals that of the original.
func TestGaps(t *testing.T) {
	cases := casesIn(t, "gaps.json.gz")
	if len(cases) != 27 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		read := capture(t, c.Input)
		for _, p := range preset.Presets {
			r := p.Optimize(read, nil, p.Thresholds)
			if d := difference("gap_analysis", generic(t, r.GapAnalysis), c.Output[p.Name]); d != "" {
				t.Errorf("%s by %s: %s", c.Case, p.Name, d)
			}
		}
	}
}

// TestKeys: a report has the keys of the original, in order; gap_analysis only with samples; no list is null.
func TestKeys(t *testing.T) {
	const empty = `{"summary":{"total_functions_analyzed":0,"total_function_calls":0,"total_memory_allocated":0,"total_execution_time":0,"analysis_timestamp":null},` +
		`"critical_issues":[],"high_impact_insights":[],"all_patterns":[],"all_insights":[],"recommendations":[],` +
		`"optimization_score":{"score":100,"grade":"A","description":"Excellent memory usage patterns","issues_found":0}`
	for input, want := range map[string]string{
		`[]`: empty + `}`,
		`[{"timestamp_ns":1,"device_used_bytes":2}]`: empty + `,"gap_analysis":[]}`,
	} {
		c := capture(t, []byte(input))
		have, err := json.Marshal(preset.Presets[0].Optimize(c, c.Calls, preset.Presets[0].Thresholds))
		if err != nil || string(have) != want {
			t.Errorf("%s: %s %v, want %s", input, have, err, want)
		}
	}
}
