// Package leak looks for buffers that should be gone: it turns a capture into
// findings.
//
// Its place in the pipeline: after the model, before the renderers. A finding
// is an opinion with its evidence; the model holds facts only. Each rule is one
// value in [Rules] and one file here.
//
// The leak rule looks at whole call stacks, because a helper may have one leaking and
// one healthy caller; findings name places: the innermost function of the
// program itself, with the buffers of the leaking stacks only. Where a capture
// has no stacks, a place is an operation and the shape of its result.
//
// A compiled program (a space in program order) has a schedule and no history,
// so nothing leaks in it. The other rules read its buffer assignment: what it
// holds from beginning to end, and what its layouts waste.
package leak
