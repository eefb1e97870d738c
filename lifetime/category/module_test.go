package category_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
	c := written(t, text)
	s := c.Spaces[0]
	for i, want := range []string{"Net.up", "Net", "Net", "Net"} {
		if p := c.Purpose(s.PurposeOf(i)); p.Module != want || p.ModuleInferred {
			t.Errorf("buffer %d: module %q, want %q", i, p.Module, want)
		}
	}
}

// TestShardedModules: FSDP names the modules whose parameters it gathers, in one version before their forward pass, in others while it gathers.
func TestShardedModules(t *testing.T) {
	text := `memlane native 2
source format="torch-snapshot" producer="PyTorch"
space source=0 device="cuda:0" axis="time" begin=0 end=100 limit=0 base=0 allocations=12 frees=0 facts="history,end state,addresses,stacks,clock"
frame 1 user "train" "train.py" 3
stack 1 1
frame 2 framework "_call_impl" "/torch/nn/modules/module.py" 1700
stack 2 2 caller=1
frame 3 user "forward" "net.py" 8
stack 3 3 caller=2
site 1 stack=3 op="" module=""
`
	ranges := []string{"root_pre_forward", "pre_forward (layers.0)", "all_gather_copy_out (layers.0)", "post_forward (layers.0)", "pre_forward (net)", "pre_forward",
		"all_gather_copy_out (net.up)", "post_forward", "pre_forward", "post_forward", "post_forward (net)", "pre_forward (head)"}
	want := []string{"", "layers.0", "layers.0", "", "net", "net.up", "net.up", "net", "", "net", "", "head"}
	for i, name := range ranges {
		text += fmt.Sprintf("mark %d %d annotation site=0 requested=0 free=-1 text=\"FSDP::%s\"\n", 8*i, 8*i+2, name)
	}
	for i := range ranges {
		text += fmt.Sprintf("buffer %d 100 %#x 512 512 site=1 edge=end-open\n", 8*i+4, 512*(i+1))
	}
	c := written(t, text)
	for i := range ranges {
		p := c.Purpose(c.Spaces[0].PurposeOf(i))
		if got := strings.TrimPrefix(p.Module, "net.py:8"); !p.ModuleInferred && got != want[i] || p.ModuleInferred && want[i] != "" {
			t.Errorf("after %s: module %q, inferred %v, want %q", ranges[i], p.Module, p.ModuleInferred, want[i])
		}
	}
}

// TestLayersOfLines: lines and the order of allocations tell which layer of a loop allocates.
func TestLayersOfLines(t *testing.T) {
	impl, hook := "_call_impl /torch/nn/modules/module.py 1784", "inner /torch/nn/modules/module.py 1806"
	net, block := "<module> train.py 3|"+impl+"|forward net.py 8", "|"+impl+"|forward net.py "
	linear := "|" + impl + "|forward /torch/nn/modules/linear.py 125"
	for name, c := range map[string]struct {
		layer []string // what each of three layers allocates
		want  []string // of the second one
	}{
		"the first layer is the first of the network": {[]string{net + block + "20", net + block + "21", net + block + "21"},
			[]string{"net.py:8[1]", "net.py:8[1]", "net.py:8[1]"}},
		"a hook before each forward": {[]string{net + "|" + impl + "|" + hook + "|_pre_forward /torch/fsdp.py 7", net + block + "20", net + block + "21"},
			[]string{"net.py:8[1]", "net.py:8[1]", "net.py:8[1]"}},
		"a loop over chunks": {[]string{net + block + "20", net + block + "21", net + block + "20", net + block + "21", net + block + "20",
			net + block + "21", net + block + "22"}, []string{"net.py:8[1]", "net.py:8[1]", "net.py:8[1]", "net.py:8[1]", "net.py:8[1]", "net.py:8[1]", "net.py:8[1]"}},
		"a line that calls several modules": {[]string{net + block + "20" + linear, net + block + "20", net + block + "20" + linear, net + block + "20|silu f.py 1"},
			[]string{"net.py:8[1]/net.py:20 Linear[0]", "net.py:8[1]", "net.py:8[1]/net.py:20 Linear[1]", "net.py:8[1]"}},
	} {
		text := &strings.Builder{}
		fmt.Fprintln(text, "memlane native 2\nsource format=\"torch-snapshot\" producer=\"PyTorch\"")
		fmt.Fprintln(text, `space source=0 device="cuda:0" axis="time" begin=0 end=1000 limit=0 base=0 allocations=99 frees=0 facts="history,end state,addresses,stacks,clock"`)
		frames, stacks := map[string]int{}, map[string]int{}
		for i, stack := range slices.Repeat(c.layer, 3) {
			caller, path := "", ""
			for _, call := range strings.Split(stack, "|") {
				of := strings.Fields(call)
				path += "|" + call
				if frames[call] == 0 {
					frames[call] = len(frames) + 1
					kind := "user"
					if strings.HasPrefix(of[1], "/torch") {
						kind = "framework"
					}
					fmt.Fprintf(text, "frame %d %s %q %q %s\n", frames[call], kind, of[0], of[1], of[2])
				}
				if stacks[path] == 0 {
					stacks[path] = len(stacks) + 1
					fmt.Fprintf(text, "stack %d %d%s\n", stacks[path], frames[call], caller)
				}
				caller = fmt.Sprintf(" caller=%d", stacks[path])
			}
			fmt.Fprintf(text, "site %d stack=%d op=\"\" module=\"\"\n", i+1, stacks[path])
			fmt.Fprintf(text, "buffer %d 1000 %#x 512 512 site=%d edge=end-open\n", 2+2*i, 4096*(i+1), i+1)
		}
		c2 := written(t, text.String())
		var got []string
		for i := range c.layer {
			got = append(got, c2.Purpose(c2.Spaces[0].PurposeOf(len(c.layer)+i)).Module)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
