package category

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// growths is how often in a row a place must leave more, by the same number of bytes, to be one of a growing cache.
const growths = 3

// growth is how the bytes that a place leaves after a call of the model change from call to call.
type growth struct {
	span       int32
	size, more int64
	times      int
}

// grows reports whether a buffer is of a place that leaves after each call of the model as many bytes more as after the call
// before: so does a cache to which each call adds a position. The autograd graph holds none of them.
func (v *view) grows() bool {
	if v.f.within != inModule || v.byGraph || !v.outlivesCall() {
		return false
	}
	return v.isGrowing(v.b.Site)
}

// freedByGrowing reports whether such a place freed the buffer.
func (v *view) freedByGrowing() bool {
	return v.freed != nil && v.freed.within == inModule && v.isGrowing(v.freeSite(v.i))
}

func (a *analysis) isGrowing(site lifetime.SiteID) bool {
	if a.growing == nil {
		a.growing = a.growingPlaces()
	}
	return a.growing[site]
}

// outlivesCall reports whether a buffer of a forward pass is alive when the program allocates for the first time after the call.
func (v *view) outlivesCall() bool {
	if v.next == 0 || v.lasts[v.i] {
		return false
	}
	end := v.spans[v.next-1].end
	if v.open {
		return true
	}
	after, _ := slices.BinarySearchFunc(v.s.Buffers, end+1, func(b lifetime.Buffer, t int64) int { return cmp.Compare(b.Begin, t) })
	return after < len(v.s.Buffers) && v.b.End > v.s.Buffers[after].Begin
}

func (a *analysis) growingPlaces() map[lifetime.SiteID]bool {
	seen, is := map[lifetime.SiteID]*growth{}, map[lifetime.SiteID]bool{}
	v := &view{analysis: a} // one for all: the rules look at scratch
	for i := range a.s.Buffers {
		if a.out[i].Phase != lifetime.Forward || a.flags[i]&heldByGraph != 0 {
			continue
		}
		v.set(i)
		if v.unseen || v.f.within != inModule || !v.outlivesCall() {
			continue
		}
		g := seen[v.b.Site]
		switch {
		case g == nil:
			seen[v.b.Site] = &growth{span: a.next[i], size: v.b.Requested}
			continue
		case g.span == a.next[i]:
			continue
		}
		more := v.b.Requested - g.size
		if more != g.more || more <= 0 {
			g.times = 0
		}
		g.times++
		g.span, g.size, g.more = a.next[i], v.b.Requested, more
		if more > 0 && g.times >= growths {
			is[v.b.Site] = true
		}
	}
	return is
}
