package finding_test

import (
	"fmt"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime/finding"
)

// TestWasteAtLimits: a finding needs less than half of each buffer used and at least 1 MiB wasted; from a tenth of the peak
// on it is a warning.
func TestWasteAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		n                   int
		requested, occupied int64
		other               int64 // other bytes at the peak
		want                string
	}{
		"half is used":     {4096, 512, 1024, 0, ""},
		"less than half":   {4096, 511, 1024, 0, "warning 4096 4194304 2093056"},
		"half of fewer":    {2048, 512, 1024, 0, ""},
		"a MiB of a tenth": {2048, 0, 512, 9 * mib, "warning 2048 1048576 0"},
		"less than that":   {2048, 0, 512, 9*mib + 512, "info 2048 1048576 0"},
		"too little":       {2047, 0, 512, 0, ""},
	} {
		h := newByHand()
		h.free(h.alloc("first", 64))
		if c.other > 0 {
			h.alloc("other", c.other)
		}
		for range c.n {
			h.allocPadded("small", c.requested, c.occupied)
		}
		_, found := h.find(t, "inefficient_allocation")
		var got string
		for _, f := range found {
			got += fmt.Sprint(f.Severity, " ", f.Amount.Count, " ", f.Amount.Bytes, " ", f.Amount.Requested)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAutocastCopies: 16-bit copies of weights are a finding only where the end of an autocast context freed them and they lie at the peak.
// The figures are counted from the events of the snapshots.
func TestAutocastCopies(t *testing.T) {
	for file, want := range map[string]string{
		"whatif/autocast_forward": "info derived 8 8398848 8398848: 16-bit copies of the weights (autocast's cache) hold 8.01 MiB at the peak; " +
			"without them the peak is 8.01 MiB lower > Call model.bfloat16(): gradients and states then have 16 bits, too.",
		"meaning/n10":           "", // the context ends before the peak
		"meaning/libraries/c71": "", // a single copy, of less than 1 MiB
		"meaning/m01":           "", // no autocast
	} {
		c, err := judged.Open("../../testdata/"+file+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range find(t, c.Capture, finding.Settings{}) {
			if f.Rule == "inefficient_allocation" {
				got += fmt.Sprintf("%v %v %d %d %.0f: %s > %s", f.Severity, f.How(), f.Amount.Count, f.Amount.Bytes, evidence(f, "saved_bytes"), f.Description, f.Suggestions[0])
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// TestRepeatedAtLimits: a finding needs 200 allocations, ten per step, a tenth of all allocations, and mostly one size.
func TestRepeatedAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		steps, again, other, rest int // per step: again of one size, other of another size, rest by other functions
		want                      string
	}{
		"200":                 {10, 20, 0, 0, "200 of 512"},
		"199":                 {1, 199, 0, 0, ""},
		"ten a step":          {20, 10, 0, 0, "200 of 512"},
		"nine a step":         {23, 9, 0, 0, ""},
		"a tenth":             {20, 10, 0, 90, "200 of 512"},
		"less than a tenth":   {20, 10, 0, 91, ""},
		"half in one size":    {20, 10, 10, 0, "200 of 512"},
		"less than that":      {20, 20, 21, 0, "420 of 1024"},
		"the larger one more": {20, 10, 11, 0, "220 of 1024"},
	} {
		h := newByHand()
		do := func(n int, name string, size int64) {
			for range n {
				h.free(h.alloc(name, size))
			}
		}
		for range c.steps {
			h.step()
			do(c.again, "again", 512)
			do(c.other, "again", 1024)
			for i := range c.rest {
				do(1, fmt.Sprint("rest", i), 256)
			}
		}
		_, found := h.find(t, "repeated_allocation")
		var got string
		for _, f := range found {
			got += fmt.Sprint(f.Amount.Count, " of ", evidence(f, "size"))
			all := float64(c.steps * (c.again + c.other + c.rest))
			if f.Amount.Bytes != f.Amount.Count*int64(evidence(f, "size").(float64)) || evidence(f,
				"share_of_allocations") != float64(f.Amount.Count)/all {
				t.Errorf("%s: %v %v", name, f.Amount, f.Evidence)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
