package chrometrace_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime/build"
)

// reduced returns a trace with only the first events of each kind.
func reduced(t testing.TB, data []byte) string {
	var trace map[string]any
	if err := json.Unmarshal(data, &trace); err != nil {
		return "" // a bare list: the caller adds a part of it
	}
	events, _ := trace["traceEvents"].([]any)
	seen := map[string]int{}
	var few []any
	for _, e := range events {
		event := e.(map[string]any)
		kind := fmt.Sprint(event["ph"], event["cat"])
		if seen[kind]++; seen[kind] <= 6 {
			few = append(few, e)
		}
	}
	trace["traceEvents"] = few
	text, err := json.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzRead reads arbitrary input with bounded memory. It must return one clear error or a
// capture that passes Check. FuzzScan of package scan compares the events with those of
// a strict parser.
func FuzzRead(f *testing.F) {
	for i, data := range nativetest.Contents(f, captures+"/*.json.gz", "../../testdata/labelled/*.json.zst") {
		if i%3 == 0 {
			f.Add(string(data[:min(len(data), 6<<10)])) // truncated like that of a killed job
		}
		f.Add(reduced(f, data))
	}
	f.Add(trace(memory("15.5", 0, 512, 512, 1512), memory("40", 0, 512, -512, 1000), ran("cpu_op", "aten::mm", "1", "15", "1", `"Sequence number": 9, "Fwd thread id": 1`),
		ran("cpu_op", "aten::mul", "1", "3", "1", `"Sequence number": 9`), ran("python_function", "a.py(3): f", "1", "1", "50", `"CallFrom": "b.py:3"`), ran("user_annotation", "ProfilerStep#1", "1", "1", "50", ``)))
	f.Add(`[{"ph":"C","name":"GPU memory","pid":1,"ts":1,"args":{"allocated":100}},{"ph":"N","id":1,"pid":1,"ts":2,"args":{"size":5}},{"ph":"D","id":1,"pid":1,"ts":3}]`)
	f.Add(`[[5,2,100,3],[6,3,-100,3],[6,3,100,4],[7,4,-100,4],[-1,1,5,0]]`)
	f.Add(`[[1,2,3],[[0,1,2,3,4,5,6,7,8],[0,1,2,3,4,5,6,7,8],[0,1,2,3,4,5,6,7,9]]]`)
	f.Add(`{"traceEvents":[{"ph":"i","name":"[memory]","pid":5,"tid":"5","ts":1,"args":{"Device Type":0,"Bytes":-4}}`)
	f.Fuzz(func(t *testing.T, text string) {
		nativetest.Bounded(t, len(text), 16<<20, 1500, func() { readAnything(t, text) })
	})
}

func readAnything(t *testing.T, text string) {
	b := build.New(build.Everything)
	if err := chrometrace.Read("x", strings.NewReader(text), b); err != nil {
		nativetest.Message(t, err, 400)
		return
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
