package answer_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
)

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
	file := filepath.Join(t.TempDir(), "paths.native")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
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
	file := filepath.Join(t.TempDir(), "older.native")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, o := range answer.PeakOf(&c.Tables, c.Spaces[0], c.Spaces[0].Begin+2).Older {
		got = append(got, o.Count, o.Bytes)
	}
	if !slices.Equal(got, []int64{1, 2048, 2, 1024}) {
		t.Errorf("%v, want one buffer of 2048 B and two of 512 B", got)
	}
}
