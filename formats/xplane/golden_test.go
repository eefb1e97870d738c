package xplane_test

import (
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/nativetest"
)

// TestGolden compares the whole model of some captures with their native text.
func TestGolden(t *testing.T) {
	for _, name := range []string{"tf_warm_cache", "tf_oom", "tf_graph"} {
		t.Run(name, func(t *testing.T) {
			c, err := formats.Open(filepath.Join(captures, name+".xplane.pb"), formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			nativetest.Golden(t, c, filepath.Join(captures, name+".native"))
		})
	}
}
