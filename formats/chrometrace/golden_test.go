package chrometrace_test

import (
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
)

// TestGolden compares the models of some traces with their native text.
func TestGolden(t *testing.T) {
	for _, name := range []string{"cpu_leak", "t215_cpu_leak", "cpu_leak.timeline.raw"} {
		t.Run(name, func(t *testing.T) {
			nativetest.Golden(t, open(t, traceOf(t, captures+"/"+name)), captures+"/"+name+".native")
		})
	}
}
