package diff

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/finding"
)

// Gate is a condition for a comparison: an increase of a metric, or new leaks.
type Gate struct {
	text    string
	metric  string // "": new leaks
	percent bool
	amount  float64 // bytes, or percent
}

// NewLeak is the gate for leaks that count only in the second capture.
const NewLeak = "new-leak"

// metrics are the figures that a gate can compare, in bytes.
var metrics = map[string]func(s *Side) int64{
	"peak":      func(s *Side) int64 { return s.Peak },
	"end":       func(s *Side) int64 { return s.End },
	"reserved":  func(s *Side) int64 { return s.Reserved },
	"allocated": func(s *Side) int64 { return s.Allocated },
}

// Metrics returns the names of the figures that a gate can compare, sorted.
func Metrics() []string { return slices.Sorted(maps.Keys(metrics)) }

// ParseGate reads a gate: new-leak, or a metric and its increase, such as peak>+5% or end>+64MiB. Blanks and ends of
// lines around it, the comparison and the unit do not count.
func ParseGate(text string) (Gate, error) {
	g := Gate{text: strings.TrimSpace(text)}
	if g.text == NewLeak {
		return g, nil
	}
	metric, amount, _ := strings.Cut(g.text, ">")
	metric = strings.TrimSpace(metric)
	amount, ok := strings.CutPrefix(strings.TrimSpace(amount), "+")
	if metrics[metric] == nil || !ok {
		return g, errors.New("use new-leak, or peak, end, reserved or allocated followed by '>+5%' or '>+64MiB'")
	}
	g.metric = metric
	share, ok := strings.CutSuffix(amount, "%")
	var err error
	if g.percent = ok; ok {
		_, err = fmt.Sscanf(strings.TrimSpace(share)+"\n", "%g\n", &g.amount)
	} else {
		var n int64
		n, err = units.ParseBytes(amount)
		g.amount = float64(n)
	}
	if err != nil || g.amount < 0 || math.IsNaN(g.amount) || math.IsInf(g.amount, 0) {
		return g, fmt.Errorf("use a percentage such as 5%% or a size such as 64MiB, not %q", amount)
	}
	return g, nil
}

// OfLeaks reports whether the gate is about leaks.
func (g Gate) OfLeaks() bool { return g.metric == "" }

// Met describes how the comparison meets gates, in a text for each way; nil if it meets none.
func (r *Result) Met(gates []Gate) (met []string) {
	for _, g := range gates {
		if g.OfLeaks() {
			if n := r.Leaks(finding.Warning); n > 0 {
				met = append(met, fmt.Sprintf("%s: %s", g.text, units.Plural(n, "leak")))
			}
			continue
		}
		for i := range r.Pairs {
			if text := g.increase(&r.Pairs[i]); text != "" {
				met = append(met, text)
			}
		}
	}
	return met
}

// increase describes how a pair meets a gate; "" if it does not.
func (g *Gate) increase(p *Pair) string {
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
	return fmt.Sprintf("%s: %s of %s grew from %s to %s", g.text, g.metric, p.Name, units.Exact(int64(before)),
		units.Exact(int64(after)))
}
