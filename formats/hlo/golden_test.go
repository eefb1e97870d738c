package hlo_test

import (
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
)

// TestGolden compares the whole model of some programs with its native text: a training step, a donated
// argument, several memory spaces, a program that failed to compile, one for several devices.
func TestGolden(t *testing.T) {
	for _, name := range []string{"jax_train.jit_evaluate", "jax_donate.jit_donated", "padded", "oom", "seed_oom", "sharded"} {
		t.Run(name, func(t *testing.T) {
			c, err := readProgram(t, contentOf(t, filepath.Join(captures, name+".hlo.pb")))
			if err != nil {
				t.Fatal(err)
			}
			nativetest.Golden(t, c, filepath.Join(captures, name+".hlo.native"))
		})
	}
}
