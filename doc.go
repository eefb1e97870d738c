// Package memlane is the root of the module: the tool is cmd/memlane, the model
// lifetime. This package holds the tests of the tree as a whole.
package memlane
