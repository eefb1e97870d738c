package lifetime_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
)

func TestFoldIndexes(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "history[12]": "history[*]", "model.layers.3.mlp.conv2d.weight": "model.layers.*.mlp.conv2d.weight", "x2": "x2",
		"exp_avg of model.0.weight": "exp_avg of model.*.weight", "log.items['step 12']": "log.items['step *']", "a[(1, 22)].x1[0][7]": "a[(*, *)].x1[*][*]",
		"model.12": "model.*", "h1.0": "h1.*", "]]3": "]]3",
	} {
		if got := lifetime.FoldIndexes(path); got != want {
			t.Errorf("%q is folded to %q, want %q", path, got, want)
		}
	}
}
