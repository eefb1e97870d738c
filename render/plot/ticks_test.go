package plot

import (
	"math"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

func TestLabels(t *testing.T) {
	for v, want := range map[uint64]string{
		0: "0", 3: "3 B", 512: "512 B", 1 << 20: "1 MiB", 768 << 20: "768 MiB", 1280 << 20: "1.25 GiB", 1152 << 20: "1152 MiB",
		3 << 29: "1.5 GiB", 5 << 60: "5 EiB",
	} {
		if got := roundSize(v); got != want {
			t.Errorf("roundSize(%d) = %q, want %q", v, got, want)
		}
	}
	for want, tc := range map[string][2]uint64{"0": {0, 1e6}, "1,200": {1200e9, 1e9}, "0.5": {5e5, 1e6}, "12": {12, 1}} {
		if got := tickText(tc[0], tc[1]); got != want {
			t.Errorf("tickText(%d, %d) = %q, want %q", tc[0], tc[1], got, want)
		}
	}
	for _, tc := range []struct {
		length, n, unit, want uint64
	}{{65, 8, 10, 10}, {7, 7, 1, 1}, {100, 6, 1, 20}, {1000, 1, 1, 1000}, {0, 5, 1, 1}, {math.MaxUint64, 5, 3600e9, 0}} {
		got := roundStep(tc.length, tc.n, tc.unit)
		if tc.want != 0 && got != tc.want {
			t.Errorf("roundStep(%d, %d, %d) = %d, want %d", tc.length, tc.n, tc.unit, got, tc.want)
		}
	}
}

func TestSource(t *testing.T) {
	for file, want := range map[string]string{`C:\runs\a.pickle`: "a.pickle", "/x/b": "b", "c": "c", "": "cuda:0"} {
		c := &lifetime.Capture{Tables: lifetime.Tables{Sources: []lifetime.Source{{File: file}}}}
		p := Plot{Space: &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Device: "cuda:0"}}, Width: 9600}
		if got := p.Source(c)[0]; got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}
