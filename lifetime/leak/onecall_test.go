package leak_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// model runs a network whose forward function embeds, runs layers in a loop and ends with a head, with the frames of
// torch.nn.Module. It returns the saved tensors.
func (p *program) model(layers int, caller lifetime.Frame) (saved []*tensor) {
	module := p.b.Frame(lifetime.Frame{Function: "_call_impl", File: "/venv/site-packages/torch/nn/modules/module.py", Line: 1747, Kind: lifetime.Framework})
	native := p.b.Frame(lifetime.Frame{Function: "_PyEval_EvalFrame", File: "ceval.c", Kind: lifetime.Native})
	at := func(line int) []lifetime.FrameID {
		return []lifetime.FrameID{p.b.Frame(lifetime.Frame{Function: "forward", File: "model.py", Line: line}), native, module, p.b.Frame(caller)}
	}
	run := func(name string, frames []lifetime.FrameID) {
		p.frames = frames
		scratch := p.alloc("softmax", 1<<18)
		saved = append(saved, p.alloc(name, 1<<20))
		p.free(scratch)
		p.frames = nil
	}
	run("embed", at(10))
	for range layers {
		run("attention", append([]lifetime.FrameID{p.b.Frame(lifetime.Frame{Function: "forward", File: "layer.py", Line: 5}), module}, at(12)...))
	}
	run("norm", at(14))
	run("head", at(15))
	return saved
}

// TestOneForwardPass: tensors that the layers of one forward pass save for a backward pass outside the recording are not a
// leak. The same tensors, retained by each of many passes, are. What one pass saves is neither out of balance nor a trend, and
// its layers are not steps.
func TestOneForwardPass(t *testing.T) {
	caller := lifetime.Frame{Function: "main", File: "main.py", Line: 3}
	for _, c := range []struct {
		name           string
		passes, layers int
		keep           bool // the saved tensors of every pass
		leaks          bool
	}{
		{"one pass", 1, 48, true, false},
		{"passes that end", 10, 12, false, false},
		{"passes that keep their graph", 10, 12, true, true},
		{"passes of one layer that keep their graph", 10, 1, true, true},
	} {
		for seed := range uint64(10) {
			p := newProgram(seed)
			p.steps = 0
			for range c.passes {
				if saved := p.model(c.layers, caller); !c.keep {
					p.free(saved...)
				}
			}
			capture, findings := p.run(t, nil)
			if got := len(findings) > 0; got != c.leaks {
				t.Fatalf("%s, seed %d: %d findings", c.name, seed, len(findings))
			}
			if c.passes > 1 {
				continue
			}
			for _, f := range find(t, capture, leak.Settings{}) {
				t.Errorf("seed %d: %s: %s", seed, f.Rule, f.Description)
			}
			if _, inferred := leak.Changes(capture, capture.Spaces[0], leak.Settings{}); inferred {
				t.Errorf("seed %d: layers are steps", seed)
			}
		}
	}
}

// TestPublicCaptures: the snapshots in "public/snapshot" of MEMLANE_CAPTURES are from programs without leaks: forward
// passes, inference, a state.
func TestPublicCaptures(t *testing.T) {
	dir := os.Getenv("MEMLANE_CAPTURES")
	files, _ := filepath.Glob(filepath.Join(dir, "public", "snapshot", "*.pickle"))
	if dir == "" || len(files) == 0 {
		t.Skip("MEMLANE_CAPTURES names no folder with public captures")
	}
	for _, file := range files {
		if got := found(t, file); len(got) > 0 {
			t.Errorf("%s: %d findings, the first %v", filepath.Base(file), len(got), got[0])
		}
	}
}
