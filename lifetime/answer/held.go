package answer

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
)

// heldBy sums up the buffers that are alive at an instant by what holds them at the end, largest first. It is empty if
// no holder was recorded. "unknown" are those that are gone at the end, or that have no recorded holder.
func heldBy(t *lifetime.Tables, s *lifetime.Space, at int64) []Part {
	all := []Part{}
	if s == nil || s.Holders == nil {
		return all
	}
	total := int64(0)
	index := map[string]int{}
	for _, i := range s.LiveAt(at) {
		name := ""
		if h := t.HolderOf(s, i); h != nil {
			name = holder.FoldIndexes(h.Whole())
		}
		name = cmp.Or(name, "unknown")
		k, ok := index[name]
		if !ok {
			k = len(all)
			index[name], all = k, append(all, Part{Name: name})
		}
		b := &s.Buffers[i]
		all[k].Bytes, all[k].RequestedBytes = units.AddSat(all[k].Bytes, b.Size), units.AddSat(all[k].RequestedBytes, b.Requested)
		all[k].Count++
		total = units.AddSat(total, b.Size)
	}
	for i := range all {
		all[i].Share = share(all[i].Bytes, total)
	}
	slices.SortFunc(all, func(x, y Part) int { return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Name, y.Name)) })
	return all
}
