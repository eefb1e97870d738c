package xplane

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// step is a root event: one iteration that the program marked, or a function that it called.
type step struct {
	begin, end int64 // nanoseconds
	meta       int64
	number     int64 // step_num; -1: none
}

// marks returns the steps as marks: the roots that are not nested in another root, on any thread. Work that a
// step starts on another thread belongs to that step.
func (h *host) marks() ([]lifetime.Mark, error) {
	slices.SortStableFunc(h.steps, func(x, y step) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(y.end, x.end)) })
	var outer []step
	names := map[int64]string{}
	for _, s := range h.steps {
		if n := len(outer); n > 0 && s.end <= outer[n-1].end {
			continue
		}
		outer = append(outer, s)
		names[s.meta] = ""
	}
	if len(outer) == 0 {
		return nil, nil
	}
	err := h.r.entries(h.p, planeEventMeta, func(e entry, name []byte) error {
		if _, used := names[e.id]; used {
			names[e.id] = string(name)
		}
		return nil
	})
	var marks []lifetime.Mark
	for _, s := range outer {
		text := names[s.meta]
		if s.number >= 0 {
			text = fmt.Sprintf("%s %d", text, s.number)
		}
		marks = append(marks, lifetime.Mark{Begin: s.begin, End: max(s.end, s.begin+1), Kind: lifetime.Step, Text: text})
	}
	return marks, err
}
