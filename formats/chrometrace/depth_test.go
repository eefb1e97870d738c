package chrometrace_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
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

// TestOverlap checks stacks of calls that overlap and do not enclose each other, each with an allocation after the end of the call before it:
// they have the innermost calls, and the last frame tells whether outer ones are left out.
func TestOverlap(t *testing.T) {
	for _, kind := range []string{"python_function", "cpu_op"} {
		for _, calls := range []int{4, 400} {
			var events []string
			for i := range calls {
				events = append(events, ran(kind, fmt.Sprintf("f.py(%d): f%d", i+1, i), "1", fmt.Sprint(2*i), fmt.Sprint(2*calls+1), ""))
			}
			for i := range calls {
				events = append(events, memory(fmt.Sprint(2*calls+2*i), 0, int64(4096+512*i), 512, int64(512*(i+1))))
			}
			c := read(t, trace(events...))
			deepest, cut := 0, 0
			for i := range c.Spaces[0].Buffers {
				stack := slices.Collect(c.FramesOf(c.Sites[c.Spaces[0].Buffers[i].Site].Stack))
				deepest = max(deepest, len(stack))
				isCut := stack[len(stack)-1].Function == frame.OuterCalls
				if isCut {
					cut++
					stack = stack[:len(stack)-1]
				}
				for k := range stack {
					if !strings.Contains(stack[k].Function, fmt.Sprintf("f%d", calls-1-k)) {
						t.Fatalf("%s: frame %d of %d is %s", kind, k, len(stack), stack[k].Function)
					}
				}
				if !isCut && calls-len(stack) > i {
					t.Errorf("%s: allocation %d has %d calls of %d, and nothing tells that more were open", kind, i, len(stack), calls)
				}
			}
			if few := calls == 4; deepest != calls || (cut == 0) != few {
				t.Errorf("%s, %d calls: the deepest stack has %d, %d are cut", kind, calls, deepest, cut)
			}
		}
	}
}
