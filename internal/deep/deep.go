// Package deep tells tests how much to try: a little in `go test ./...`, all of it in CI.
package deep

import "os"

// Is reports whether tests try everything: MEMLANE_DEEP=1, as in .ci/run.
func Is() bool { return os.Getenv("MEMLANE_DEEP") == "1" }

// Or returns how many cases a test tries: all if MEMLANE_DEEP=1, else few.
func Or(few, all int) int {
	if Is() {
		return all
	}
	return few
}
