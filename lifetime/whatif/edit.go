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
		nextStepKind, dropKind, freeEarlyKind, batchKind, sequenceKind, cacheKind, freezeKind, loraKind, layersKind, precisionKind,
		lossChunksKind, noGradKind, checkpointKind, offloadKind, optimizerKind, statesKind, deviceKind, forEachKind, shardKind,
		accumulateKind, setToNoneKind,
	}
}

// nextStep is the edit of that name.
var nextStep = func() Edit {
	edits, _ := Parse("next-step")
	return edits[0]
}()

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
