// Package diff compares two captures of one program: which call sites hold more,
// less, newly or no longer, and which findings are new or fixed.
//
// Its place in the pipeline: after the model and the rules, before the
// renderers. It compares places (the innermost function of the program itself), so
// that captures of different formats and versions can be compared; frames of
// libraries differ from version to version and do not count.
//
// What has no place on both sides (only the usage is known, nothing was recorded
// about who allocated) is compared by its levels alone, and the result says so.
package diff
