// Package deep tells tests how much to try: a little in `go test ./...`, all of it in CI.
package deep

import (
	"flag"
	"os"
	"strconv"
)

// Is reports whether tests try everything: MEMLANE_DEEP=1, as in .ci/run.
func Is() bool { return os.Getenv("MEMLANE_DEEP") == "1" }

// Or returns how many cases a test tries: all if MEMLANE_DEEP=1, else few.
func Or(few, all int) int {
	if Is() {
		return all
	}
	return few
}

// FixDraws lets rapid draw the same in each run, and checks times for each property. TestMain calls it, where rapid is imported.
// -rapid.seed and -rapid.checks override both.
func FixDraws(checks int) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": strconv.Itoa(checks), "rapid.nofailfile": "true", "rapid.shrinktime": "5s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}
