package holder_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/purpose"
)

// TestLevels: what leads to a buffer is its holder, then the parts of its name. Their number is bounded.
func TestLevels(t *testing.T) {
	for want, h := range map[string]holder.Holder{
		"model|layers.*|up|weight":   {Kind: holder.ByVariable, Name: "model.layers.3.up.weight", Path: "model.layers.3.up.weight", Owner: "model"},
		"model|layers.*|weight|grad": {Kind: holder.ByVariable, Name: "model.layers.3.weight.grad", Owner: "model"},
		"trainer.optimizer|exp_avg|model|a|weight": {Kind: holder.ByVariable, Category: purpose.OptimizerState, Name: "exp_avg of model.a.weight",
			Owner: "trainer.optimizer"},
		"log.items|['step *.*']":              {Kind: holder.ByVariable, Path: "log.items['step 1.5']", Owner: "log.items"},
		"history|[*]":                         {Kind: holder.ByVariable, Path: "history[3]", Owner: "history"},
		"x":                                   {Kind: holder.ByVariable, Path: "x", Owner: "x"},
		"variables of train (a.py:3)|loss":    {Kind: holder.ByVariable, Path: "loss", Where: "train (a.py:3)"},
		"the graph of history[*]|MmBackward0": {Kind: holder.ByGraph, Path: "history[1]", Node: "MmBackward0"},
		"a reference cycle: Node -> Node":     {Kind: holder.ByCycle, Path: "Node -> Node"},
		"C++ or a call that runs":             {Kind: holder.Unreached},
	} {
		if got := strings.Join(h.Levels(), "|"); got != want {
			t.Errorf("%+v: %s, want %s", h, got, want)
		}
	}
	deep := holder.Holder{Kind: holder.ByVariable, Path: "a" + strings.Repeat(".b", 100_000), Owner: "a"}
	if n := len(deep.Levels()); n != 16 {
		t.Errorf("%d levels", n)
	}
}

func TestFoldIndexes(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "history[12]": "history[*]", "model.layers.3.mlp.conv2d.weight": "model.layers.*.mlp.conv2d.weight", "x2": "x2",
		"exp_avg of model.0.weight": "exp_avg of model.*.weight", "log.items['step 12']": "log.items['step *']", "a[(1, 22)].x1[0][7]": "a[(*, *)].x1[*][*]",
		"model.12": "model.*", "h1.0": "h1.*", "]]3": "]]3",
	} {
		if got := holder.FoldIndexes(path); got != want {
			t.Errorf("%q is folded to %q, want %q", path, got, want)
		}
	}
}
