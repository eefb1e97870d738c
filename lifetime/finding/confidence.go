package finding

import (
	_ "embed"
	"strconv"
	"strings"
)

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
