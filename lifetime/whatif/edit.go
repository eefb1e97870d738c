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

	off   off                     // how far its predictions were off
	adds  func(value string) bool // it takes nothing away; nil = it may
	check func(value string) error
	apply func(m *model, value string) (refused string)
}

// Kinds returns the kinds of edits, in the order in which they are applied: first what changes sizes, last what repeats passes.
func Kinds() []Kind {
	return []Kind{
		{Name: "next-step", Doc: "run another step after the only one recorded", check: isOneOf(""), adds: func(string) bool { return true },
			apply: func(m *model, _ string) string {
				if !m.longer { // else it is there: all edits of such a recording are of that step
					return "not one whole step alone was recorded that makes what the next one has from its beginning"
				}
				return ""
			}},
		{Name: "drop", Values: "FILE:LINE|FUNCTION", Doc: "as if a line allocated nothing", check: isSomething, off: offDrop,
			apply: func(m *model, v string) string { return m.dropSite(v) }},
		{Name: "free-early", Values: "FILE:LINE|FUNCTION", Doc: "free what a line holds into the next pass",
			check: isSomething, off: offFreeEarly, apply: func(m *model, v string) string { return m.freeEarly(v) }},
		{Name: "batch", Values: "FACTOR", Doc: "multiply the batch", check: isFactor, adds: isGrowth, off: offBatch,
			apply: func(m *model, v string) string { return m.scale(number(v)) }},
		{Name: "sequence", Values: "FACTOR", Doc: "multiply the length of sequences", check: isFactor, adds: isGrowth, off: offSequence,
			apply: func(m *model, v string) string { return m.lengthen(number(v)) }},
		{Name: "kv-cache", Values: "FACTOR", Doc: "multiply the cache of keys and values", check: isFactor, adds: isGrowth, off: offCache,
			apply: func(m *model, v string) string { return m.scaleCache(number(v)) }},
		{Name: "freeze", Values: "NAMES", Doc: "no gradients for parameters: a.*|*.bias", check: isSomething, off: offFreeze,
			apply: func(m *model, v string) string { return m.freeze(v) }},
		{Name: "lora", Values: "RANK:NAMES", Doc: "train factors beside matrices: 8:*.q_proj.weight", check: isLora, off: offLora,
			apply: func(m *model, v string) string {
				rank, names, _ := strings.Cut(v, ":")
				return m.lora(int64(number(rank)), names)
			}},
		{Name: "layers", Values: "N", Doc: "repeat the blocks of the program N times", check: isCount, off: offLayers,
			apply: func(m *model, v string) string { return m.layers(int(number(v))) }},
		{Name: "precision", Values: "bf16|amp", Doc: "16 bits: for all, or autocast with weights of 32", check: isOneOf("bf16", "amp"), off: offPrecision,
			apply: func(m *model, v string) string {
				if v == "amp" {
					return m.autocast()
				}
				return m.halve()
			}},
		{Name: "loss.chunks", Values: "N", Doc: "compute the loss in N parts", check: isCount, off: offChunks,
			apply: func(m *model, v string) string { return m.chunkLoss(int(number(v))) }},
		{Name: "no_grad", Values: "[evaluation]", Doc: "run forward only; evaluation: where nothing trains",
			check: isOneOf("", "evaluation"), off: offNoGrad, apply: func(m *model, v string) string { return m.noGrad(m.blocks, v == "") }},
		{Name: "checkpoint", Values: "WHAT", Doc: "compute again: blocks, layers:A-B, module:NAMES",
			check: isBlocks, off: offCheckpoint, apply: func(m *model, v string) string {
				_, modules, _ := strings.Cut(v, "module:")
				return m.checkpoint(modules, chosenBlocks(v))
			}},
		{Name: "offload", Values: "activations", Doc: "keep what the backward needs on the host", check: isOneOf("activations"), off: offOffload,
			apply: func(m *model, _ string) string { return m.offload(m.blocks) }},
		{Name: "optimizer", Values: "NAME", Doc: "sgd, momentum, adamw, adam8bit, lion, adafactor", off: offOptimizer,
			check: isOneOf("sgd", "momentum", "adamw", "adam8bit", "lion", "adafactor"), apply: func(m *model, v string) string {
				switch v {
				case "adafactor":
					return m.adafactor()
				case "adam8bit":
					return m.adam8bit()
				}
				return m.optimizer(optimizers[v], temporaries[v])
			}},
		{Name: "states", Values: "bf16", Doc: "keep what the optimizer keeps in 16 bits, not 32", check: isOneOf("bf16"), off: offOptimizer,
			apply: func(m *model, _ string) string { return m.halveStates() }},
		{Name: "optimizer.device", Values: "host", Doc: "keep its state on the host", check: isOneOf("host"), off: offOptimizer,
			apply: func(m *model, _ string) string { return m.optimizer(optimizers["sgd"], none) }},
		{Name: "foreach", Values: "off|fused", Doc: "no temporaries of all parameters at once",
			check: isOneOf("off", "fused"), off: offForEach, apply: func(m *model, v string) string { return m.foreach(v) }},
		{Name: "shard", Values: "N:optimizer|gradients|parameters", Doc: "over N ranks, as ZeRO 1, 2, 3", check: isShard, off: offShard,
			apply: func(m *model, v string) string {
				ranks, what, _ := strings.Cut(v, ":")
				return m.shard(int64(number(ranks)), what)
			}},
		{Name: "accumulate", Values: "N", Doc: "run N passes for each step of the optimizer", check: isCount, adds: func(string) bool { return true }, off: offAccumulate,
			apply: func(m *model, v string) string { return m.accumulate(int(number(v))) }},
		{Name: "set_to_none", Values: "on|off", Doc: "free gradients after each step, or keep them",
			check: isOneOf("on", "off"), adds: func(v string) bool { return v == "off" }, off: offGradients, apply: func(m *model, v string) string {
				if v == "on" {
					return m.freeGradients()
				}
				return m.keepGradients()
			}},
	}
}

