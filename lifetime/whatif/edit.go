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
	apply apply
}

// Kinds returns the kinds of edits, in the order in which they are applied: first what changes sizes, last what repeats passes.
func Kinds() []Kind {
	always, isOff := func(string) bool { return true }, func(v string) bool { return v == "off" }
	return []Kind{
		{"next-step", "", "run another step after the only one recorded", off{}, always, isOneOf(""), alone((*model).nextStep)},
		{"drop", "FILE:LINE|FUNCTION", "as if a line allocated nothing", offDrop, nil, isSomething, (*model).dropSite},
		{"free-early", "FILE:LINE|FUNCTION", "free what a line holds into the next pass", offFreeEarly, nil, isSomething, (*model).freeEarly},
		{"batch", "FACTOR", "multiply the batch", offBatch, isGrowth, isFactor, byFactor((*model).scale)},
		{"sequence", "FACTOR", "multiply the length of sequences", offSequence, isGrowth, isFactor, byFactor((*model).lengthen)},
		{"kv-cache", "FACTOR", "multiply the cache of keys and values", offCache, isGrowth, isFactor, byFactor((*model).scaleCache)},
		{"freeze", "NAMES", "no gradients for parameters: a.*|*.bias", offFreeze, nil, isSomething, (*model).freeze},
		{"lora", "RANK:NAMES", "train factors beside matrices: 8:*.q_proj.weight", offLora, nil, isLora, (*model).lora},
		{"layers", "N", "repeat the blocks of the program N times", offLayers, nil, isCount, byCount((*model).layers)},
		{"precision", "bf16|amp", "16 bits: for all, or autocast with weights of 32", offPrecision, nil,
			isOneOf("bf16", "amp"), either("amp", (*model).autocast, (*model).halve)},
		{"loss.chunks", "N", "compute the loss in N parts", offChunks, nil, isCount, byCount((*model).chunkLoss)},
		{"no_grad", "[evaluation]", "run forward only; evaluation: where nothing trains", offNoGrad, nil,
			isOneOf("", "evaluation"), (*model).noGrad},
		{"checkpoint", "WHAT", "compute again: blocks, layers:A-B, module:NAMES", offCheckpoint, nil, isBlocks, (*model).checkpoint},
		{"offload", "activations", "keep what the backward needs on the host", offOffload, nil,
			isOneOf("activations"), alone((*model).offload)},
		{"optimizer", "NAME", "sgd, momentum, adamw, adam8bit, lion, adafactor", offOptimizer, nil,
			isOneOf("sgd", "momentum", "adamw", "adam8bit", "lion", "adafactor"), (*model).withOptimizer},
		{"states", "bf16", "keep what the optimizer keeps in 16 bits, not 32", offOptimizer, nil, isOneOf("bf16"), alone((*model).halveStates)},
		{"optimizer.device", "host", "keep its state on the host", offOptimizer, nil, isOneOf("host"), alone(func(m *model) string { return m.optimizer(copies(0), none) })},
		{"foreach", "off|fused", "no temporaries of all parameters at once", offForEach, nil, isOneOf("off", "fused"), (*model).foreach},
		{"shard", "N:optimizer|gradients|parameters", "over N ranks, as ZeRO 1, 2, 3", offShard, nil, isShard, (*model).shard},
		{"accumulate", "N", "run N passes for each step of the optimizer", offAccumulate, always, isCount, byCount((*model).accumulate)},
		{"set_to_none", "on|off", "free gradients after each step, or keep them", offGradients, isOff,
			isOneOf("on", "off"), either("on", (*model).freeGradients, (*model).keepGradients)},
	}
}

// Planned returns the kinds of edits that only compiled programs have, of which nothing is replayed.
func Planned() []Kind {
	refused := alone(func(*model) string { return "only compiled programs are changed so" })
	return []Kind{
		{"donate", "", "donate arguments to results of their shape", off{}, nil, isOneOf(""), refused},
		{"in-place", "", "write into an array that a loop carries", off{}, nil, isOneOf(""), refused},
		{"narrow", "NAMES", "16 bits for arguments, and what copies them: params*", off{}, nil, isSomething, refused},
	}
}

// apply changes a program by the value of an edit, or says why it cannot be changed.
type apply func(m *model, value string) (refused string)

func alone(of func(*model) string) apply { return func(m *model, _ string) string { return of(m) } }

func byFactor(of func(*model, float64) string) apply {
	return func(m *model, v string) string { return of(m, number(v)) }
}

func byCount(of func(*model, int) string) apply {
	return func(m *model, v string) string { return of(m, count(v)) }
}

func either(value string, of, other func(*model) string) apply {
	return func(m *model, v string) string {
		if v == value {
			return of(m)
		}
		return other(m)
	}
}

// nextStep is the edit of that name.
var nextStep = func() Edit {
	edits, _ := Parse("next-step")
	return edits[0]
}()

// Parse reads edits that are separated by commas: "batch=2,optimizer=adam8bit". They are returned in the order in which they are applied.
func Parse(text string) (edits []Edit, err error) {
	kinds, given := append(Kinds(), Planned()...), map[string]string{}
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
		if _, isGiven := given[name]; isGiven {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		given[name] = value
	}
	for i := range kinds {
		if value, isGiven := given[kinds[i].Name]; isGiven {
			edits = append(edits, Edit{kinds[i].Name, value, &kinds[i]})
		}
	}
	return edits, nil
}

func number(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

func count(text string) int { return int(number(text)) }

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
