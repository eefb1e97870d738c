package chrometrace_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/lifetime"
)

// FuzzRead reads anything: no panic, one clear error or a capture that passes
// Check.
func FuzzRead(f *testing.F) {
	f.Add(trace(memory("15.5", 0, 512, 512, 1512), memory("40", 0, 512, -512, 1000), ran("cpu_op", "aten::mm", "1", "15", "1", `"Sequence number": 9, "Fwd thread id": 1`),
		ran("cpu_op", "aten::mul", "1", "3", "1", `"Sequence number": 9`), ran("python_function", "a.py(3): f", "1", "1", "50", `"CallFrom": "b.py:3"`), ran("user_annotation", "ProfilerStep#1", "1", "1", "50", ``)))
	f.Add(`[{"ph":"C","name":"GPU memory","pid":1,"ts":1,"args":{"allocated":100}},{"ph":"N","id":1,"pid":1,"ts":2,"args":{"size":5}},{"ph":"D","id":1,"pid":1,"ts":3}]`)
	f.Add(`[[5,2,100,3],[6,3,-100,3],[6,3,100,4],[7,4,-100,4],[-1,1,5,0]]`)
	f.Add(`[[1,2,3],[[0,1,2,3,4,5,6,7,8],[0,1,2,3,4,5,6,7,8],[0,1,2,3,4,5,6,7,9]]]`)
	f.Add(`{"traceEvents":[{"ph":"i","name":"[memory]","pid":5,"tid":"5","ts":1,"args":{"Device Type":0,"Bytes":-4}}`)
	f.Fuzz(func(t *testing.T, text string) {
		b := lifetime.NewBuilder()
		if err := chrometrace.Read("x", strings.NewReader(text), b); err != nil {
			if msg := err.Error(); strings.ContainsAny(msg, "\n\x1b\x00") || utf8.RuneCountInString(msg) > 400 {
				t.Errorf("message %q", msg)
			}
			return
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}
