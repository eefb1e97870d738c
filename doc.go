// Package memlane is the root of the module. The tool is cmd/memlane; this package
// holds the tests of the tree as a whole.
//
// # As a library
//
// What the tool does other programs can do, in three steps: package formats opens
// captures, whatever they are; package lifetime is the model that all of them become,
// with its queries; packages lifetime/leak and lifetime/diff judge and compare, and
// those below render write pictures, profiles and tables. A program that knows its
// own allocations fills a build.Builder and needs no file.
//
// Captures do not change once they are made, so that goroutines may share them.
// Folders called internal are not part of this. Until version 1 names may change from
// one minor version to the next; CHANGELOG.md says which.
package memlane
