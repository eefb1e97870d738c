package gpumemprof_test

import (
	"bytes"
	"testing"

	"github.com/memlane/memlane/formats/gpumemprof"
	"github.com/memlane/memlane/internal/nativetest"
)

// FuzzRead reads anything: no panic, one clear error or a model that passes
// Check and can be written.
func FuzzRead(f *testing.F) {
	for _, name := range names {
		f.Add(contentOf(f, name))
	}
	f.Add([]byte("[" + result + "," + event + ",7,{}]"))
	f.Add([]byte(`{"results":[` + result + `],"x":[[{}]],"events":[` + event + `]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		gpumemprof.Sniff(data[:min(len(data), 4096)])
		if c, err := read(t, bytes.NewReader(data)); err == nil {
			nativetest.Text(t, c)
		}
	})
}
