package leak

import (
	"fmt"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Thresholds of wholeProgram.
const (
	// minHeld is the share of the peak below which nothing is gained.
	minHeld = 0.05
	// minProgram is how high the peak of a program must be, as a share of the
	// highest one in the same memory. Programs run one after the other, and a
	// profile has dozens of small ones, each with its inputs.
	minProgram = 0.1
	// warnHeld is the share of that highest peak that makes criticalBytes a
	// warning: one place then matters more than everything else.
	warnHeld = 0.5
)

// wholeProgram finds what a compiled program holds from its beginning to its
// end: inputs, outputs and constants. The schedule cannot reuse this memory, so
// every byte of it is a byte of the peak. It is not a leak; the findings say how to
// need less.
//
// A group of buffers gets a finding when it is larger than a small buffer and has
// minHeld of the peak. The others are one finding together, if they come to as
// much: a model may have hundreds of small weights.
func wholeProgram(p *Pass) (findings []Finding) {
	s, peak := p.Space, p.highest()
	if shareOf(peak.Bytes, p.Highest) < minProgram {
		return nil
	}
	groups := groupBuffers(p.Capture, s, s.LiveAt(peak.At), func(i int) int64 {
		switch b := &s.Buffers[i]; b.Kind {
		case lifetime.Parameter, lifetime.Output, lifetime.Constant:
			return b.Size
		}
		return 0
	})
	large := func(g *group) bool { return g.bytes >= smallBytes && shareOf(g.bytes, peak.Bytes) >= minHeld }
	own, rest := pick(groups, large)
	for i := range own {
		g := &own[i]
		f := g.held(peak.Bytes, g.String(), g.advice())
		if g.bytes >= criticalBytes && shareOf(g.bytes, p.Highest) > warnHeld {
			f.Severity = Warning
		}
		findings = append(findings, f)
	}
	if large(&rest) { // no place of them matters much
		number := units.Count(rest.amount.Count)
		if len(own) > 0 {
			number += " further"
		}
		findings = append(findings, rest.held(peak.Bytes, fmt.Sprintf("%s inputs, outputs and constants, the largest the %s", number, rest.alone()), adviceShard))
	}
	return findings
}

// held returns the finding of buffers that live through the whole program.
func (g *group) held(peak int64, name, advice string) Finding {
	f := Finding{Confidence: 1, Sites: distinct(g.sites), Amount: g.amount, // the compiler says so
		Evidence:    []Evidence{figure(FigPeakBytes, peak), figure(FigShareOfPeak, shareOf(g.bytes, peak))},
		Suggestions: []string{advice}}
	f.describe(name, units.Bytes(g.bytes)+", held from the beginning of the program to its end")
	return f
}

// alone returns the group as if it had one buffer, for its name.
func (g *group) alone() *group { return &group{groupKey: g.groupKey} }

// String names a group for people: "input x f32[64,256]{1,0}".
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

// What can be done about memory that is held all the time.
const (
	adviceShard  = "Shard it over more devices, or use a narrower type or a smaller batch."
	adviceDonate = "Donate it if the program replaces it (donate_argnums), or else shard it."
	adviceOutput = "Return only what is used; donate_argnums lets it reuse an argument."
	adviceConst  = "Pass large arrays as arguments: a closure makes constants of them."
)

func (g *group) advice() string {
	switch {
	case g.kind == lifetime.Constant:
		return adviceConst
	case g.kind == lifetime.Output:
		return adviceOutput
	case g.donated:
		return adviceShard
	}
	return adviceDonate
}
