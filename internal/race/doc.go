// Package race reports whether the race detector is active. It makes tests ten times slower,
// so slow tests with a single goroutine and tests in a browser are skipped.
package race
