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
// end: inputs, outputs and constants. The schedule cannot reuse that memory, so
// every byte of it is a byte of the peak. It is no leak; the findings say what
// may be given up.
//
// A group of buffers is worth a finding when it is no small buffer and has
// minHeld of the peak. The others are one finding together, if they come to as
// much: a model may have hundreds of small weights.
func wholeProgram(l Look) []Finding {
	s := l.Space
	if s.Axis != lifetime.ProgramOrder {
		return nil
	}
	peak := l.highest()
	if shareOf(peak.Bytes, l.Highest) < minProgram {
		return nil
	}
	groups := groupBuffers(l.Capture, s, s.LiveAt(peak.At), func(i int) int64 {
		switch b := &s.Buffers[i]; b.Kind {
		case lifetime.Parameter, lifetime.Output, lifetime.Constant:
			return b.Size
		}
		return 0
	})
	large := func(g *group) bool { return g.bytes >= smallBytes && shareOf(g.bytes, peak.Bytes) >= minHeld }
	own, rest := pick(groups, large)
	var findings []Finding
	for i := range own {
		g := &own[i]
		f := g.held(peak.Bytes, l.Highest)
		f.Description = fmt.Sprintf("%s: %s, held from the beginning of the program to its end", g, units.Exact(g.bytes))
		f.Suggestions = g.advice()
		findings = append(findings, f)
	}
	if large(&rest) {
		f := rest.held(peak.Bytes, l.Highest)
		f.Severity = Info // no place of them matters much
		number := units.Count(rest.amount.Count)
		if len(own) > 0 {
			number += " further"
		}
		f.Description = fmt.Sprintf("%s inputs, outputs and constants, the largest the %s: together %s, held from the beginning of the program to its end",
			number, &group{groupKey: rest.groupKey}, units.Exact(rest.bytes))
		f.Suggestions = []string{adviceShard}
		findings = append(findings, f)
	}
	return findings
}

// held is the finding of buffers that live through the whole program.
func (g *group) held(peak, highest int64) Finding {
	f := Finding{
		Confidence: 1, // the compiler says so
		Sites:      distinct(g.sites), Amount: g.amount,
		Evidence: []Evidence{{Name: "peak_bytes", Value: float64(peak)}, {Name: "share_of_peak", Value: shareOf(g.bytes, peak)}},
	}
	if g.bytes >= criticalBytes && shareOf(g.bytes, highest) > warnHeld {
		f.Severity = Warning
	}
	return f
}

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
	adviceShard  = "Put less of it on each device: divide it over more of them (sharding), use a narrower type or a smaller batch."
	adviceDonate = "Donate arguments that the program replaces (jax.jit with donate_argnums): their memory then holds the results."
	adviceOutput = "Return only what is used. What is returned for a backward pass can be computed again there (jax.checkpoint)."
	adviceConst  = "Pass large arrays as arguments: what a traced function closes over becomes a constant of every program that it is compiled to."
)

func (g *group) advice() []string {
	switch {
	case g.kind == lifetime.Constant:
		return []string{adviceConst}
	case g.kind == lifetime.Output:
		return []string{adviceOutput, adviceDonate}
	case g.donated:
		return []string{adviceShard}
	}
	return []string{adviceDonate, adviceShard}
}
