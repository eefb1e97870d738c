package torchsnap_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the goldens again")

// TestGolden holds the whole model of some captures against their native text,
// one for each dialect.
func TestGolden(t *testing.T) {
	for _, name := range []string{
		"segfree", "mode_pool", "mode_annot", "mode_state", "mode_snapmark", "expandable", "streams", "ring_100", "twodev",
		"oom_observer", "t201_list", "t212_leak", "t215_host", "t215_meta", "t215_skip",
	} {
		t.Run(name, func(t *testing.T) {
			got := nativeText(t, open(t, filepath.Join(captures, name+".pickle")))
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
