package layer_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/purpose"
)

func TestLayerOf(t *testing.T) {
	for module, want := range map[string]string{
		"":                             "",
		"GPT_0/Block_3/Linear_1":       "GPT_0/Block_3",
		"GPT_0":                        "GPT_0",
		"model.py:253[7]/model.py:382": "model.py:253[7]",
		"model.py:253[7]/m.py:382[1]":  "model.py:253[7]",
		"model.py:253":                 "",
		"transformer.h.11.attn.c_proj": "transformer.h.11",
		"encoder/layer_3/attention":    "encoder/layer_3",
		"layer2":                       "layer2",
		"jvp(Model)/layers_12/mlp":     "jvp(Model)/layers_12",
		"head":                         "",
	} {
		if got := layer.Of(&lifetime.Tables{}).Of(module); got != want {
			t.Errorf("%q: layer %q, want %q", module, got, want)
		}
	}
}

// TestLayers: a layer is the first module that is one of several, and modules that are known by their last name belong to the layer of
// their path.
func TestLayers(t *testing.T) {
	c := lifetime.Tables{Sites: make([]lifetime.Site, 1), Stacks: make([]lifetime.Stack, 1), Frames: make([]frame.Frame, 1), Purposes: make([]purpose.Purpose, 1)}
	for _, module := range []string{
		"Net_0/Encoder_0/Layer_0/Linear_0", "Net_0/Encoder_0/Layer_1/Linear_1", "Net_0/Linear_2", "model.layers.0.mlp", "model.layers.1.mlp", "head",
	} {
		c.Sites = append(c.Sites, lifetime.Site{Module: module})
	}
	layers := layer.Of(&c)
	for module, want := range map[string]string{
		"Net_0/Encoder_0/Layer_0/Linear_0": "Net_0/Encoder_0/Layer_0",
		"Linear_1":                         "Net_0/Encoder_0/Layer_1",
		"Net_0/Linear_2":                   "Net_0/Linear_2",
		"model.layers.1.mlp":               "model.layers.1",
		"head":                             "",
		"":                                 "",
	} {
		if got := layers.Of(module); got != want {
			t.Errorf("%q: layer %q, want %q", module, got, want)
		}
	}
}

// TestLayersOfPrograms: the layer of an operation is that of its scope, that of an argument is in its path.
func TestLayersOfPrograms(t *testing.T) {
	c := lifetime.Tables{Stacks: make([]lifetime.Stack, 1), Frames: make([]frame.Frame, 1)}
	c.Sites = []lifetime.Site{
		{}, {Instr: "fusion.1", Op: "jit(step)/transpose(jvp(Model))/layers_1/dot"}, {Instr: "p.1", Op: "params['params']['layers_1']['mlp']['kernel']"},
		{Instr: "p.2", Op: "state.params['layers_0']['bias']"}, {Instr: "p.3", Op: "x"}, {Instr: "p.4", Op: "params['head']['kernel']"},
	}
	c.Purposes = []purpose.Purpose{{}, {Module: "Model/layers_1"}}
	layers := layer.Of(&c)
	for site, want := range []string{1: "Model/layers_1", 2: "layers_1", 3: "layers_0", 4: "", 5: ""} {
		purpose := lifetime.PurposeID(0)
		if site == 1 {
			purpose = 1
		}
		if got := layers.OfBuffer(lifetime.SiteID(site), purpose); site > 0 && got != want {
			t.Errorf("%s: layer %q, want %q", c.Sites[site].Op, got, want)
		}
	}
}

// TestModulesOfDeepStacks: calls inside calls do not take the square of their depth, which would take minutes here.
func TestModulesOfDeepStacks(t *testing.T) {
	const calls = 500_000
	c := lifetime.Tables{Sites: make([]lifetime.Site, 1), Stacks: make([]lifetime.Stack, 1), Purposes: make([]purpose.Purpose, 1),
		Frames: []frame.Frame{{}, {Function: "nn.Module: Net_0"}, {Function: "nn.Module: Block_3"}, {Function: "f"}, {Function: "scope", Kind: frame.Scope}}}
	for i := range calls {
		c.Stacks = append(c.Stacks, lifetime.Stack{Frame: lifetime.FrameID(min(i+1, 3)), Caller: lifetime.StackID(i)})
		c.Sites = append(c.Sites, lifetime.Site{Stack: lifetime.StackID(i + 1)})
	}
	c.Stacks = append(c.Stacks, lifetime.Stack{Frame: 4, Caller: calls})
	c.Sites = append(c.Sites, lifetime.Site{Stack: calls + 1}, lifetime.Site{Stack: calls + 1, Instr: "add.1"})
	layers := layer.Of(&c)
	for i := range c.Sites[1:] {
		want := "Net_0/Block_3"
		switch {
		case i == 0:
			want = "Net_0"
		case i == len(c.Sites)-2: // of a compiled program, whose scopes are modules
			want += "/scope"
		}
		if got := layers.ModuleOf(lifetime.SiteID(i+1), 0); got != want {
			t.Fatalf("call %d: %q, want %q", i+1, got, want)
		}
	}
}

// TestDeepModules: modules inside modules cost as much as their names are long, not the square of it.
func TestDeepModules(t *testing.T) {
	cost := func(depth int) (bytes float64) {
		c := lifetime.Tables{Sites: make([]lifetime.Site, 1), Stacks: make([]lifetime.Stack, 1), Frames: make([]frame.Frame, 1), Purposes: make([]purpose.Purpose, 1)}
		text := 0
		for i := range depth {
			c.Sites = append(c.Sites, lifetime.Site{Module: strings.Repeat("block.0.", i+1) + "weight"})
			text += len(c.Sites[i+1].Module)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		layers := layer.Of(&c)
		for _, s := range c.Sites {
			layers.Of(s.Module)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(text)
	}
	if few, many := cost(100), cost(400); many > 2*few {
		t.Errorf("%.1f bytes for each byte of names, %.1f if they are four times as deep", few, many)
	}
}
