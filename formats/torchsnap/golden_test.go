package torchsnap_test

import (
	"path/filepath"
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
)

// TestGolden compares the models of captures, one of each dialect, with their native
// text.
func TestGolden(t *testing.T) {
	for _, name := range []string{
		"segfree", "mode_pool", "mode_annot", "mode_state", "mode_snapmark", "expandable", "streams", "ring_100", "twodev",
		"oom_observer", "t201_list", "t212_leak", "t215_host", "t215_meta", "t215_skip", "held",
	} {
		t.Run(name, func(t *testing.T) {
			nativetest.Golden(t, open(t, filepath.Join(captures, name+".pickle")), filepath.Join(captures, name+".native"))
		})
	}
}
