package chrometrace_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// withCalls reads a trace with its calls.
func withCalls(t *testing.T, name string) *lifetime.Capture {
	t.Helper()
	f, err := os.Open(filepath.Join("../../testdata/chrome", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return keptCalls(t, name, z)
}

// keptCalls reads a trace with its calls, and checks the model.
func keptCalls(t *testing.T, name string, trace io.Reader) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	if err := chrometrace.Read(name, trace, b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKeptCalls checks that a function that retains 1 MiB per step has one call for each
// step with that change.
func TestKeptCalls(t *testing.T) {
	c := withCalls(t, "cpu_leak.json.gz")
	n, sum := 0, int64(0)
	for i := range c.Calls {
		call := &c.Calls[i]
		if i > 0 && call.Begin < c.Calls[i-1].Begin {
			t.Fatalf("call %d begins before the one before it", i)
		}
		if call.Peak < max(call.Before, call.After) || call.Change() != call.Allocated-call.Freed || call.End < call.Begin {
			t.Errorf("%+v contradicts itself", *call)
		}
		if c.FunctionName(call.Site) == "make_activation" {
			n++
			sum += call.Change()
		}
	}
	if n != 12 || sum != 12<<20 {
		t.Errorf("%d calls of make_activation changed %d bytes", n, sum)
	}
	if c := withCalls(t, "cpu_nomem.json.gz"); len(c.Calls) != 0 {
		t.Errorf("%d calls in a trace without memory", len(c.Calls))
	}
}

// TestKeptCallsSumUp compares the sums over the calls of a function with its row in the
// table of operations.
func TestKeptCallsSumUp(t *testing.T) {
	c := withCalls(t, "cpu_healthy.json.gz")
	bytes := map[string]lifetime.OperationBytes{}
	for _, call := range c.Calls {
		f, _ := c.FrameOf(call.Site)
		name := fmt.Sprintf("%s(%d): %s", f.File, f.Line, f.Function)
		b := bytes[name]
		b.Allocated += call.Allocated
		b.Freed += call.Freed
		bytes[name] = b
	}
	seen := 0
	for _, o := range c.Operations {
		b, ok := bytes[o.Name]
		if o.Kind != "function" || !ok {
			continue
		}
		seen++
		if b.Allocated != o.Host.Allocated || b.Freed != o.Host.Freed {
			t.Errorf("%s: %+v, the table has %+v", o.Name, b, o.Host)
		}
	}
	if seen < 3 {
		t.Errorf("only %d functions were compared", seen)
	}
}
