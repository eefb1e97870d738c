package finding

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// Kind is the kind of a rule. The list is closed: code that treats findings differently uses the kind, never the name of a rule.
type Kind uint8

const (
	KindForeign   Kind = iota // a rule of another tool
	KindLeak                  // memory that grows until the recording ends: confirmed and suspected leaks
	KindFailure               // an allocation that failed, or a peak close to the limit
	KindRetention             // memory that is retained or freed late, but does not grow without end
	KindUsage                 // the run as a whole: trends, spikes, ranks that differ
	KindWaste                 // memory or time that another way of allocating would save
	KindProgram               // memory that a compiled program needs for its whole run
)

// String returns the name of the kind in the manual.
func (k Kind) String() string {
	return [...]string{"foreign", "leak", "failure", "retention", "usage", "waste", "program"}[k]
}

// Rule is one way to find problems in a space. A program may add its own: append them to [Rules] in [Settings].Rules.
// Rules behind memlane's own do not judge the call sites of leaks, caches and late frees; before them they judge all.
type Rule struct {
	Name     string // as in JSON and labels
	Kind     Kind
	Doc      string // what it finds, in one line
	Explains bool   // its findings explain why buffers are alive: later rules skip their sites

	byNumber bool // its leaks are a number of retained buffers and nothing else: a few may be a cache that is still filling

	// Run returns the findings of a space; nil for a rule that compares captures. Find sets their Rule, Kind and Space.
	// It sets Confidence if that is 0: as measured for memlane's rules; for others 0.5 if the Kind is KindLeak, else 1.
	Run func(*Pass) []Finding
}

// Rules returns memlane's own rules, in the order in which they run. The slice is the caller's.
func Rules() []Rule {
	return []Rule{
		{Name: "oom", Kind: KindFailure, Doc: "failed allocations and their reason, as memlane oom gives it", Run: wholeSpace(outOfMemory)},
		{Name: "leak", Kind: KindLeak, Doc: "call sites whose buffers grow in number until the recording ends",
			Explains: true, byNumber: true, Run: withHistory(leaking)},
		{Name: "growing_buffer", Kind: KindLeak, Doc: "call sites that replace their buffer by a larger one again and again",
			Explains: true, Run: withHistory(growingBuffer)},
		{Name: "reference_cycle", Kind: KindRetention, Doc: "buffers that wait for the garbage collector, as the recorder saw",
			Explains: true, Run: referenceCycle},
		{Name: "delayed_free", Kind: KindRetention, Doc: "buffers that are freed many at a time, long after most of them were allocated",
			Explains: true, Run: withHistory(delayedFree)},
		{Name: "cache", Kind: KindRetention, Doc: "call sites whose buffers grew in number and then stopped: full caches, not leaks",
			Explains: true, Run: withHistory(cache)},
		{Name: "long_lived", Kind: KindRetention, Doc: "buffers that live far longer than others like them: first results, results of earlier passes",
			Explains: true, Run: withHistory(longLived)},
		{Name: "imbalance", Kind: KindRetention, Doc: "allocations that were never freed and that no other rule explains",
			Run: withHistory(imbalance)},
		{Name: "trend", Kind: KindUsage, Doc: "memory in use that rises without a call site that explains it, or that stays flat",
			Run: wholeSpace(trend)},
		{Name: "spike", Kind: KindUsage, Doc: "steps whose peak is much higher than that of the median step",
			Run: wholeSpace(withHistory(spike))},
		{Name: "idle_memory", Kind: KindWaste, Doc: "reserved memory that nothing uses: private pools, and segments without a buffer",
			Run: wholeSpace(idle)},
		{Name: "fragmentation", Kind: KindWaste, Doc: "reserved memory that is free, but in pieces", Run: wholeSpace(fragmentation)},
		{Name: "inefficient_allocation", Kind: KindWaste, Doc: "buffers that are much larger than requested, and 16-bit copies of weights that autocast keeps",
			Run: withHistory(inefficient)},
		{Name: "repeated_allocation", Kind: KindWaste, Doc: "buffers of one size that are allocated and freed again and again",
			Run: withHistory(repeated)},
		{Name: "whole_program", Kind: KindProgram, Doc: "inputs, outputs and constants that are in use for the whole run of a compiled program",
			Run: inProgram(wholeProgram)},
		{Name: "padding", Kind: KindWaste, Doc: "buffers of a compiled program that are much larger than their elements",
			Run: inProgram(padding)},
		rankOutlier,
		series,
	}
}

// LeakRules returns memlane's own rules of kind leak. The rule oom runs them on the recording until a failure.
func LeakRules() []Rule {
	return slices.DeleteFunc(Rules(), func(r Rule) bool { return r.Kind != KindLeak })
}

// onlyIf returns a rule that skips spaces that do not qualify.
func onlyIf(qualifies func(*Pass) bool, run func(*Pass) []Finding) func(*Pass) []Finding {
	return func(p *Pass) []Finding {
		if !qualifies(p) {
			return nil
		}
		return run(p)
	}
}

// withHistory limits a rule to spaces with a history of allocations and frees.
func withHistory(run func(*Pass) []Finding) func(*Pass) []Finding {
	return onlyIf((*Pass).dynamic, run)
}

func inProgram(run func(*Pass) []Finding) func(*Pass) []Finding { return onlyIf((*Pass).compiled, run) }

