package purpose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
)

// TestOlder: what buffers from before the recording are. A program stopped recording and began again, so that the allocator still knows
// their stacks, also without any history; those of the engine's threads have no stack. And weights that are as large as a workspace.
func TestOlder(t *testing.T) {
	for _, name := range []string{"python", "all", "state_python", "state_all", "hopper"} {
		data, err := os.ReadFile(filepath.Join("../../testdata/meaning/older", name+".categories.json"))
		if err != nil {
			t.Fatal(err)
		}
		truth := map[string]string{}
		if err := json.Unmarshal(data, &truth); err != nil {
			t.Fatal(err)
		}
		c, err := formats.Open(filepath.Join("../../testdata/meaning/older", name+".pickle.zst"), formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		s := c.Spaces[0]
		for i := range s.Buffers {
			b := &s.Buffers[i]
			want := truth["0x"+strconv.FormatUint(b.Addr, 16)]
			if b.Edge&lifetime.BeginUnseen == 0 || want == "" {
				continue
			}
			found++
			if p := c.Purpose(s.PurposeOf(i)); p.Category.String() != want {
				t.Errorf("%s: %d bytes of site %d are %s with %v, want %s", name, b.Requested, b.Site, p.Category, p.Confidence, want)
			}
		}
		if found != len(truth) {
			t.Errorf("%s: %d buffers, want %d", name, found, len(truth))
		}
	}
}
