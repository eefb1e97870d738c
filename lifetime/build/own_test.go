package build_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// TestInstalledProgram: the code of a program is its own wherever it is installed. Libraries that it calls, that run a thread of their own or
// that the autograd engine calls are none.
func TestInstalledProgram(t *testing.T) {
	const packages = "/venv/lib/python3.11/site-packages/"
	for _, c := range []struct {
		outer, file, function string // begins the stack; what it calls
		own                   bool
	}{
		{"", packages + "proj/train.py", "<module>", true},
		{"/venv/bin/proj", packages + "proj/cli.py", "main", true},
		{"<string>", packages + "proj/worker.py", "work", true},
		{"/home/user/train.py", packages + "proj/train.py", "train", false},
		{"/venv/bin/torchrun", packages + "torch/distributed/run.py", "main", false},
		{"", packages + "proj/hooks.py", "reduce", false},
	} {
		b := build.New(0)
		b.Source(lifetime.Source{})
		stack := lifetime.StackID(0)
		if c.outer != "" {
			stack = b.Call(b.Frame(frame.Frame{Function: "<module>", File: c.outer, Kind: frame.KindOf("<module>", c.outer)}), stack)
		}
		called := b.Frame(frame.Frame{Function: c.function, File: c.file, Kind: frame.Framework})
		library := b.Frame(frame.Frame{Function: "run", File: packages + "library/run.py", Kind: frame.Framework})
		b.Call(library, b.Call(called, stack))
		made, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if own := made.Frames[called].Kind == frame.User; own != c.own || made.Frames[library].Kind != frame.Framework {
			t.Errorf("%+v: %v, library %v", c, made.Frames[called].Kind, made.Frames[library].Kind)
		}
	}
}
