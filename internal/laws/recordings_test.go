package laws

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/whatif"
)

// tried are changes that need no names.
var tried = func() (all []whatif.Scenario) {
	for _, edits := range strings.Fields("batch=2 batch=0.5 checkpoint=blocks optimizer=sgd optimizer=adam8bit optimizer.device=host foreach=off accumulate=2 " +
		"set_to_none=off offload=activations no_grad no_grad=evaluation precision=bf16 layers=2 layers=7 loss.chunks=8 shard=4:optimizer shard=4:parameters") {
		s, err := whatif.Parse(edits)
		if err != nil {
			panic(err)
		}
		all = append(all, s)
	}
	return all
}()

// recordings are other recordings of a run: by the recorder, with the names of what holds memory, and with Python's frames alone.
func recordings(s *snapshot) cases {
	return func(yield func(evidenceCase) bool) {
		if s.names != "" && !yield(evidenceCase{name: "recorder", changed: s, holds: func(bare, named *verdict) []breach { return predictedAlike(named, bare) }}) {
			return
		}
		if bare := s.unnamed(); bare.hasNative() {
			yield(evidenceCase{name: "Python's frames", changed: bare.withoutNative(), holds: predictedAlike})
		}
	}
}

// predictedAlike compares what a recording says of changes with what one that knows more says. A recording may refuse for want of what the other has.
func predictedAlike(more, less *verdict) (all []breach) {
	ask := func(v *verdict) (spaces []answer.WhatIfSpace) {
		spaces, _ = answer.WhatIfOf(v.Capture, answer.WhatIfAsked{Scenarios: tried}) // none without a history
		return spaces
	}
	young := ask(less)
	for i, old := range ask(more) {
		for k := range old.Scenarios {
			x := &old.Scenarios[k]
			at := slices.IndexFunc(young[i].Scenarios, func(y answer.WhatIfScenario) bool { return slices.Equal(x.Edits, y.Edits) })
			if at < 0 { // one step or several?
				continue
			}
			switch y, what := &young[i].Scenarios[at], strings.Join(x.Edits, ","); {
			case y.Refused != "":
			case x.Refused != "":
				all = append(all, breach{"refused and answered: " + what, x.Refused, 1})
			case *x.PeakBytes < *y.LowBytes || *x.PeakBytes > *y.HighBytes:
				off := max(*y.LowBytes-*x.PeakBytes, *x.PeakBytes-*y.HighBytes)
				all = append(all, breach{what, fmt.Sprintf("%s: %d is not in %d to %d B", old.ID, *x.PeakBytes, *y.LowBytes, *y.HighBytes),
					float64(off) / float64(*x.PeakBytes)})
			}
		}
	}
	return all
}
