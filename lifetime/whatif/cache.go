package whatif

import (
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

var cacheKind = Kind{
	Name: "kv-cache", Values: "FACTOR", Doc: "multiply the cache of keys and values", check: isFactor, adds: isGrowth, off: offCache,
	apply: func(m *model, v string) string { return m.scaleCache(number(v)) },
}

// scaleCache multiplies the size of the cache of keys and values. What else grows with it is not recorded: attention over a longer context
// makes more of it, over more requests each pass does. The range goes to where all that passes make grows, and scores with the square.
func (m *model) scaleCache(factor float64) string {
	isCache := func(b *buffer) bool { return b.category == purpose.Cache && b.size > smallest }
	if !m.any(isCache) {
		return "no cache of keys and values is known"
	}
	for _, b := range m.buffers {
		if isCache(b) {
			b.size = max(1, int64(float64(b.size)*factor))
		}
	}
	all := m.clone()
	scores := m.sizes(func(b *buffer) bool { return m.op(b) == "" || m.does(b, program.OpSoftmax|program.OpAttention) })
	all.resize(func(b *buffer) float64 {
		if scores[b.size] {
			return factor * factor
		}
		return factor
	})
	m.leaveOpen(all)
	return ""
}
