package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
)

// Thresholds of wholeProgram.
const (
	minWhole = 0.05 // minimum share of the peak

	// minProgram is the minimum peak of a program as a share of the highest peak in the same memory. Programs run one
	// after the other, and a profile has dozens of small ones.
	minProgram = 0.1
	// warnWhole is the share of that highest peak from which criticalBytes are a warning.
	warnWhole = 0.5
)

// wholeProgram finds memory in use for the whole run of a compiled program: inputs, outputs and constants. The schedule
// cannot reuse it, so every byte of it is in the peak. It is not a leak; the findings suggest how to need less.
//
// A group gets a finding if it has at least smallBytes and minWhole of the peak. The others together get one finding on
// the same condition: a model may have hundreds of small weights.
func wholeProgram(p *Pass) (findings []Finding) {
	s, peak := p.Space, p.highest()
	if shareOf(peak.Bytes, p.largest) < minProgram {
		return nil
	}
	groups := groupBuffers(p.Capture, s, s.LiveAt(peak.At), func(i int) int64 {
		switch b := &s.Buffers[i]; b.Kind {
		case lifetime.Parameter, lifetime.Output, lifetime.Constant:
			return b.Size
		}
		return 0
	})
	shapes := map[string]bool{} // of inputs that are not donated, and of outputs in memory of their own
	for i := range groups {
		shapes[groups[i].array(groups[i].kind)] = !groups[i].donated || shapes[groups[i].array(groups[i].kind)]
	}
	large := func(g *group) bool { return g.bytes >= smallBytes && shareOf(g.bytes, peak.Bytes) >= minWhole }
	own, rest := pick(groups, large)
	for i := range own {
		g := &own[i]
		f := g.wholeRun(peak.Bytes, g.String(), g.advice(shapes))
		if g.bytes >= criticalBytes && shareOf(g.bytes, p.largest) > warnWhole {
			f.Severity = Warning
		}
		findings = append(findings, f)
	}
	if large(&rest) {
		number := units.Count(rest.amount.Count)
		if len(own) > 0 {
			number += " further"
		}
		name := fmt.Sprintf("%s inputs, outputs and constants (largest: %s)", number, rest.alone())
		findings = append(findings, rest.wholeRun(peak.Bytes, name, adviceShard))
	}
	return findings
}

// wholeRun returns the finding for buffers that are in use for the whole run.
func (g *group) wholeRun(peak int64, name, advice string) Finding {
	f := Finding{Sites: distinct(g.sites), Amount: g.amount,
		Evidence:    []Evidence{figure(FigPeakBytes, peak), figure(FigShareOfPeak, shareOf(g.bytes, peak))},
		Suggestions: []string{advice}}
	f.describe(name, units.Bytes(g.bytes)+", in use for the whole run of the program")
	return f
}

// alone returns a copy without buffers, whose name is in the singular.
func (g *group) alone() *group { return &group{groupKey: g.groupKey} }

// String returns a name such as "input x f32[64,256]{1,0}".
func (g *group) String() string {
	what := map[lifetime.Kind]string{lifetime.Parameter: "input", lifetime.Output: "output", lifetime.Constant: "constant"}[g.kind]
	if what == "" {
		what = "buffer"
	}
	if g.amount.Count > 1 {
		what = units.Count(g.amount.Count) + " " + what + "s"
	}
	name := what + " " + g.place.String()
	if g.shape != "" && g.place.Shape == "" {
		name += " " + g.shape
	}
	return name
}

// Advice for memory in use for the whole run.
const (
	adviceShard  = "Shard it over more devices, or use a narrower type or a smaller batch."
	adviceDonate = "Donate it (donate_argnums) if the program replaces it; otherwise shard it."
	adviceOutput = "Return only what you use."
	adviceReuse  = "Return only what you use, or donate an argument of its shape."
	adviceConst  = "Pass large arrays as arguments: a closure turns them into constants."
)

// array returns a kind and the shape of a group, whatever its layout.
func (g *group) array(kind lifetime.Kind) string {
	shape, _, _ := strings.Cut(g.shape, "{")
	return kind.String() + shape
}

func (g *group) advice(shapes map[string]bool) string {
	switch {
	case g.kind == lifetime.Constant:
		return adviceConst
	case g.kind == lifetime.Output && shapes[g.array(lifetime.Parameter)]:
		return adviceReuse
	case g.kind == lifetime.Output:
		return adviceOutput
	case g.donated || !shapes[g.array(lifetime.Output)]:
		return adviceShard
	}
	return adviceDonate
}

// Thresholds of the rules about compiled programs.
const (
	smallBytes  = 16 << 10 // smaller buffers are not shown one by one in XProf's Memory Viewer
	maxFindings = 5        // groups of a space with a separate finding
)

// group is a set of buffers of a compiled program that one change of the source affects: one kind and shape from one
// place, such as the same line in every layer.
type group struct {
	groupKey
	sites  []lifetime.SiteID // in order of appearance; may repeat
	amount lifetime.Amount
	bytes  int64 // bytes that the rule counts
}

type groupKey struct {
	place   lifetime.Place
	kind    lifetime.Kind
	shape   string
	donated bool // an input that shares its memory with an output
}

// groupBuffers groups buffers, most bytes first. count returns the bytes of a buffer that the rule counts; buffers with 0 are omitted.
func groupBuffers(c *lifetime.Capture, s *lifetime.Space, buffers []int, count func(i int) int64) []group {
	index, donated := map[groupKey]int{}, donatedInputs(s)
	var groups []group
	for _, i := range buffers {
		n := count(i)
		if n <= 0 {
			continue
		}
		b := &s.Buffers[i]
		key := groupKey{c.PlaceOf(b.Site), b.Kind, c.Sites[b.Site].Shape, b.Kind == lifetime.Parameter && donated[b.Addr]}
		keyed.At(index, &groups, key, group{groupKey: key}).add(group{sites: []lifetime.SiteID{b.Site}, amount: amountOf(b), bytes: n})
	}
	// Buffers are in order of allocation, so the order of ties is deterministic.
	slices.SortStableFunc(groups, func(x, y group) int { return cmp.Compare(y.bytes, x.bytes) })
	return groups
}

// donatedInputs returns the addresses of allocations that hold an input and an output.
func donatedInputs(s *lifetime.Space) map[uint64]bool {
	const both = compiled.ForParameter | compiled.ForOutput
	at := map[uint64]bool{}
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Uses&both == both && r.Size > 0 {
			at[r.Addr] = true
		}
	}
	return at
}

func (g *group) add(o group) {
	g.sites = append(g.sites, o.sites...)
	g.amount.Add(o.amount)
	g.bytes = units.AddSat(g.bytes, o.bytes)
}

// pick splits groups, sorted by bytes, into those with a separate finding and the sum of the others. The sum has the key of its largest group.
func pick(groups []group, large func(g *group) bool) (own []group, rest group) {
	for i := range groups {
		if len(own) < maxFindings && large(&groups[i]) {
			own = append(own, groups[i])
			continue
		}
		if rest.amount.Count == 0 {
			rest.groupKey = groups[i].groupKey
		}
		rest.add(groups[i])
	}
	return own, rest
}
