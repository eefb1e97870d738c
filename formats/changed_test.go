package formats_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
)

// TestChanged compares what programs of testdata/changed would need with jax.checkpoint with what they needed when they were changed and compiled
// again. No change is found for those that have it, nor for CPU.
func TestChanged(t *testing.T) {
	lines := map[string]string{"mlp.v5e": "unrolled.py:37", "gated.v6e": "unrolled.py:190", "towers.v5e": "unrolled.py:117", "ssm.v5e": "unrolled.py:232"}
	files, err := filepath.Glob("../testdata/changed/*.hlo.pb.zst")
	if err != nil || len(files) < 2*len(lines) {
		t.Fatal(files, err)
	}
	for _, file := range files {
		s := spaceOf(t, file)
		var all []compiled.Change
		for _, c := range s.Remedies {
			if c.Kind == compiled.Checkpoint || c.Kind == compiled.Layers {
				all = append(all, c)
			}
		}
		name := strings.TrimSuffix(filepath.Base(file), ".hlo.pb.zst")
		switch want := lines[name]; {
		case want == "" && len(all) > 0:
			t.Errorf("%s: %v", name, all)
		case want != "" && (len(all) != 1 || all[0].What != want):
			t.Errorf("%s: %v, want %s", name, all, want)
		case want != "":
			real := spaceOf(t, strings.Replace(file, ".v", "_ckpt.v", 1)).Peak(lifetime.Occupied).Bytes
			if now := s.Peak(lifetime.Occupied).Bytes; real < all[0].Low || real > all[0].High || all[0].High >= now {
				t.Errorf("%s: %+v of %d, but it is %d", name, all[0], now, real)
			}
		}
	}
}

func spaceOf(t *testing.T, file string) *lifetime.Space {
	c, err := formats.Open(file, formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Spaces[0]
}
