package text_test

import (
	"testing"

	"github.com/memlane/memlane/render/text"
)

// TestOfCapacity: a peak that is far below the capacity does not look like one that fills it.
func TestOfCapacity(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for want, c := range map[string][2]int64{
		"96.9 % of the capacity of 64.0 MiB, 2.00 MiB below it":  {62 * mib, 64 * mib},
		"0.3 % of the capacity of 144 GiB":                       {432 * mib, 144 * gib},
		"less than 0.1 % of the capacity of 2.00 GiB":            {512, 2 * gib},
		"0.0 % of the capacity of 2.00 GiB":                      {0, 2 * gib},
		"100.0 % of the capacity of 2.00 GiB, 0 B below it":      {2 * gib, 2 * gib},
		"150.0 % of the capacity of 2.00 GiB, 1.00 GiB above it": {3 * gib, 2 * gib},
	} {
		if got := text.OfCapacity(c[0], c[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
