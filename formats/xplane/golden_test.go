package xplane_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/formats"
)

var update = flag.Bool("update", false, "write the goldens again")

// TestGolden holds the whole model of some captures against their native text.
func TestGolden(t *testing.T) {
	for _, name := range []string{"tf_warm_cache", "tf_oom", "tf_graph"} {
		t.Run(name, func(t *testing.T) {
			c, err := formats.Open(filepath.Join(captures, name+".xplane.pb"), formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			got := text(t, c)
			golden := filepath.Join(captures, name+".native")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the model is not %s; if that is right, run go test -update and read the difference", golden)
			}
		})
	}
}
