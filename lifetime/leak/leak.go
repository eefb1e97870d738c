package leak

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// Severity of a finding.
type Severity uint8

const (
	Info Severity = iota
	Warning
	Critical
)

// String returns the name used in JSON and labels.
func (s Severity) String() string { return [...]string{"info", "warning", "critical"}[s] }

// Rule is one way to look for trouble in a space.
type Rule struct {
	Name string // as in JSON and labels
	Doc  string // what it finds, in one line
	Run  func(l Look) []Finding
}

// Look is what a rule looks at: a space of a capture.
type Look struct {
	*lifetime.Capture
	Space *lifetime.Space

	// Highest is the highest peak of the compiled programs that are looked at, in
	// the memory that Space is of.
	Highest int64
}

// Leak is the name of the rule whose findings are leaks; the others tell where
// memory goes that a program holds for good reason.
const Leak = "leak"

// Rules are all rules, in the order of reports.
var Rules = []Rule{
	{Leak, "sites whose buffers keep piling up until the end of the window", growing},
	{"whole_program", "inputs, outputs and constants that a compiled program always holds", wholeProgram},
	{"padding", "buffers of a compiled program that are much larger than their elements", padding},
}

// Finding is one place in the program and what is wrong with it.
type Finding struct {
	Rule       string
	Severity   Severity
	Confidence float64 // 0 to 1: how far the evidence carries
	Space      *lifetime.Space
	Sites      []lifetime.SiteID // the stacks concerned; the first one names the place
	Amount     lifetime.Amount   // the buffers concerned

	BytesPerStep float64 // requested bytes; 0 when the capture has no step marks
	Description  string
	Evidence     []Evidence
	Suggestions  []string
}

// Evidence is one figure behind a finding.
type Evidence struct {
	Name  string
	Value float64
}

// Find runs every rule on the spaces and returns the findings, most severe
// first, then most bytes.
func Find(c *lifetime.Capture, spaces []*lifetime.Space) []Finding {
	highest := map[string]int64{} // by memory
	for _, s := range spaces {
		if s.Axis == lifetime.ProgramOrder {
			highest[s.Memory] = max(highest[s.Memory], s.Peak(lifetime.Occupied).Bytes)
		}
	}
	var all []Finding
	for _, s := range spaces {
		for _, r := range Rules {
			for _, f := range r.Run(Look{c, s, highest[s.Memory]}) {
				f.Rule, f.Space = r.Name, s
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(y.Amount.Bytes, x.Amount.Bytes),
			cmp.Compare(x.Space.ID(), y.Space.ID()), cmp.Compare(x.Sites[0], y.Sites[0]))
	})
	return all
}
