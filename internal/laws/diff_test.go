package laws

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
)

// line is a row of a comparison, independent of its direction.
type line struct {
	status       diff.Status
	place        string
	unseen       bool
	peak, atEnd  int64
	before, post diff.Figures
}

func linesOf(d *diff.Result, turned bool) (all []line) {
	for i := range d.Rows {
		r := d.Rows[i]
		l := line{r.Status, r.Place().String(), r.Unseen, r.DeltaPeak(), r.DeltaEnd(), r.Before, r.After}
		if turned {
			l.status = map[diff.Status]diff.Status{diff.New: diff.Gone, diff.Gone: diff.New, diff.Grew: diff.Shrank, diff.Shrank: diff.Grew}[l.status]
			l.peak, l.atEnd, l.before, l.post = -l.peak, -l.atEnd, l.post, l.before
			if r.Status != diff.New { // its side before is the side after of the other
				l.place = r.PlaceBefore.String()
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(x, y line) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	return all
}

// TestDiffReversed: the comparison of b with a is that of a with b with opposite signs.
// New and gone places swap, new and fixed findings swap, and remaining findings stay.
func TestDiffReversed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyCapture(t, usual)
		b := anyCapture(t, usual)
		there, back := diff.Compare(judge.Of(a), judge.Of(b)), diff.Compare(judge.Of(b), judge.Of(a))
		if x, y := linesOf(there, false), linesOf(back, true); !slices.Equal(x, y) {
			t.Fatalf("there\n%+v\nback, turned\n%+v", x, y)
		}
		if len(there.New) != len(back.Fixed) || len(there.Fixed) != len(back.New) || len(there.Still) != len(back.Still) {
			t.Fatalf("there %d new, %d fixed, %d still; back %d, %d, %d", len(there.New), len(there.Fixed), len(there.Still),
				len(back.New), len(back.Fixed), len(back.Still))
		}
		if there.NoPlaces != back.NoPlaces || there.Lines != back.Lines || len(there.Pairs) != len(back.Pairs) {
			t.Fatalf("there %v %v %d, back %v %v %d", there.NoPlaces, there.Lines, len(there.Pairs), back.NoPlaces, back.Lines, len(back.Pairs))
		}
	})
}
