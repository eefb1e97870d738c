package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/leak"
)

// gate is a rule of --fail-on.
type gate struct {
	text     string
	metric   string
	percent  bool
	amount   float64 // bytes, or percent
	severity leak.Severity
	leaks    bool
}

// newLeak is the gate that leaks of one capture alone meet.
const newLeak = "new-leak"

// metrics are what a gate may look at.
var metrics = map[string]func(s *diff.Side) int64{
	"peak": func(s *diff.Side) int64 { return s.Peak }, "end": func(s *diff.Side) int64 { return s.End },
	"reserved": func(s *diff.Side) int64 { return s.Reserved }, "allocated": func(s *diff.Side) int64 { return s.Allocated },
}

// gatesOf reads the rules of --fail-on.
func gatesOf(all []string) (gates []gate, err error) {
	for _, text := range all {
		g := gate{text: text}
		if text == newLeak {
			g.leaks, g.severity = true, leak.Warning
			gates = append(gates, g)
			continue
		}
		metric, amount, ok := strings.Cut(text, ">+")
		if metrics[metric] == nil || !ok {
			return nil, usage("--fail-on %q: want new-leak, or peak, end, reserved or allocated followed by '>+5%%' or '>+64MiB'%s", text,
				meant(metric, append(wordsOf(metrics), word{name: newLeak})))
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
			return nil, usage("--fail-on %q: %q is neither a share, as 5%%, nor a size, as 64MiB", text, amount)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// check returns an error with status 1 where a gate is met, which says why.
func check(gates []gate, d *diff.Result) error {
	var why []string
	for _, g := range gates {
		if g.leaks {
			if n := d.Leaks(g.severity); n > 0 {
				why = append(why, fmt.Sprintf("%s: %s", g.text, units.Several(n, "leak")))
			}
			continue
		}
		for i := range d.Pairs {
			if text := g.met(&d.Pairs[i]); text != "" {
				why = append(why, text)
			}
		}
	}
	if why == nil {
		return nil
	}
	return foundError{fmt.Errorf("--fail-on %s", strings.Join(why, "; "))}
}

// met says how a pair meets a gate, "" where it does not.
func (g *gate) met(p *diff.Pair) string {
	if p.Before == nil || p.After == nil {
		return ""
	}
	before, after := float64(metrics[g.metric](p.Before)), float64(metrics[g.metric](p.After))
	bound := before + g.amount
	if g.percent {
		bound = before * (1 + g.amount/100)
	}
	if after <= bound {
		return ""
	}
	return fmt.Sprintf("%s: %s of %s is %s, %s before", g.text, g.metric, p.Name, units.Exact(int64(after)), units.Exact(int64(before)))
}
