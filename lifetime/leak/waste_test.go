package leak_test

import (
	"fmt"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// TestWasteAtLimits: what counts as allocated for much more than was asked for: less
// than half of a buffer is used, 1 MiB and more is lost, a tenth of the peak warns.
func TestWasteAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		n                   int
		requested, occupied int64
		beside              int64 // of the peak
		want                string
	}{
		"half is used":     {4096, 512, 1024, 0, ""},
		"less than half":   {4096, 511, 1024, 0, "warning 4096 4194304 2093056"},
		"1 MiB is lost":    {2048, 512, 1024 + 0, 0, ""},
		"a MiB of a tenth": {2048, 0, 512, 9 * mib, "warning 2048 1048576 0"},
		"less than that":   {2048, 0, 512, 9*mib + 512, "info 2048 1048576 0"},
		"too little":       {2047, 0, 512, 0, ""},
	} {
		b := lifetime.NewBuilder()
		b.Source(lifetime.Source{File: "made"})
		s := b.Space()
		site := func(name string) lifetime.SiteID {
			return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(lifetime.Frame{Function: name, File: "train.py", Kind: lifetime.User})})})
		}
		at, addr := int64(1), uint64(1<<30)
		b.Alloc(s, at, addr, 64, 64, site("first"))
		b.Free(s, at+1, addr, 64, 0)
		if c.beside > 0 {
			b.Alloc(s, at+2, 1<<40, c.beside, c.beside, site("beside"))
		}
		for range c.n {
			at += 10
			addr += 4096
			b.Alloc(s, at, addr, c.requested, c.occupied, site("small"))
		}
		b.Describe(s, lifetime.Space{Device: "cuda:0", Facts: lifetime.Clock})
		capture, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, f := range leak.Find(capture, capture.Spaces, leak.Settings{}) {
			if f.Rule == "inefficient_allocation" {
				got += fmt.Sprint(f.Severity, " ", f.Amount.Count, " ", f.Amount.Bytes, " ", f.Amount.Requested)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRepeatedAtLimits: what counts as allocated over and over: 200 times, ten times a
// step, a tenth of all allocations, mostly in one size.
func TestRepeatedAtLimits(t *testing.T) {
	for name, c := range map[string]struct {
		steps, again, other, rest int // again of one size and other of another in each step, rest by other functions
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
		b := lifetime.NewBuilder()
		b.Source(lifetime.Source{File: "made"})
		s := b.Space()
		site := func(name string) lifetime.SiteID {
			return b.Site(lifetime.Site{Stack: b.Stack([]lifetime.FrameID{b.Frame(lifetime.Frame{Function: name, File: "train.py", Kind: lifetime.User})})})
		}
		at := int64(1)
		do := func(n int, name string, size int64) {
			for range n {
				b.Alloc(s, at, 4096, size, size, site(name))
				b.Free(s, at+1, 4096, size, 0)
				at += 10
			}
		}
		for range c.steps {
			b.Mark(s, lifetime.Mark{Begin: at, End: at + 5, Kind: lifetime.Step, Text: "step"})
			do(c.again, "again", 512)
			do(c.other, "again", 1024)
			for i := range c.rest {
				do(1, fmt.Sprint("rest", i), 256)
			}
		}
		b.Describe(s, lifetime.Space{Device: "cuda:0", Facts: lifetime.Clock})
		capture, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, f := range leak.Find(capture, capture.Spaces, leak.Settings{}) {
			if f.Rule == "repeated_allocation" {
				got += fmt.Sprint(f.Amount.Count, " of ", evidence(f, "size"))
				if f.Amount.Bytes != f.Amount.Count*int64(evidence(f, "size").(float64)) || evidence(f, "share_of_allocations") != float64(f.Amount.Count)/float64(c.steps*(c.again+c.other+c.rest)) {
					t.Errorf("%s: %v %v", name, f.Amount, f.Evidence)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
