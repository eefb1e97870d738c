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
	Run  func(c *lifetime.Capture, s *lifetime.Space) []Finding
}

// Rules are all rules, in the order of reports.
var Rules = []Rule{
	{"leak", "sites whose buffers keep piling up until the end of the window", growing},
}

// Finding is one place in the program and what is wrong with it.
type Finding struct {
	Rule       string
	Severity   Severity
	Confidence float64 // 0 to 1: how far the evidence carries
	Space      *lifetime.Space
	Sites      []lifetime.SiteID // the stacks concerned, by SiteID
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
	var all []Finding
	for _, s := range spaces {
		for _, r := range Rules {
			for _, f := range r.Run(c, s) {
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
