// Package purpose has the words for what a buffer is for: its category, the phase and the part of a phase that
// allocated it, and how this is known.
//
// Its place in the pipeline: package category judges buffers and stores a [Purpose] for each, package finding marks
// what leaks, and answers and renderers print the names. It decides nothing and imports nothing of memlane.
package purpose

import (
	"cmp"
	"slices"
	"strings"
)

// Purpose says what a buffer is for. Package category finds it, and package finding marks what leaks.
type Purpose struct {
	Category Category
	Phase    Phase
	Part     Part
	Evidence Evidence
	// Confidence is the share of bytes, 0 to 1, for which the rule was right on captures whose truth is known; 0 if
	// Category is Unknown.
	Confidence float32
	How        How // how Category or Own is known, PhaseHow how Phase is
	PhaseHow   How
	Rule       string // name of the rule of package category, or FILE:LINE of a person's own; "" if not known
	Own        string // name of a category of a person or producer that is none of the constants, or of a sum; Category is then Unknown
	Module     string // the module that allocated it: a path, a name, or the lines that call it, outermost first; "" = not known

	ModuleInferred bool // Module was found by the order of calls, not recorded
}

// Name returns the name of the category: of Category, or Own.
func (p Purpose) Name() string {
	if p.Own != "" {
		return p.Own
	}
	return p.Category.String()
}

// Names of the sums of several categories, where sizes tell how many buffers are for either, but not which.
const (
	ParametersAndStates = "parameter or optimizer_state"
	ParametersAndCopies = "parameter or optimizer_state or copy" // of the model
)

// IsOfSum reports whether Name is that of a sum.
func (p Purpose) IsOfSum() bool { return p.Own != "" && p.Evidence == FromSize }

// Alone returns the name of what the buffer alone is for: Name but, of a sum, unknown.
func (p Purpose) Alone() string {
	if p.IsOfSum() {
		return p.Category.String()
	}
	return p.Name()
}

// ModuleHow returns how Module is known.
func (p Purpose) ModuleHow() How {
	if p.ModuleInferred {
		return Inferred
	}
	return Recorded
}

// HowNamed returns how Name is known, or what is said where it is not: the kind of memory, or the producer's words.
func (p Purpose) HowNamed() How {
	if p.Category == UnknownCategory && p.Own == "" {
		return Recorded
	}
	return p.How
}

// Category is the role of a buffer in a training or inference program.
type Category uint8

// Categories of buffers.
const (
	UnknownCategory Category = iota
	ModelParameter
	ModelBuffer    // of a module: running statistics, masks, quantized weights
	Gradient       // of a parameter
	OptimizerState // moments, momentum, master weights, the scale of losses
	Activation     // kept by autograd for the backward pass
	TemporaryData  // used within its phase
	Input          // data of the program
	Workspace      // of a library: cuBLAS
	Bucket         // gradients that are sent together
	Cache          // what the program keeps outside of its modules: keys and values of attention, replay
	Leaked         // a finding says that it leaks, whatever it was for
)

var categoryNames = [...]string{"unknown", "parameter", "buffer", "gradient", "optimizer_state", "activation",
	"temporary", "input", "workspace", "bucket", "cache", "leaked"}

// String returns the name used in JSON.
func (c Category) String() string { return categoryNames[c] }

// words are names of categories in sentences that differ: what was allocated before the recording may also be known as buffers.
var words = map[string]string{"before the recording": "older buffers (only a sum)", "stack": "stack of compiled programs"}

// Words returns the name of a category for sentences and pictures: "optimizer state". Options and JSON have
// "optimizer_state".
func Words(category string) string {
	return cmp.Or(words[category], strings.ReplaceAll(category, "_", " "))
}

// CategoryOf returns the category of a name; UnknownCategory if there is none.
func CategoryOf(name string) Category { return Category(max(0, slices.Index(categoryNames[:], name))) }

// Phase is the part of a step that allocated a buffer.
type Phase uint8

// Phases of a step.
const (
	UnknownPhase Phase = iota
	Forward
	Backward
	OptimizerPhase // step, clipping, zero_grad
	OtherPhase     // set-up, data
)

var phaseNames = [...]string{"unknown", "forward", "backward", "optimizer", "other"}

// String returns the name used in JSON.
func (p Phase) String() string { return phaseNames[p] }

// Words returns what people call a phase of a step; "" for others.
func (p Phase) Words() string {
	return [...]string{Forward: "forward pass", Backward: "backward pass", OptimizerPhase: "optimizer step", OtherPhase: ""}[p]
}

// Part is a part of a phase.
type Part uint8

// Parts of phases.
const (
	UnknownPart   Part = iota // none of the others, or not known
	Setup                     // models, optimizers and their states are made
	DataLoading               // input is made or moved
	Evaluation                // a forward pass of a training program for which the graph keeps nothing
	Recomputation             // a forward pass that checkpointing repeats in the backward pass
	Clipping                  // of gradients
	ZeroGrad
	Checkpoint   // all weights are copied
	AutocastCopy // a copy of a weight in 16 bits, which autocast keeps until its context ends
)

var partNames = [...]string{"", "setup", "data", "evaluation", "recomputation", "clipping", "zero_grad", "checkpoint", "autocast"}

// String returns the name used in JSON.
func (p Part) String() string { return partNames[p] }

// How is how a statement is known, weakest first. A weaker one fills gaps and never replaces a stronger one. A sum is known
// as well as its weakest part.
type How uint8

const (
	Inferred How = iota // by a rule that is right as often as was measured
	Derived             // from recorded facts by arithmetic, an exact replay or a person's rule
	Recorded            // by the program, its libraries or the recorder: counters, marks, names, holders, annotations
)

// String returns the name used in JSON.
func (h How) String() string { return [...]string{"inferred", "derived", "recorded"}[h] }

// Evidence is what a category is known by, weakest first.
type Evidence uint8

// Evidence of categories.
const (
	NoEvidence   Evidence = iota
	FromSize              // its size, or the order of sizes
	FromLifetime          // when it was allocated and freed, and by whom
	FromFrames            // its call stack
	FromRecord            // the program or the producer said so
	FromUser              // a person's rule says so
)

var evidenceNames = [...]string{"none", "size", "lifetime", "frames", "recorded", "given"}

// String returns the name used in JSON.
func (e Evidence) String() string { return evidenceNames[e] }

// How returns how a category with this evidence is known.
func (e Evidence) How() How {
	switch e {
	case FromRecord:
		return Recorded
	case FromUser:
		return Derived
	}
	return Inferred
}
