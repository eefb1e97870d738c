package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Edit is one change of a program: "batch=2".
type Edit struct {
	Name, Value string

	kind *Kind
}

// String returns the edit as Parse reads it.
func (e Edit) String() string {
	if e.Value == "" {
		return e.Name
	}
	return e.Name + "=" + e.Value
}

// Kind is a kind of edits.
type Kind struct {
	Name   string
	Values string // what its values may be, for people; "" = it has none
	Doc    string // what it does, in a line

	off   off // how far its predictions were off
	check func(value string) error
	apply func(m *model, value string, find unitsOf) (refused string)
}

// unitsOf returns the units of pass k.
type unitsOf func(m *model, k int) []unit

// Kinds lists the kinds of edits, in the order in which they are applied: first what changes sizes, last what repeats passes.
var Kinds []Kind

func init() {
	Kinds = []Kind{
		{Name: "drop", Values: "FILE.py:LINE|FUNCTION", Doc: "as if the line, or function, had not allocated", check: isGiven, off: exactly,
			apply: func(m *model, v string, _ unitsOf) string { return m.dropSite(v) }},
		{Name: "batch", Values: "FACTOR", Doc: "multiply the batch", check: isFactor, off: offBatch,
			apply: func(m *model, v string, _ unitsOf) string { return m.scale(number(v)) }},
		{Name: "loss.chunks", Values: "N", Doc: "compute the cross entropy in N parts", check: isCount, off: offChunks,
			apply: func(m *model, v string, _ unitsOf) string { return m.chunkLoss(int(number(v))) }},
		{Name: "no_grad", Doc: "run forward passes only", check: isNothing, off: offNoGrad,
			apply: func(m *model, _ string, find unitsOf) string { return m.noGrad(of(m, find)) }},
		{Name: "checkpoint", Values: "blocks|every:N|FILE.py:LINE", Doc: "compute blocks again in the backward pass",
			check: isUnits, off: offCheckpoint,
			apply: func(m *model, v string, find unitsOf) string { return m.checkpoint(named(m, v, find)) }},
		{Name: "offload", Values: "activations", Doc: "keep what the backward pass needs on the host",
			check: isOneOf("activations"), off: offOffload,
			apply: func(m *model, _ string, find unitsOf) string { return m.offload(of(m, find)) }},
		{Name: "optimizer", Values: "sgd|momentum|adamw|adam8bit|lion|none", Doc: "step with another optimizer", off: offOptimizer,
			check: isOneOf("sgd", "momentum", "adamw", "adam8bit", "lion", "none"),
			apply: func(m *model, v string, _ unitsOf) string {
				return m.optimizer(optimizers[v].per, optimizers[v].temporaries)
			}},
		{Name: "optimizer.device", Values: "host", Doc: "keep the state of the optimizer on the host",
			check: isOneOf("host"), off: offOptimizer,
			apply: func(m *model, _ string, _ unitsOf) string { return m.optimizer(optimizers["none"].per, none) }},
		{Name: "foreach", Values: "off|fused", Doc: "step the optimizer without temporaries of all parameters at once",
			check: isOneOf("off", "fused"), off: offForEach,
			apply: func(m *model, v string, _ unitsOf) string { return m.foreach(v) }},
		{Name: "accumulate", Values: "N", Doc: "run N passes for each step of the optimizer", check: isCount, off: offAccumulate,
			apply: func(m *model, v string, _ unitsOf) string { return m.accumulate(int(number(v))) }},
		{Name: "set_to_none", Values: "on|off", Doc: "free gradients after each step, or keep them",
			check: isOneOf("on", "off"), off: offGradients,
			apply: func(m *model, v string, _ unitsOf) string {
				if v == "on" {
					return m.clearGradients()
				}
				return m.keepGradients()
			}},
	}
}

// temporaries of a step of an optimizer.
const (
	none    = iota
	forLoop // two of one parameter at a time
	atOnce  // one of each parameter
	fused   // none, but a scalar for each parameter
)

// optimizers has the states of each parameter and the temporaries of a step.
var optimizers = map[string]struct {
	per         states
	temporaries int
}{
	"sgd":      {func(int64) []int64 { return nil }, none},
	"none":     {func(int64) []int64 { return nil }, none},
	"momentum": {func(n int64) []int64 { return []int64{n} }, none},
	"lion":     {func(n int64) []int64 { return []int64{n} }, none},
	"adamw":    {func(n int64) []int64 { return []int64{n, n} }, atOnce},
	"adam8bit": {adam8bit, none},
}

// adam8bit has a byte for each element and state, and a float for each 256 of them. Parameters have four bytes an element.
func adam8bit(n int64) []int64 {
	scales := (n/4 + 255) / 256 * 4
	return []int64{n / 4, scales, n / 4, scales}
}

// of returns the units of passes as edits ask for them.
func of(m *model, find unitsOf) func(k int) []unit {
	return func(k int) []unit { return find(m, k) }
}

// named returns the units that a value of checkpoint names.
func named(m *model, value string, find unitsOf) func(k int) []unit {
	n, isEvery := strings.CutPrefix(value, "every:")
	switch {
	case isEvery:
		return func(k int) []unit { return every(find(m, k), int(number(n))) }
	case value == "blocks":
		return of(m, find)
	}
	return func(k int) []unit { return m.units(k, value) }
}

// Parse reads edits that are separated by commas: "batch=2,optimizer=adam8bit". They are returned in the order in which they are applied.
func Parse(text string) ([]Edit, error) {
	var edits []Edit
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		k := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
		if k < 0 {
			var names []string
			for i := range Kinds {
				names = append(names, Kinds[i].Name)
			}
			return nil, fmt.Errorf("%q: use %s", part, strings.Join(names, ", "))
		}
		if err := Kinds[k].check(value); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(part), err)
		}
		if slices.ContainsFunc(edits, func(e Edit) bool { return e.Name == name && name != "drop" }) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		edits = append(edits, Edit{name, value, &Kinds[k]})
	}
	slices.SortStableFunc(edits, func(x, y Edit) int { return order(x.kind) - order(y.kind) })
	return edits, nil
}

func order(of *Kind) int {
	return slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == of.Name })
}

func number(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

// Most of a factor and a count.
const (
	maxFactor = 10_000
	maxCount  = 1024
)

func isFactor(v string) error {
	if f, err := strconv.ParseFloat(v, 64); err != nil || !(f > 0 && f <= maxFactor) {
		return fmt.Errorf("use a factor such as 2 or 0.5")
	}
	return nil
}

func isCount(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 2 || n > maxCount {
		return fmt.Errorf("use a number from 2 to %d", maxCount)
	}
	return nil
}

func isOneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("use %s", strings.Join(values, ", "))
		}
		return nil
	}
}

func isUnits(v string) error {
	n, isEvery := strings.CutPrefix(v, "every:")
	if v == "blocks" || isLine(v) || isEvery && isCount(n) == nil {
		return nil
	}
	return fmt.Errorf("use blocks, every:N or FILE.py:LINE")
}

func isGiven(v string) error {
	if v == "" {
		return fmt.Errorf("use FILE.py:LINE or the name of a function")
	}
	return nil
}

func isNothing(v string) error {
	if v != "" {
		return fmt.Errorf("it has no value")
	}
	return nil
}
