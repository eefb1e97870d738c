package category_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
)

// TestNotedModules: metadata of an allocation names its module, before ranges and lines do. What only looks like it names none.
func TestNotedModules(t *testing.T) {
	text := `memlane native 2
source format="torch-snapshot" producer="PyTorch"
space source=0 device="cuda:0" axis="time" begin=0 end=100 limit=0 base=0 allocations=4 frees=0 facts="history,end state,addresses,stacks,clock"
frame 1 user "train" "train.py" 3
stack 1 1
frame 2 framework "_call_impl" "/torch/nn/modules/module.py" 1700
stack 2 2 caller=1
frame 3 user "forward" "net.py" 8
stack 3 3 caller=2
site 1 stack=3 op="" module=""
mark 1 50 annotation site=0 requested=0 free=-1 text="nn.Module: Net"
note 1 "{\"module\":\"Net.up\"}; kept"
buffer 2 100 0x1000 512 512 site=1 edge=end-open note=1
note 2 "{\"module\":7}"
buffer 4 100 0x2000 512 512 site=1 edge=end-open note=2
note 3 "{module"
buffer 6 100 0x3000 512 512 site=1 edge=end-open note=3
buffer 8 100 0x4000 512 512 site=1 edge=end-open
`
	file := filepath.Join(t.TempDir(), "x.native")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Spaces[0]
	for i, want := range []string{"Net.up", "Net", "Net", "Net"} {
		if p := c.Purpose(s.PurposeOf(i)); p.Module != want || p.ModuleInferred {
			t.Errorf("buffer %d: module %q, want %q", i, p.Module, want)
		}
	}
}
