// Package memlane is the root of the module. The tool is cmd/memlane; this package
// holds the tests of the tree as a whole.
//
// # As a library
//
// Other programs can do what the tool does:
//
//  1. formats.Open opens a capture of any format; formats.Input takes formats of your own.
//     A program that knows its own allocations fills a build.Builder and needs no file.
//  2. judge.New finds what its buffers are for, and what leaks; finding.Settings takes
//     rules of your own. Without it, sums and pictures by category are empty, and findings
//     may differ from those of the tool.
//  3. Package lifetime is the model, with its queries. Package lifetime/answer has the
//     answers of all commands, lifetime/diff compares two captures.
//  4. The packages below render write text, pages, pictures, profiles and tables.
//
// The examples of this package, of formats, lifetime, lifetime/finding, lifetime/diff and
// render/web are whole programs.
//
// Captures do not change after judge.New, so goroutines may share them. What it returns is
// used by one at a time: lock it. Folders
// called internal are not part of the library. Before version 1, names may change
// from one minor version to the next; CHANGELOG.md lists the changes.
package memlane
