package lifetime_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
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
		if got := lifetime.LayerOf(module); got != want {
			t.Errorf("%q: layer %q, want %q", module, got, want)
		}
	}
}
