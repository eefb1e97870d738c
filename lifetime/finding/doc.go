// Package finding finds leaks and other memory problems: it turns a capture into findings.
//
// It lies between the model and the renderers. The model has facts; a finding is a judgement with its evidence. Each
// rule is one value of [Rules] and one file. All code treats findings by [Kind], not by the name of the rule. A program
// that uses this package may add rules of its own: see [Settings].
//
// The rules examine whole call stacks, because a helper may have one leaking and one healthy caller. A finding names a
// place: the innermost function of the program's own code, with the buffers of the leaking stacks only. Without stacks,
// a place is an operation and the shape of its result.
//
// A compiled program (a space in program order) has a schedule but no history, so nothing leaks in it. Two rules
// examine its buffer assignment: memory in use for the whole run, and padding.
package finding
