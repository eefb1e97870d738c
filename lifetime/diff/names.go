package diff

import (
	"maps"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
)

// setNames sets the names of the places of a space. Groups have none: what they are tells more.
func setNames(t *lifetime.Tables, s *lifetime.Space, at func(lifetime.SiteID) *placeSum) {
	if s.Holders == nil || s.Ungrouped != nil {
		return
	}
	names := map[*placeSum]map[string]bool{}
	for i := range s.Buffers {
		h := t.HolderOf(s, i)
		if h == nil || h.Name == "" {
			continue
		}
		p := at(s.Buffers[i].Site)
		if names[p] == nil {
			names[p] = map[string]bool{}
		}
		names[p][holder.FoldIndexes(h.Name)] = true
	}
	for p, all := range names {
		p.names = strings.Join(slices.Sorted(maps.Keys(all)), "\n")
	}
}

// pairNamed pairs the places whose buffers have the same names, unless other places have them too: code moves to other
// lines, functions and files, a parameter keeps its name.
func pairNamed(before, after []*placeSum, pair func(b, a *placeSum)) {
	pairOnly(before, after, func(p *placeSum) (string, bool) { return p.names, p.names != "" }, pair)
}

// pairOnly pairs the places with a key that no other place of their side has.
func pairOnly[K comparable](before, after []*placeSum, key func(p *placeSum) (k K, ok bool), pair func(b, a *placeSum)) {
	only := func(places []*placeSum) map[K]*placeSum {
		index := map[K]*placeSum{}
		for _, p := range places {
			if k, ok := key(p); ok {
				if _, several := index[k]; several {
					p = nil
				}
				index[k] = p
			}
		}
		return index
	}
	was, is := only(before), only(after)
	for _, b := range before {
		if k, _ := key(b); is[k] != nil && was[k] == b {
			pair(b, is[k])
		}
	}
}
