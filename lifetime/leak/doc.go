// Package leak looks for buffers that should be gone: it turns a capture into
// findings.
//
// It stands between the model and the renderers. The model holds facts only; a finding
// is an opinion with its evidence. Each rule is one value in [Rules] and one file here.
// Code elsewhere treats findings by their [Kind], not by the name of their rule.
//
// The rules look at whole call stacks, because a helper may have one leaking and one
// healthy caller. Findings name places: the innermost function of the program itself,
// with the buffers of the leaking stacks only. Where a capture has no stacks, a place is
// an operation and the shape of its result.
//
// A compiled program (a space in program order) has a schedule and no history, so
// nothing leaks in it. Two rules read its buffer assignment: what it holds from
// beginning to end, and what its layouts waste.
package leak
