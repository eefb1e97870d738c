// Package leak looks for buffers that should be gone: it turns a capture into
// findings.
//
// Its place in the pipeline: after the model, before the renderers. A finding
// is an opinion with its evidence; the model holds facts only. Each rule is one
// value in [Rules] and one file here.
//
// Rules look at whole call stacks, because a helper may have one leaking and
// one healthy caller; findings name places: the innermost function of the
// program itself, with the buffers of the leaking stacks only.
package leak
