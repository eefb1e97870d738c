package plot

import (
	"testing"

	"github.com/memlane/memlane/lifetime"
)

// TestAlike: panels leave out what all names begin with, whole parts only.
func TestAlike(t *testing.T) {
	space := func(host, device string) *lifetime.Space {
		return &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{Host: host, Device: device}}
	}
	for _, c := range []struct {
		host, other string
		want        string // of the other ID
	}{
		{"node1", "node1", "cuda:1"}, {"node1", "node12", "node12/cuda:1"}, {"", "", "cuda:1"}, {"node1", "", "cuda:1"},
	} {
		p := Plot{Space: space(c.host, "cuda:0"), others: []*lifetime.Space{space(c.other, "cuda:1"), space(c.host, "cuda:2")}}
		if got := p.others[0].ID()[p.alike():]; got != c.want {
			t.Errorf("%s and %s: %q, want %q", p.Space.ID(), p.others[0].ID(), got, c.want)
		}
	}
}
