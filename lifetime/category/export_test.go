package category

import (
	"github.com/memlane/memlane/lifetime/purpose"
)

// Off switches a rule off, and returns what switches it on again. A test must not do so beside others.
func Off(name string) (on func()) {
	for g := range groups {
		for k := range groups[g].rules {
			if r := &groups[g].rules[k]; r.Name == name {
				was := r.match
				r.match = match{other: func(*view) (c purpose.Category, p purpose.Phase, ok bool) { return }}
				return func() { r.match = was }
			}
		}
	}
	panic("no rule " + name)
}
