package program_test

import (
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// workOf returns what the program of a capture did in its first memory ID.
func workOf(t *testing.T, file string) (*program.Program, *lifetime.Space, *program.Work) {
	t.Helper()
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	category.Of(c, nil)
	p := program.Of(c)
	return p, c.Spaces[0], p.Work(c.Spaces[0])
}

// TestWork: rounds follow each other and have the numbers of steps; each step that begins in one of them has one. Passes lie in their round before
// its optimizer, one after the other, and have the buffers that begin in them.
func TestWork(t *testing.T) {
	files, _ := filepath.Glob("../../testdata/*/*.pickle*")
	rounds, passes := 0, 0
	for n, file := range files {
		if n%deep.Or(8, 1) != 0 {
			continue
		}
		p, s, w := workOf(t, file)
		steps := p.Steps(s)
		last, seen := s.Begin, map[int]bool{}
		for k, r := range w.Rounds {
			if r.Begin < last || r.Optimizer < r.Begin || r.End < r.Optimizer || r.Open && r.Optimizer != r.End {
				t.Errorf("%s: round %d is %+v, the one before ends at %d", file, k, r, last)
			}
			if len(steps.Begins) > 0 && r.Step > len(steps.Begins) {
				t.Errorf("%s: round %d is of step %d of %d", file, k, r.Step, len(steps.Begins))
			}
			last, seen[r.Step] = r.End, true
		}
		for k, begin := range steps.Begins {
			if len(w.Rounds) > 0 && begin >= w.Rounds[0].Begin && begin < last && !seen[k] {
				t.Errorf("%s: step %d of %d has no round", file, k, len(steps.Begins))
			}
		}
		last = s.Begin
		for k, of := range w.Passes {
			r := w.Rounds[of.Round]
			if of.Begin < max(r.Begin, last) || of.Backward < of.Begin || of.End < of.Backward || of.End > r.Optimizer {
				t.Errorf("%s: pass %d is %+v in %+v, the one before ends at %d", file, k, of, r, last)
			}
			last = of.End
		}
		for i, k := range w.PassOf {
			if begin := s.Buffers[i].Begin; k >= 0 && (begin < w.Passes[k].Begin || begin >= w.Passes[k].End) {
				t.Errorf("%s: buffer %d begins at %d, its pass is %+v", file, i, begin, w.Passes[k])
			}
		}
		rounds, passes = rounds+len(w.Rounds), passes+len(w.Passes)
	}
	if rounds < 100 || passes < 100 {
		t.Errorf("%d rounds, %d passes", rounds, passes)
	}
}

// TestRounds: programs whose rounds and passes are known: nets in turns, passes that the optimizer calls, a request that ended the second step,
// and steps without an optimizer.
func TestRounds(t *testing.T) {
	for _, of := range []struct {
		file                 string
		rounds, passes, cuts int
		closure, open        bool // open: no optimizer runs in the last round
	}{
		{"whatif/gpt_small", 4, 3, 0, false, true}, // the last gradients are freed after the last step
		{"whatif/lightning", 4, 3, 0, true, true},
		{"whatif/cut_second", 2, 2, 1, false, true},
		{"whatif/one_step", 2, 1, 0, false, true},
		{"labelled/d04_slow_small", 81, 80, 0, false, true}, // what it makes first is of no step
	} {
		_, _, w := workOf(t, "../../testdata/"+of.file+".pickle.zst")
		rounds, passes := len(w.Rounds), len(w.Passes)
		if rounds != of.rounds || passes != of.passes || len(w.Cuts) != of.cuts || w.Closure != of.closure || w.Rounds[rounds-1].Open != of.open {
			t.Errorf("%s: %d rounds, %d passes, %d cuts, closure %t, last round %+v", of.file, rounds, passes, len(w.Cuts), w.Closure, w.Rounds[rounds-1])
		}
		if last := w.Passes[passes-1]; last.Cut != (of.cuts > 0) {
			t.Errorf("%s: last pass %+v", of.file, last)
		}
	}
}

// TestOperators: what autocast does with operators, and what a part of a name tells.
func TestOperators(t *testing.T) {
	for name, want := range map[string]program.Operator{
		"aten::mm":                   program.OpHalf | program.OpWeight | program.OpLinear | program.OpProduct,
		"softmax":                    program.OpFloat | program.OpSavesOwn | program.OpSoftmax,
		"_log_softmax_backward_data": program.OpSoftmax | program.OpLogSoftmax,
		"native_layer_norm":          program.OpFloat | program.OpPerToken | program.OpSavesOperand | program.OpNorm,
		"convolution":                program.OpHalf | program.OpWeight | program.OpConv,
		"convolution_backward":       program.OpProduct | program.OpConv,
		"lstm_cell":                  program.OpHalf | program.OpRecurrent,
		"mm_out":                     0, "": 0,
	} {
		if got := program.OperatorOf(name); got != want {
			t.Errorf("%s: %b, want %b", name, got, want)
		}
	}
	if program.Outlives(purpose.Activation) || !program.Outlives(purpose.ModelParameter) {
		t.Error("an activation outlives its step, or a parameter does not")
	}
}

// TestGathered: parameters that passes gather, as those of FSDP2, are no set-up: the first pass is as large as the second.
func TestGathered(t *testing.T) {
	_, _, w := workOf(t, "../../testdata/meaning/libraries/z51.pickle.zst")
	made := make([]int, len(w.Passes))
	for _, k := range w.PassOf {
		if k >= 0 {
			made[k]++
		}
	}
	if len(made) != 4 || made[0] < made[1] {
		t.Errorf("passes make %d buffers", made)
	}
}
