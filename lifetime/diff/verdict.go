package diff

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
)

// toldRows is how many places a verdict names.
const toldRows = 3

// Verdict says in one line what matters: the peak, the places that changed most,
// and leaks that came or went.
func (r *Result) Verdict() string {
	var parts []string
	if p := r.Main(); p != nil {
		parts = append(parts, p.peak())
	}
	for i := range r.Rows[:min(len(r.Rows), toldRows)] {
		parts = append(parts, r.Rows[i].tell())
	}
	if n := len(r.Rows) - toldRows; n > 0 {
		parts = append(parts, fmt.Sprintf("%s more", units.Count(int64(n))))
	}
	said := map[string]bool{}
	told := func(format string, c *lifetime.Capture, f *leak.Finding) {
		if !f.IsLeak() {
			return
		}
		if part := fmt.Sprintf(format, name(c.PlaceOf(f.Place()).String())); !said[part] {
			said[part] = true
			parts = append(parts, part)
		}
	}
	for _, c := range r.Fixed {
		told("leak in %s fixed", r.Before, c.Before)
	}
	for _, c := range r.New {
		told("new leak in %s", r.After, c.After)
	}
	for _, c := range r.Still {
		told("%s still leaks", r.After, c.After)
	}
	if len(parts) == 0 {
		return "nothing to compare"
	}
	return strings.Join(parts, "; ")
}

// Main returns the pair that has the highest peak on either side, of what was
// recorded as the program ran where there is such; nil where there is none.
func (r *Result) Main() (best *Pair) {
	most := func(p *Pair) (n int64) {
		for _, s := range []*Side{p.Before, p.After} {
			if s != nil {
				n = max(n, s.Peak)
			}
		}
		return n
	}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if best == nil || cmp.Or(boolOrder(p.dynamic(), best.dynamic()), cmp.Compare(most(p), most(best))) > 0 {
			best = p
		}
	}
	return best
}

func boolOrder(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

func (p *Pair) dynamic() bool {
	s := cmp.Or(p.After, p.Before)
	return !static(s.Space)
}

// peak says how the peak of a pair changed.
func (p *Pair) peak() string {
	switch {
	case p.Before == nil:
		return fmt.Sprintf("%s is new with a peak of %s", p.Name, units.Bytes(p.After.Peak))
	case p.After == nil:
		return fmt.Sprintf("%s is gone with its peak of %s", p.Name, units.Bytes(p.Before.Peak))
	case p.Before.Peak == p.After.Peak:
		return "peak unchanged at " + units.Bytes(p.After.Peak)
	}
	return fmt.Sprintf("peak %s -> %s", units.Bytes(p.Before.Peak), units.Bytes(p.After.Peak))
}

// tell says how a place changed: at the peak or at the end, wherever it changed
// more.
func (r *Row) tell() string {
	change := larger(r.DeltaPeak(), r.DeltaEnd())
	what := name(r.Place().String())
	if r.Unseen {
		what = "what was there before the window"
	}
	switch r.Status {
	case New, Gone:
		return fmt.Sprintf("%s %s %s", units.Bytes(max(change, -change)), what, r.Status)
	case Grew:
		return fmt.Sprintf("%s +%s", what, units.Bytes(max(change, 0)))
	}
	return fmt.Sprintf("%s %s", what, units.Bytes(min(change, 0)))
}

// name leaves the file out: "step (train.py:12)" is step.
func name(place string) string {
	function, _, _ := strings.Cut(place, " (")
	return function
}

// Leaks returns how many leaks of at least a severity are new.
func (r *Result) Leaks(severity leak.Severity) (n int) {
	for _, c := range r.New {
		if c.After.IsLeak() && c.After.Severity >= severity {
			n++
		}
	}
	return n
}
