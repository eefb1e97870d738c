package category

import (
	_ "embed"
	"path"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/internal/interned"
	"github.com/memlane/memlane/lifetime/program"
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

var repeats = ruleID(len(Rules) + 1)

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

type texts struct {
	all []string
	ids interned.Table[string, textID]
}

type numbers struct {
	texts  *texts
	number func(p purpose.Purpose, isJudged bool) lifetime.PurposeID

	recent [1024]struct { // by what is quick to look at
		verdict verdict
		id      lifetime.PurposeID // 0: nothing is here
	}
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

// facts is what a call stack says about an allocation or a free: see program.Facts.
type facts struct {
	python, engine, rooted bool
	within                 program.Part
	flags                  program.Flag
	converts               lifetime.FrameID
	thread                 program.ThreadID
	path, rootCall         program.PathID
	call                   program.CallID
	callee                 lifetime.FrameID
	module                 textID // the innermost module that a trace names
}

type reader struct {
	*program.Stacks
	t      *lifetime.Tables
	marked []*lifetime.Space                   // those with marks, which may be about others
	places []place                             // by SiteID
	texts  texts                               // of verdicts
	byName map[program.PathID]purpose.Category // see named

	byFunction map[*frame.Frame]purpose.Category // see categoryOf

	opScopes       []opScope // by SiteID; nil = not read
	differentiates bool      // an operation is part of a pass with derivatives
}

func newReader(t *lifetime.Tables) *reader {
	r := &reader{Stacks: program.NewStacks(t), t: t, places: make([]place, len(t.Sites)),
		byName: map[program.PathID]purpose.Category{}, byFunction: map[*frame.Frame]purpose.Category{}}
	r.texts.ids = interned.New[string, textID](&r.texts.all)
	return r
}

var noFacts facts

func (r *reader) of(id lifetime.StackID) (facts, purpose.Phase) {
	f := r.Of(id)
	out := facts{f.Python, f.Engine, f.Rooted, f.Within, f.Flags, f.Converts, f.Thread, f.Path, f.RootCall, f.Call, f.Callee, 0}
	if f.Module != 0 {
		name, _ := program.ModuleName(r.t.Frames[f.Module].Function)
		out.module = r.texts.ids.ID(path.Base(name))
	}
	return out, r.PhaseOf(f)
}

// inEngine reports whether a stack is of a thread of the autograd engine.
func (r *reader) inEngine(f *facts) bool { return f.engine || f.python && !f.rooted && r.HasEngine() }

// isUsers reports whether a function of the program is innermost in a path, such as a closure that an optimizer calls.
func (r *reader) isUsers(path program.PathID) bool {
	_, f := r.Callers(path)
	return f.Kind == frame.User
}

// Tried is how often a rule was right on programs that it was not made from.
type Tried struct {
	Programs int     // in which it decided about a buffer at the peak
	Right    float64 // sum over these programs of the share of the bytes about which it was right
}

// Confidence returns the mean of the beta distribution with these counts: a rule that was never tried gets 0.5.
func (t Tried) Confidence() float32 { return float32((t.Right + 1) / (float64(t.Programs) + 2)) }

// confidences is a line for each rule: name, programs, right. TestMeasured writes it.
//
//go:embed confidence.tsv
var confidences string

// Measured is how often each rule was right, by its name.
var Measured = func() map[string]Tried {
	all := map[string]Tried{}
	for line := range strings.Lines(confidences) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "rule" {
			continue
		}
		programs, _ := strconv.Atoi(fields[1])
		right, _ := strconv.ParseFloat(fields[2], 64)
		all[fields[0]] = Tried{programs, right}
	}
	return all
}()

var measured = func() []float32 {
	all := make([]float32, repeats+1)
	for i := range Rules {
		if all[i+1] = Measured[Rules[i].Name].Confidence(); Rules[i].Evidence == purpose.FromRecord {
			all[i+1] = 1 // it was written, not inferred
		}
	}
	all[repeats] = Measured[Repeats].Confidence()
	return all
}()
