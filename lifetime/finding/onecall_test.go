package finding_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/judge"
	did "github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// model runs a network whose forward function embeds, runs layers in a loop and ends with a head, with the frames of
// torch.nn.Module. It returns the saved tensors.
func (p *program) model(layers int, caller frame.Frame) (saved []*tensor) {
	module := p.b.Frame(frame.Frame{Function: "_call_impl", File: "/venv/site-packages/torch/nn/modules/module.py", Line: 1747,
		Kind: frame.Framework})
	native := p.b.Frame(frame.Frame{Function: "_PyEval_EvalFrame", File: "ceval.c", Kind: frame.Native})
	at := func(line int) []lifetime.FrameID {
		return []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "forward", File: "model.py", Line: line}), native, module, p.b.Frame(caller)}
	}
	run := func(name string, frames []lifetime.FrameID) {
		p.measures()
		p.frames = frames
		scratch := p.alloc("softmax", 1<<18)
		saved = append(saved, p.alloc(name, 1<<20))
		p.free(scratch)
		p.frames = nil
	}
	run("embed", at(10))
	for range layers {
		run("attention", append([]lifetime.FrameID{p.b.Frame(frame.Frame{Function: "forward", File: "layer.py", Line: 5}), module}, at(12)...))
	}
	run("norm", at(14))
	run("head", at(15))
	return saved
}

// measures allocates and frees at once in a thread that measures, if the program has one.
func (p *program) measures() {
	if p.measured {
		p.frames = []lifetime.FrameID{p.b.Frame(frame.Frame{Function: "run", File: "/usr/lib/python3.11/threading.py", Line: 982, Kind: frame.Framework})}
		p.free(p.alloc("poll", 1<<12))
		p.frames = nil
	}
}

// TestOneForwardPass: tensors that the layers of one forward pass save for a backward pass outside the recording are not a
// leak. The same tensors, retained by each of many passes, are. What one pass saves is neither out of balance nor a trend, and
// its layers are not steps. A thread that measures beside it says nothing.
func TestOneForwardPass(t *testing.T) {
	caller := frame.Frame{Function: "main", File: "main.py", Line: 3}
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
			p.steps, p.measured = 0, seed%2 > 0
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
			for _, f := range find(t, capture, finding.Settings{}) {
				t.Errorf("seed %d: %s: %s", seed, f.Rule, f.Description)
			}
			if _, inferred := finding.Changes(judge.Of(capture).Program(), capture.Spaces[0], finding.Settings{}); inferred {
				t.Errorf("seed %d: layers are steps", seed)
			}
		}
	}
}

// TestOneBackwardPass: the gradients that one backward pass makes are not a leak, and its layers are not steps, though each layer
// unpacks several weights. If each of many passes retains its gradients, that is a leak.
func TestOneBackwardPass(t *testing.T) {
	phases := map[string]lifetime.PurposeID{"linear": 1, "scratch": 1, "scale": 2, "unpack": 2, "mm": 2}
	for _, c := range []struct{ passes, layers int }{{1, 22}, {1, 60}, {12, 1}, {12, 8}} {
		p := newProgram(uint64(c.layers))
		p.steps = 0
		for range c.passes {
			var saved []*tensor
			for range c.layers {
				p.free(p.alloc("scratch", 1<<19))
				saved = append(saved, p.alloc("linear", 1<<20))
			}
			for _, x := range slices.Backward(saved) {
				for k := range 7 {
					p.free(p.alloc("scale", 1<<14), p.alloc("unpack", 1<<19))
					if k%3 == 0 {
						p.alloc("mm", 1<<17)
					}
				}
				p.free(x)
			}
		}
		capture, _ := p.run(t, nil)
		s := capture.Spaces[0]
		capture.Purposes = []purpose.Purpose{{}, {Phase: purpose.Forward}, {Phase: purpose.Backward}}
		s.Purposes = make([]lifetime.PurposeID, len(s.Buffers))
		for i := range s.Buffers {
			frame, _ := capture.FrameOf(s.Buffers[i].Site)
			s.Purposes[i] = phases[frame.Function]
		}
		leaks := slices.DeleteFunc(find(t, capture, finding.Settings{}), func(f finding.Finding) bool { return !f.IsLeak() })
		if (len(leaks) > 0) != (c.passes > 1) {
			t.Errorf("%d passes of %d layers: %v", c.passes, c.layers, leaks)
		}
		if steps := did.Of(capture).Steps(s).Begins; len(steps) > 0 && c.passes == 1 {
			t.Errorf("%d layers are %d steps", c.layers, len(steps))
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
