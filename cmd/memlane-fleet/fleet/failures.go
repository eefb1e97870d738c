package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// FailureGroup is failed allocations with one reason, that ended a program.
type FailureGroup struct {
	Reason     string // with its words
	Ranks      []string
	Requesters []string // places that asked, those of most ranks first
	WhatIf     *WhatIf  // nil if no change is known
}

// WhatIf is what would have lowered the peak of a rank most: the worst of a group for which a change is known.
type WhatIf struct {
	Rank string
	Change
}

func whatIfOf(m *member) *WhatIf {
	if m == nil {
		return nil
	}
	return &WhatIf{m.k.RankOf(m.memory), m.of().Change}
}

// Failures returns the failed allocations of all captures by reason, those of most ranks first.
func (f *Fleet) Failures() (all []FailureGroup) {
	ranks, requesters, worst := map[string][]string{}, map[string]map[string]int{}, map[string]*member{}
	for _, k := range f.inOrder() {
		for i := range k.Memories {
			m := &k.Memories[i]
			if m.Failed == "" {
				continue
			}
			ranks[m.Failed] = append(ranks[m.Failed], k.RankOf(i))
			if m.Change.Saved > 0 && (worst[m.Failed] == nil || m.Peak > worst[m.Failed].of().Peak) {
				worst[m.Failed] = &member{k: k, memory: i}
			}
			if requesters[m.Failed] == nil {
				requesters[m.Failed] = map[string]int{}
			}
			if m.Requester != "" {
				requesters[m.Failed][m.Requester]++
			}
		}
	}
	for reason, of := range ranks {
		slices.SortFunc(of, CompareRanks)
		counts := requesters[reason]
		all = append(all, FailureGroup{reason, slices.Compact(of), byCount(counts), whatIfOf(worst[reason])})
	}
	slices.SortFunc(all, func(a, b FailureGroup) int {
		return cmp.Or(cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// byCount returns names, the most frequent first.
func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
}
