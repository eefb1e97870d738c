package leak

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// streamOf returns the stream of a live buffer: that of the region that holds it.
func (l Look) streamOf(b *lifetime.Buffer) int64 {
	if l.streams == nil {
		l.streams = newStreams(l.Space)
	}
	return l.streams.of(b)
}

// streams are the regions that are reserved at the end of the window, by address.
type streams []lifetime.Region

func newStreams(s *lifetime.Space) streams {
	live := streams{}
	for _, r := range s.Regions {
		if r.Edge&lifetime.EndOpen != 0 {
			live = append(live, r)
		}
	}
	slices.SortFunc(live, func(a, b lifetime.Region) int { return cmp.Compare(a.Addr, b.Addr) })
	return live
}

func (st streams) of(b *lifetime.Buffer) int64 {
	i, found := slices.BinarySearchFunc(st, b.Addr, func(r lifetime.Region, addr uint64) int { return cmp.Compare(r.Addr, addr) })
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	return st[i].Stream
}
