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
