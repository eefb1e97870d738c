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
		"peak>+9.5%\r": "peak>+9.5%" + grew, " peak > +9.5 %\t": "peak > +9.5 %" + grew, "peak>+99 B\r\n": "peak>+99 B" + grew, " new-leak\r": "",
	} {
		g, err := diff.ParseGate(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Met([]diff.Gate{g}), "; "); got != want || g.OfLeaks() != strings.Contains(text, diff.NewLeak) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "peak", "peek>+5%", "peak>+", "peak>+5%x", "peak>+-1%", "peak>+NaN%", "peak>+Inf%", "peak>+5 apples", "peak>+1 2%", "pe ak>+5%", "peak>5%", "new-leak>+1B"} {
		if _, err := diff.ParseGate(text); err == nil {
			t.Errorf("%q is a gate", text)
		}
	}
	if got := strings.Join(diff.Metrics(), " "); got != "allocated end peak reserved" {
		t.Errorf("metrics %s", got)
	}
}

// TestDifference checks how changes are told: as a share, and as a factor from ten times as much on.
func TestDifference(t *testing.T) {
	for _, c := range []struct {
		before, after int64
		want          string
	}{
		{1000, 500, "-500 B (-50.0 %)"}, {1000, 9900, "+8.69 KiB (+890.0 %)"}, {100, 1000, "+900 B (10 times)"}, {100, 1099, "+999 B (11 times)"}, {100, 3_200_100, "+3.05 MiB (32,001 times)"},
		{0, 5, "+5 B"}, {5, 5, "0 B"}, {1000, 0, "-1000 B (-100.0 %)"},
	} {
		if got := diff.Difference(c.before, c.after); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}
