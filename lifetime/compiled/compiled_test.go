package compiled

import (
	"strings"
	"testing"
)

// TestUses: ParseUses reads every set of uses and no other text.
func TestUses(t *testing.T) {
	for u := range Uses(1 << len(useNames)) {
		if got, ok := ParseUses(strings.Join(u.Names(), ",")); !ok || got != u {
			t.Errorf("%v is read as %v", u.Names(), got.Names())
		}
	}
	for _, bad := range []string{"x", "parameter+", "PARAMETER", "parameter,x", ","} {
		if u, ok := ParseUses(bad); ok {
			t.Errorf("%q is read as %v", bad, u.Names())
		}
	}
}
