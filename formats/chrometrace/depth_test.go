package chrometrace_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/lifetime/build"
)

// nested returns a trace of nested calls that all allocate.
func nested(kind string, depth int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"schemaVersion":1,"traceEvents":[`)
	for i := range depth {
		name := fmt.Sprintf("aten::op%d", i)
		if kind == "python_function" {
			name = fmt.Sprintf("f.py(%d): f%d", i, i)
		}
		fmt.Fprintf(&b, `{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":1,"ts":%d,"dur":%d},`, kind, name, i, 4*depth-2*i)
		fmt.Fprintf(&b, `{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":%d.5,"args":{"Addr":%d,"Bytes":1024,"Device Type":0}},`, i, 4096*(i+1))
	}
	b.WriteString(`{}]}`)
	return b.Bytes()
}

// TestDepth checks that memory grows linearly with the depth of nested calls. Stacks are
// a tree, and an allocation does not visit all calls that enclose it.
func TestDepth(t *testing.T) {
	const depth = 4000
	for _, kind := range []string{"python_function", "cpu_op", "user_annotation"} {
		read := func(depth int) (stacks int, bytesTaken uint64) {
			trace := nested(kind, depth)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b := build.New(0)
			if err := chrometrace.Read("nested.json", bytes.NewReader(trace), b); err != nil {
				t.Fatal(err)
			}
			c, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			if n := len(c.Spaces[0].Buffers); n != depth {
				t.Errorf("%s: %d buffers of %d", kind, n, depth)
			}
			innermost, frames := c.Spaces[0].Buffers[depth-1], 0
			for range c.FramesOf(c.Sites[innermost.Site].Stack) {
				frames++
			}
			if frames != depth {
				t.Errorf("%s: the innermost call has %d frames, want %d", kind, frames, depth)
			}
			return len(c.Stacks), after.TotalAlloc - before.TotalAlloc
		}
		stacks, once := read(depth)
		if stacks != depth+1 {
			t.Errorf("%s: %d entries of stacks for %d calls", kind, stacks, depth)
		}
		if _, four := read(4 * depth); four > 6*once {
			t.Errorf("%s: %d bytes for %d calls, %d for four times as many", kind, once, depth, four)
		}
	}
}
