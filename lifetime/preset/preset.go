package preset

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// Preset is one version of the rules of the original.
type Preset struct {
	Name       string
	Doc        string     // the original, in one line
	Thresholds Thresholds // to clone before a change
	successor  bool       // inactive blocks are fragments, only regular samples count for gaps, and findings about gaps have a time
}

// Presets lists all presets.
var Presets = []Preset{
	{"gpumemprof", "the rules of gpu-memory-profiler 0.2.3.post1", thresholds(0.1), false},
	{"stormlog", "the rules of its successor stormlog 0.4.3: leaks at a ratio of 0.7, fragmentation by inactive blocks", thresholds(0.7), true},
}

// Thresholds are the adjustable figures of the rules, by their names in the original.
type Thresholds map[string]float64

const (
	leakRatio          = "memory_leak_ratio"
	fragmentationRatio = "fragmentation_ratio"
	callsToJudge       = "min_calls_for_analysis"
	gapRatio           = "gap_ratio_threshold"
)

// thresholds returns the defaults of a preset; presets differ in one figure.
func thresholds(leak float64) Thresholds {
	return Thresholds{leakRatio: leak, fragmentationRatio: 0.3, callsToJudge: 3, gapRatio: 0.05}
}

// The other figures of the original.
const (
	efficientRatio     = 0.5 // inefficient_allocation: rise to the peak over the bytes allocated, less than this
	slowPercentile     = 0.9 // slow_functions: percentile of the functions' mean times above which one is slow
	intensePercentile  = 0.9 // memory_intensive: percentile of bytes per second above which a call is intensive
	spikeScore         = 2   // transient_spike: standard deviations above the mean gap, more than this
	driftSquare        = 0.6 // persistent_drift: R² of the gap over time, at least this
	fragmentedGapRatio = 0.3 // fragmentation_like: mean share of the reserved memory in fragments, at least this
)

// Names returns the names of all thresholds, sorted.
func (t Thresholds) Names() []string { return slices.Sorted(maps.Keys(t)) }

// Set changes a threshold. It fails for an unknown name (the error lists the names) and for a value that is not finite.
func (t Thresholds) Set(name string, value float64) error {
	if _, ok := t[name]; !ok {
		return fmt.Errorf("unknown threshold %q; the thresholds are: %s", name, strings.Join(t.Names(), ", "))
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%s: %v is not a finite number", name, value)
	}
	t[name] = value
	return nil
}

// DocOf returns what a rule or a threshold means, in one line.
func DocOf(name string) string { return texts()[name].Doc }

// text is what is said about a rule or a threshold.
type text struct {
	Doc             string
	Category, Title string   // of insights
	Description     string   // a format
	Advice          []string // "%s" stands for the function
}

// texts are the texts by name. A preset whose texts of a rule are its own has them by its name and the rule.
var texts = sync.OnceValue(func() (all map[string]text) {
	if err := json.Unmarshal(textsFile, &all); err != nil {
		panic(err)
	}
	return all
})

//go:embed texts.json
var textsFile []byte

func (p *Preset) text(rule string, args []any) text {
	t, ok := texts()[p.Name+" "+rule]
	if !ok {
		t = texts()[rule]
	}
	if len(args) > 0 {
		t.Description = fmt.Sprintf(t.Description, args...)
	}
	return t
}
