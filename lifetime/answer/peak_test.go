package answer_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/selection"
)

// opened returns a capture as native text.
func opened(t *testing.T, text string) *lifetime.Capture {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capture.native")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPathsApart: call paths to a line are told apart by the callers that differ, not by those that all of them have.
func TestPathsApart(t *testing.T) {
	const text = `memlane native 2
source format="torch-snapshot" producer="PyTorch"
space source=0 device="cuda:0" axis="event" begin=0 end=+9 limit=0 base=0 allocations=2 frees=0 facts="history,stacks"
frame 1 user "main" "run.py" 1
stack 1 1
frame 2 user "encoder" "model.py" 2
stack 2 2 caller=1
frame 3 user "decoder" "model.py" 3
stack 3 3 caller=1
frame 4 user "load" "disk.py" 4
stack 4 4 caller=2
stack 5 4 caller=3
frame 5 user "allocate" "disk.py" 5
stack 6 5 caller=4
stack 7 5 caller=5
site 1 stack=6 op="" module=""
buffer +1 +9 0x1000 512 512 site=1 edge=end-open
site 2 stack=7 op="" module=""
buffer +2 +9 0x2000 1024 1024 site=2 edge=end-open
`
	c := opened(t, text)
	var got []string
	s := c.Spaces[0]
	for _, path := range answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At).Places[0].Paths {
		got = append(got, path.Callers...)
	}
	if want := []string{"decoder (model.py:3)", "encoder (model.py:2)"}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

// TestOlder: buffers from before the recording are summed up by size. Those that the recording frees have the place of the free instead.
func TestOlder(t *testing.T) {
	const text = `memlane native 2
source format="torch-snapshot" producer="PyTorch"
space source=0 device="cuda:0" axis="event" begin=0 end=+9 limit=0 base=0 allocations=0 frees=1 facts="history,stacks"
frame 1 user "main" "run.py" 1
stack 1 1
site 1 stack=1 op="" module="" unseen=1
site 2 stack=0 op="" module="" unseen=1
buffer 0 +9 0x1000 512 512 site=2 edge=begin-unseen+end-open
buffer 0 +9 0x2000 512 512 site=2 edge=begin-unseen+end-open
buffer 0 +9 0x3000 2048 2048 site=2 edge=begin-unseen+end-open
buffer 0 +4 0x4000 512 512 site=1 edge=begin-unseen+site-from-free
`
	c := opened(t, text)
	var got []int64
	for _, o := range answer.PeakOf(&c.Tables, c.Spaces[0], c.Spaces[0].Begin+2).Older {
		got = append(got, o.Count, o.Bytes)
	}
	if !slices.Equal(got, []int64{1, 2048, 2, 1024}) {
		t.Errorf("%v, want one buffer of 2048 B and two of 512 B", got)
	}
}

// TestArrays: rows and places of groups name the shape of their largest buffer and how many shapes they have. Layouts make no other shape.
func TestArrays(t *testing.T) {
	const text = `memlane native 2
source format="hlo" producer="XLA"
space source=0 memory="space0" module="jit_f(1)" axis="program order" begin=-1 end=+9 limit=0 base=0 allocations=0 frees=0 facts="addresses,regions"
region +0 +9 0x0 16384 kind="" stream=0 pool="" site=0 edge=end-open
site 1 stack=0 op="f/dot" module="" shape="f32[4,2]{1,0}" dtype="f32" instr="dot.1"
site 2 stack=0 op="f/dot" module="" shape="f32[4,2]{0,1}" dtype="f32" instr="copy.2"
site 3 stack=0 op="f/dot" module="" shape="bf16[8,8]" dtype="bf16" instr="dot.3"
site 4 stack=0 op="f/add" module="" shape="f32[]" dtype="f32" instr="add.4"
buffer +1 +9 0x1000 32 32 site=1 edge=- kind=temporary
buffer +1 +9 0x2000 32 32 site=2 edge=- kind=temporary
buffer +1 +9 0x3000 128 128 site=3 edge=- kind=temporary
buffer +1 +9 0x4000 4 4 site=4 edge=- kind=temporary
`
	c := opened(t, text)
	grouped, err := selection.GroupBy(c, selection.ByOp)
	if err != nil {
		t.Fatal(err)
	}
	p := answer.PeakOf(&grouped.Tables, grouped.Spaces[0], 1)
	type array struct {
		Op, Shape, DType string
		Shapes           int
	}
	var got []array
	for _, r := range p.Rows {
		got = append(got, array{r.Op, r.Shape, r.DType, r.Shapes})
	}
	if want := []array{{"f/dot", "bf16[8,8]", "bf16", 2}, {"f/add", "f32[]", "f32", 1}}; !slices.Equal(got, want) {
		t.Errorf("rows %+v, want %+v", got, want)
	}
	if o := p.Places[0]; o.Shape != "bf16[8,8]" || o.Shapes != 2 {
		t.Errorf("place %+v", o)
	}
	if o := p.Program; o == nil || o.Temporaries != 196 || o.Planned != 16384 {
		t.Errorf("program %+v", o)
	}
}
