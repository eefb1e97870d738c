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

// TestRecordedAgain: a program stopped recording and began again. The allocator still knows the stacks of the buffers from before, and
// they tell what the buffers are, also those of the engine's threads, which have no stack.
func TestRecordedAgain(t *testing.T) {
	for _, name := range []string{"python", "all"} {
		data, err := os.ReadFile(filepath.Join("../../testdata/meaning/again", name+".categories.json"))
		if err != nil {
			t.Fatal(err)
		}
		truth := map[string]string{}
		if err := json.Unmarshal(data, &truth); err != nil {
			t.Fatal(err)
		}
		c, err := formats.Open(filepath.Join("../../testdata/meaning/again", name+".pickle.zst"), formats.Input{})
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
