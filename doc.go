// Package memlane is the root of the module. The tool is cmd/memlane; this package
// holds the tests of the tree as a whole.
//
// # As a library
//
// Other programs can do what the tool does. Package formats opens captures of every
// format. Package lifetime is the model that they are read into, with its queries.
// Packages lifetime/finding and lifetime/diff judge and compare captures; finding.Settings
// takes rules of your own. The packages
// below render write pictures, profiles and tables. A program that knows its own
// allocations fills a build.Builder and needs no file.
//
// Captures do not change after they are made, so goroutines may share them. Folders
// called internal are not part of the library. Before version 1, names may change
// from one minor version to the next; CHANGELOG.md lists the changes.
package memlane
