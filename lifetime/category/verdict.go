package category

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/purpose"
)

// verdict is the purpose of one buffer, with numbers for texts: there is one for each buffer, and few purposes.
type verdict struct {
	Category       purpose.Category
	Phase          purpose.Phase
	Part           purpose.Part
	Evidence       purpose.Evidence
	Rule           ruleID
	ModuleInferred bool
	PhaseHow       purpose.How
	Own, Module    textID
}

// ruleID is the place of a rule in Rules, from 1; 0 = none.
type ruleID uint16

// repeats is the number of the rule Repeats.
var repeats = ruleID(len(Rules) + 1)

// name returns the name of a rule.
func (r ruleID) name() string {
	switch r {
	case 0:
		return ""
	case repeats:
		return Repeats
	}
	return Rules[r-1].Name
}

// textID is the number of a text in texts; 0 = "".
type textID uint32

// texts numbers texts.
type texts struct {
	all []string
	ids interned.Table[string, textID]
}

// numbers numbers the purposes of verdicts.
type numbers struct {
	texts  *texts
	number func(p purpose.Purpose, isJudged bool) lifetime.PurposeID

	recent [1024]struct { // by what is quick to look at
		verdict verdict
		id      lifetime.PurposeID // 0: nothing is here
	}
}

func newNumbers(t *lifetime.Tables, texts *texts) *numbers {
	return &numbers{texts: texts, number: numbered(t)}
}

// of returns the number of the purpose that a verdict says. isJudged is as for numbered.
func (n *numbers) of(v *verdict, isJudged bool) lifetime.PurposeID {
	if !isJudged && *v == (verdict{}) {
		return 0
	}
	slot := &n.recent[(uint32(v.Rule)*37+uint32(v.Phase)*11+uint32(v.Part)*5+uint32(v.Module)*101)%uint32(len(n.recent))]
	if slot.id == 0 || slot.verdict != *v {
		slot.verdict, slot.id = *v, n.number(purpose.Purpose{
			Category: v.Category, Phase: v.Phase, Part: v.Part, Evidence: v.Evidence, Confidence: measured[v.Rule], Rule: v.Rule.name(),
			How: v.Evidence.How(), PhaseHow: v.PhaseHow,
			Own: n.texts.all[v.Own], Module: n.texts.all[v.Module], ModuleInferred: v.ModuleInferred,
		}, true)
	}
	return slot.id
}

// numbered returns a function that returns the number of a purpose. The first time, it adds the purpose to t.
// The zero Purpose gets a number only if the program was judged.
func numbered(t *lifetime.Tables) func(p purpose.Purpose, isJudged bool) lifetime.PurposeID {
	ids := interned.Of[purpose.Purpose, lifetime.PurposeID](&t.Purposes)
	nothing := lifetime.PurposeID(0) // of a judged buffer about which nothing is known
	return func(p purpose.Purpose, isJudged bool) lifetime.PurposeID {
		if p != (purpose.Purpose{}) || !isJudged {
			return ids.ID(p)
		}
		if nothing == 0 {
			nothing = lifetime.PurposeID(len(t.Purposes))
			t.Purposes = append(t.Purposes, p)
		}
		return nothing
	}
}