// nextStep is the edit of that name.
var nextStep = func() Edit {
	edits, _ := Parse("next-step")
	return edits[0]
}()

// temporaries of a step of an optimizer.
const (
	none    = iota
	forLoop // two of one parameter at a time
	forEach // one of each parameter at once
	inCall  // two of one parameter, until its function returns
	chained // one of one parameter, until the next one has its own
)

// temporaries has those of optimizers that need some.
var temporaries = map[string]int{"adamw": forEach, "lion": inCall}

// optimizers has the states of each parameter.
var optimizers = map[string]states{
	"sgd":      func(*buffer) []int64 { return nil },
	"momentum": func(p *buffer) []int64 { return []int64{p.size} },
	"adamw":    func(p *buffer) []int64 { return []int64{p.size, p.size} },
	"lion":     func(p *buffer) []int64 { return []int64{p.size} },
}

// adam8bit has a byte for each element of a parameter of n bytes in 32 bits and state, and a float for each 256 of them.
func adam8bit(n int64) []int64 {
	scales := (n/4 + 255) / 256 * 4
	return []int64{n / 4, scales, n / 4, scales}
}

// Parse reads edits that are separated by commas: "batch=2,optimizer=adam8bit". They are returned in the order in which they are applied.
func Parse(text string) ([]Edit, error) {
	kinds := Kinds()
	var edits []Edit
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		k := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
		if k < 0 {
			var names []string
			for i := range kinds {
				names = append(names, kinds[i].Name)
			}
			return nil, fmt.Errorf("%q: use %s", part, strings.Join(names, ", "))
		}
		if err := kinds[k].check(value); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(part), err)
		}
		if slices.ContainsFunc(edits, func(e Edit) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		edits = append(edits, Edit{name, value, &kinds[k]})
	}
	order := func(e Edit) int { return slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == e.Name }) }
	slices.SortStableFunc(edits, func(x, y Edit) int { return order(x) - order(y) })
	return edits, nil
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

func isGrowth(v string) bool { return number(v) >= 1 }

func isCount(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 2 || n > maxCount {
		return fmt.Errorf("use a number from 2 to %d", maxCount)
	}
	return nil
}

func isShard(v string) error {
	ranks, what, _ := strings.Cut(v, ":")
	if err := isCount(ranks); err != nil {
		return err
	}
	return isOneOf("optimizer", "gradients", "parameters")(what)
}

func isLora(v string) error {
	rank, names, _ := strings.Cut(v, ":")
	if n, err := strconv.Atoi(rank); err != nil || n < 1 || n > maxCount || names == "" {
		return fmt.Errorf("use a rank and names, such as 8:*.q_proj.weight|*.v_proj.weight")
	}
	return nil
}

// chosenBlocks returns which blocks, or calls of modules, counted from 0, a value of checkpoint means; nil if it means none.
func chosenBlocks(v string) func(block int) bool {
	kind, of, _ := strings.Cut(v, ":")
	switch from, to, _ := strings.Cut(of, "-"); {
	case v == "blocks", kind == "module" && of != "":
		return func(int) bool { return true }
	case kind == "every" && isCount(of) == nil:
		return func(i int) bool { return (i+1)%int(number(of)) == 0 }
	case kind == "layers":
		a, err := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if err == nil && errB == nil && a >= 0 && a <= b {
			return func(i int) bool { return i >= a && i <= b }
		}
	}
	return nil
}

func isBlocks(v string) error {
	if chosenBlocks(v) == nil {
		return fmt.Errorf("use blocks, every:N such as every:2, layers:A-B such as layers:0-3, or module:NAMES such as module:*.mlp")
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

func isSomething(v string) error {
	if v == "" {
		return fmt.Errorf("name a line such as train.py:31, or a function")
	}
	return nil
}