// wholeSpace limits a rule about a whole space to runs without Settings.Function.
func wholeSpace(run func(*Pass) []Finding) func(*Pass) []Finding {
	return onlyIf(func(p *Pass) bool { return p.Function == nil }, run)
}

// Facts are what rules ask of a capture beside its spaces. Package judge has them, each made once for all answers.
type Facts interface {
	Program() *program.Program
	Failures(*lifetime.Space) []oom.Diagnosis
	Replay(*lifetime.Space) *replay.Recording // nil if the allocator cannot be replayed, or that takes too long
}

// Find runs the rules of the settings on the spaces and returns the findings in the order of Sort, never nil. Rules use
// what buffers are for. The failures of the facts are those under settings.Limit: see package judge.
func Find(of Facts, spaces []*lifetime.Space, settings Settings) []Finding {
	highest := map[string]int64{} // by memory
	for _, s := range spaces {
		if s.Axis == lifetime.ProgramOrder {
			highest[s.Memory] = max(highest[s.Memory], s.Peak(lifetime.Occupied).Bytes)
		}
	}
	rules := settings.Rules
	if rules == nil {
		rules = Rules()
	}
	all := []Finding{}
	for _, s := range spaces {
		p := newPass(of.Program(), s, settings)
		p.facts, p.largest, p.Limit = of, highest[s.Memory], oom.CapacityFor(s, spaces, settings.Limit)
		for _, r := range rules {
			all = append(all, p.run(r)...)
		}
	}
	Sort(all)
	return all
}

// run returns the findings of a rule and records what later rules need.
func (p *Pass) run(r Rule) []Finding {
	if r.Run == nil {
		return nil
	}
	found := r.Run(p)
	for i := range found {
		f := &found[i]
		f.Rule, f.Kind, f.Space = r.Name, r.Kind, p.Space
		p.hold(f)
		if f.Confidence == 0 { // a rule of another program may know its own
			f.Confidence = p.confidenceOf(r, f)
		}
		if f.IsLeak() && (f.Amount.Bytes < cmp.Or(p.Least, leastLeakBytes) || f.Confidence < p.Sure || r.byNumber && p.undecidable(f)) {
			f.Severity, f.minor = Info, true
		}
		for k := range f.Evidence {
			if e := &f.Evidence[k]; e.Unit == UnitSteps && p.steps != nil && p.steps.Inferred() {
				e.How = purpose.Inferred
			}
		}
		for _, site := range f.Sites {
			p.explained[site] = p.explained[site] || r.Explains
		}
	}
	p.leaks = p.leaks || r.Kind == KindLeak && len(found) > 0
	return found
}

// Tried is how often the findings of a rule were right on programs that the rule was not made from. A program counts
// once, whatever the number of its captures and findings: they often have one cause.
type Tried struct {
	Programs int     // in which the rule had such findings
	Right    float64 // sum over these programs of the share of the findings that were right
}

// Confidence returns the mean of the beta distribution with these counts: what was never tried gets 0.5.
func (t Tried) Confidence() float64 { return (t.Right + 1) / (float64(t.Programs) + 2) }

// Basis is a line of confidence.tsv: a rule, and the evidence that tells how often it is right.
type Basis struct{ Rule, Evidence string }

// recorded is the confidence of a finding that infers nothing: its figures were recorded.
const recorded = 1

// confidences is a line for each basis: rule, evidence, programs, right. TestMeasured writes it.
//
//go:embed confidence.tsv
var confidences string

// Measured is how often the findings of each basis were right.
var Measured = func() map[Basis]Tried {
	all := map[Basis]Tried{}
	for line := range strings.Lines(confidences) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 || fields[0] == "rule" {
			continue
		}
		programs, _ := strconv.Atoi(fields[2])
		right, _ := strconv.ParseFloat(fields[3], 64)
		all[Basis{fields[0], fields[1]}] = Tried{programs, right}
	}
	return all
}()

// Evidence that tells how often a rule is right.
const (
	suspicion = "suspected"
	inGeneral = "any"
)

// bands are the numbers of steps from which the confidence of leaks differs, because a cache fills within some steps.
// Where no steps are known, nothing shows that there were more than a few.
var bands = []struct {
	least int
	name  string
}{{certainSteps, "50 steps or more"}, {10, "10 to 49 steps"}, {0, "below 10 steps"}}

// basis returns the basis of a finding; the zero value for one that infers nothing.
func (p *Pass) basis(r Rule, f *Finding) (b Basis) {
	switch {
	case r.byNumber && f.Severity == Info:
		return Basis{f.Rule, suspicion}
	case r.byNumber:
		for _, band := range bands {
			if len(p.steps.Begins) >= band.least {
				return Basis{f.Rule, band.name}
			}
		}
	case f.Kind == KindLeak:
		return Basis{f.Rule, inGeneral}
	case f.basedOn != "":
		return Basis{f.Rule, f.basedOn}
	}
	return Basis{}
}

// confidenceOf returns the confidence of a finding: of a failed allocation that of its reason, else as measured.
func (p *Pass) confidenceOf(r Rule, f *Finding) float64 {
	if len(f.Failures) > 0 {
		return f.Failures[0].Confidence
	}
	if f.Basis = p.basis(r, f); f.Basis == (Basis{}) {
		return recorded
	}
	return Measured[f.Basis].Confidence()
}
