// Package diff compares two captures of one program: which call sites grew, shrank, are new or gone, and which findings
// are new or fixed.
//
// It lies between the model and the rules on one side and the renderers on the other. It compares places (the innermost
// function of the program's own code), so that captures of different formats and versions are comparable. Frames of
// libraries differ from version to version and do not count.
//
// If one side has no places (only totals, or no call sites were recorded), only levels are compared; see
// Result.NoPlaces.
package diff
