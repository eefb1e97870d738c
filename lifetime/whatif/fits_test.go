package whatif

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime/replay"
)

// TestFits: six programs that no rule was made from, with changes that were really made, at ten capacities. Sure answers are true but for .5 %, and most
// questions have one. Of the others, about as many fit as FitsShare says. Without MEMLANE_DEEP=1 a quarter of the changes is tried.
func TestFits(t *testing.T) {
	table, err := os.ReadFile("../../testdata/whatif/fits.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var e *Engine
	base, n := 0., 0
	sure, wrong, all := 0, 0, 0
	fit, open := map[bool]int{}, map[bool]int{} // by what is said of those that are not sure
	for line := range strings.Lines(string(table)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "#"):
			continue
		case row[1] == "":
			e = engineOf(t, "fits_"+row[0])
			base, _ = strconv.ParseFloat(row[3], 64)
			continue
		}
		if n++; n%deep.Or(4, 1) != 0 {
			continue
		}
		s, err := Parse(row[1])
		if err != nil {
			t.Fatal(err)
		}
		r := e.Run(s, replay.Device{})
		if r.Refused != "" {
			t.Errorf("%s with %s: %s", row[0], s, r.Refused)
			continue
		}
		for i, share := range []float64{.4, .5, .6, .7, .8, .9, 1, 1.15, 1.4, 1.8} {
			real := row[4][i] == '1' || row[4][i] == 'Y'
			fits, is := e.Fits(s, &r, int64(share*base))
			switch all++; {
			case !is:
				if open[fits]++; real {
					fit[fits]++
				}
			case fits != real:
				t.Logf("%s with %s surely fits %.0f bytes: %t", row[0], s, share*base, fits)
				wrong++
				fallthrough
			default:
				sure++
			}
		}
	}
	t.Logf("%d questions, %d sure answers, %d wrong; of %d that are likely to fit %d do, of %d that are not %d", all, sure, wrong, open[true], fit[true], open[false], fit[false])
	if all < 150 || float64(wrong) > .005*float64(sure) || float64(sure) < .8*float64(all) {
		t.Errorf("%d questions, %d sure answers, %d wrong", all, sure, wrong)
	}
	for said, of := range open {
		if share := float64(fit[said]) / float64(of); math.Abs(share-FitsShare[said]) > float64(deep.Or(25, 5))/100 {
			t.Errorf("said to fit: %t: %.2f of %d do, not %.2f", said, share, of, FitsShare[said])
		}
	}
}
