package diff_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/diff"
)

// TestGates checks which increases meet a gate: those beyond its amount, of spaces on both sides.
func TestGates(t *testing.T) {
	r := &diff.Result{Pairs: []diff.Pair{
		{Name: "cuda:0", Before: &diff.Side{Peak: 1000, End: 500}, After: &diff.Side{Peak: 1100, End: 400}},
		{Name: "cuda:1", After: &diff.Side{Peak: 1 << 30}},
	}}
	const grew = ": peak of cuda:0 grew from 1000 B to 1.07 KiB (1,100 B)"
	for text, want := range map[string]string{
		"peak>+0%": "peak>+0%" + grew, "peak>+9.5%": "peak>+9.5%" + grew, "peak>+99B": "peak>+99B" + grew, "peak>+11%": "", "peak>+100B": "", "end>+0B": "", "reserved>+0%": "", "new-leak": "",
	} {
		g, err := diff.ParseGate(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Met([]diff.Gate{g}), "; "); got != want || g.OfLeaks() != (text == diff.NewLeak) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "peak", "peek>+5%", "peak>+", "peak>+5%x", "peak>+-1%", "peak>+NaN%", "peak>+Inf%", "peak>+5 apples", "new-leak>+1B"} {
		if _, err := diff.ParseGate(text); err == nil {
			t.Errorf("%q is a gate", text)
		}
	}
	if got := strings.Join(diff.Metrics(), " "); got != "allocated end peak reserved" {
		t.Errorf("metrics %s", got)
	}
}
