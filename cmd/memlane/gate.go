package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/leak"
)

// gate is a condition of diff --fail-on: an increase of a metric, or new leaks if metric
// is "".
type gate struct {
	text    string
	metric  string
	percent bool
	amount  float64 // bytes, or percent
}

// newLeak is the gate for leaks in only one of the two captures.
const newLeak = "new-leak"

// metrics are the figures that a gate can compare, in bytes.
var metrics = map[string]func(s *diff.Side) int64{
	"peak":      func(s *diff.Side) int64 { return s.Peak },
	"end":       func(s *diff.Side) int64 { return s.End },
	"reserved":  func(s *diff.Side) int64 { return s.Reserved },
	"allocated": func(s *diff.Side) int64 { return s.Allocated },
}

// gatesOf parses the values of --fail-on.
func gatesOf(all []string) (gates []gate, err error) {
	for _, text := range all {
		g := gate{text: text}
		if text == newLeak {
			gates = append(gates, g)
			continue
		}
		metric, amount, ok := strings.Cut(text, ">+")
		if metrics[metric] == nil || !ok {
			return nil, usage("--fail-on %q: use new-leak, or peak, end, reserved or allocated followed by '>+5%%' or '>+64MiB'%s", text,
				suggestion(metric, append(wordsOf(metrics), word{name: newLeak})))
		}
		g.metric = metric
		if share, ok := strings.CutSuffix(amount, "%"); ok {
			g.percent = true
			_, err = fmt.Sscanf(share+"\n", "%g\n", &g.amount)
		} else {
			var n int64
			n, err = units.ParseBytes(amount)
			g.amount = float64(n)
		}
		if err != nil || g.amount < 0 || math.IsNaN(g.amount) || math.IsInf(g.amount, 0) {
			return nil, usage("--fail-on %q: use a percentage such as 5%% or a size such as 64MiB, not %q", text, amount)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// checkGates returns an error with all gates that a comparison meets; nil if it meets
// none.
func checkGates(gates []gate, d *diff.Result) error {
	var met []string
	for _, g := range gates {
		if g.metric == "" {
			if n := d.Leaks(leak.Warning); n > 0 {
				met = append(met, fmt.Sprintf("%s: %s", g.text, units.Plural(n, "leak")))
			}
			continue
		}
		for i := range d.Pairs {
			if text := g.increase(&d.Pairs[i]); text != "" {
				met = append(met, text)
			}
		}
	}
	if met != nil {
		return failOnMet("%s", strings.Join(met, "; "))
	}
	for _, c := range []*lifetime.Capture{d.Before, d.After} {
		why := answer.Unjudged(c)
		if why != "" && slices.ContainsFunc(gates, func(g gate) bool { return g.metric == "" }) {
			return &lifetime.NothingError{File: c.Name(), Why: "--fail-on new-leak cannot be judged: " + why}
		}
	}
	return nil
}

// increase describes how a pair meets a gate; "" if it does not.
func (g *gate) increase(p *diff.Pair) string {
	if p.Before == nil || p.After == nil {
		return ""
	}
	before, after := float64(metrics[g.metric](p.Before)), float64(metrics[g.metric](p.After))
	limit := before + g.amount
	if g.percent {
		limit = before * (1 + g.amount/100)
	}
	if after <= limit {
		return ""
	}
	return fmt.Sprintf("%s: %s of %s grew from %s to %s", g.text, g.metric, p.Name, units.Exact(int64(before)), units.Exact(int64(after)))
}
