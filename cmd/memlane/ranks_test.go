package main

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

func TestRanks(t *testing.T) {
	of := func(process string, peak int64) *lifetime.Capture {
		return &lifetime.Capture{Spaces: []*lifetime.Space{{Process: process, Base: 1, End: 1}, {Process: process, Base: peak, End: 1}}}
	}
	for _, c := range []struct {
		captures []*lifetime.Capture
		want     string
	}{
		{[]*lifetime.Capture{of("rank 0", 512)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("rank 0", 600)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("", 600)}, ""},
		{[]*lifetime.Capture{of("rank 0", 512), of("rank 1", 512)}, "\n2 ranks: peak 512 B on each\n"},
		{[]*lifetime.Capture{of("rank 2", 300), of("rank 0", 512), of("rank 1", 512)}, "\n3 ranks: peak 512 B on rank 0, least 300 B on rank 2\n"},
		{[]*lifetime.Capture{of("rank 0, pid 7", 300), of("rank 0, pid 8", 512), of("rank 1", 400)}, "\n2 ranks: peak 512 B on rank 0, least 400 B on rank 1\n"},
	} {
		var b strings.Builder
		printRanks(&b, c.captures)
		if b.String() != c.want {
			t.Errorf("prints %q, want %q", b.String(), c.want)
		}
	}
}
