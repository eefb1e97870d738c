package loss

import "testing"

// TestNames: Parse reads the name of each reason. Each reason has an explanation.
func TestNames(t *testing.T) {
	for i := range reasons {
		r := Reason(i)
		if got, ok := Parse(r.String()); !ok || got != r || r.Doc() == "" || r.Class().String() == "" {
			t.Errorf("reason %d", i)
		}
	}
	if _, ok := Parse("x"); ok {
		t.Error("an unknown reason")
	}
}

// TestWorst: the most severe loss wins, and Truncated wins over other damage.
func TestWorst(t *testing.T) {
	all := []Loss{{Reason: Overlap, Count: 1}, {Reason: Truncated, Count: 1}, {Reason: LostFree, Count: 2}, {Reason: BeforeWindow, Count: 3}}
	for _, c := range []struct {
		all    []Loss
		from   Class
		reason Reason
		others int
	}{
		{all, Remark, Truncated, 3}, {all, Missing, Truncated, 2}, {all, Damage, Truncated, 1}, {all[2:], Remark, LostFree, 1}, {all[2:], Missing, LostFree, 0},
	} {
		if got, others := Worst(c.all, c.from); got.Reason != c.reason || others != c.others {
			t.Errorf("%v and %d others, want %v and %d", got.Reason, others, c.reason, c.others)
		}
	}
	if got, others := Worst(all[2:], Damage); got.Count != 0 || others != 0 {
		t.Errorf("%v and %d others of nothing", got, others)
	}
}
