// Package race tells tests whether the race detector watches them. It makes
// them ten times slower: those that take long and have one goroutine alone,
// which nothing can race with, and those of the page in a browser are skipped.
package race
