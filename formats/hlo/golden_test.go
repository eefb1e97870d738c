package hlo_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the goldens again")

// TestGolden holds the whole model of some programs against its native text: a
// training step, a donated argument, several memory spaces, a refused program.
func TestGolden(t *testing.T) {
	for _, name := range []string{"jax_train.jit_evaluate", "jax_donate.jit_donated", "padded", "oom", "seed_oom"} {
		t.Run(name, func(t *testing.T) {
			c, err := readProgram(t, contentOf(t, filepath.Join(captures, name+".hlo.pb")))
			if err != nil {
				t.Fatal(err)
			}
			got := nativeText(t, c)
			golden := filepath.Join(captures, name+".hlo.native")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(contentOf(t, golden)) {
				t.Errorf("the model is not %s; if that is right, run go test -update and read the difference", golden)
			}
		})
	}
}
