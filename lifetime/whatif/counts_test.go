package whatif

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/replay"
)

var update = flag.Bool("update", false, "write testdata/counts.tsv, where all is as good as before or better")

// counts are how well changes of a kind are predicted. A score is the width of a range, and 40 times what of the truth lies outside, in percent of the truth.
type counts struct {
	truths, refused, held, near int // near: within 3 %
	score                       float64
	reservedHeld                int
	reservedScore               float64
}

// addRange counts a range of a truth.
func addRange(held *int, score *float64, low, high, real int64) {
	if low <= real && real <= high {
		*held++
	}
	*score += 100 * float64(high-low+40*max(0, low-real, real-high)) / float64(real)
}

// line returns the counts as testdata/counts.tsv has them, with the mean scores.
func (c *counts) line(kind string) string {
	n := float64(max(1, c.truths-c.refused))
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%.1f\t%d\t%.1f", kind, c.truths, c.refused, c.held, c.near, c.score/n, c.reservedHeld, c.reservedScore/n)
}

// read reads a line.
func (c *counts) read(line string) bool {
	f := strings.Split(strings.TrimSpace(line), "\t")
	_, err := fmt.Sscan(strings.Join(f[1:], " "), &c.truths, &c.refused, &c.held, &c.near, &c.score, &c.reservedHeld, &c.reservedScore)
	return err == nil
}

// TestCounts: programs that were really changed (testdata/whatif/truths.tsv), by kind of change. testdata/counts.tsv has what was reached. -update writes
// it, unless fewer truths are held or within 3 %, more changes are refused, or a score is higher.
func TestCounts(t *testing.T) {
	const reached = "testdata/counts.tsv"
	truths, err := os.ReadFile("../../testdata/whatif/truths.tsv")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*counts{}
	for line := range strings.Lines(string(truths)) {
		var capture, edits string
		var allocated, reserved int64
		if _, err := fmt.Sscan(line, &capture, &edits, &allocated, &reserved); err != nil {
			t.Fatal(line, err)
		}
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		kind := "several"
		if len(s) == 1 {
			kind = s[0].Name
		}
		if all[kind] == nil {
			all[kind] = &counts{}
		}
		c, r := all[kind], engineOf(t, capture).Run(s, replay.Device{})
		if c.truths++; r.Refused != "" {
			c.refused++
			continue
		}
		if off := float64(r.Peak)/float64(allocated) - 1; math.Abs(off) <= .03 {
			c.near++
		}
		addRange(&c.held, &c.score, r.Low, r.High, allocated)
		addRange(&c.reservedHeld, &c.reservedScore, r.ReservedLow, r.ReservedHigh, reserved)
		if r.Low > allocated || r.High < allocated || r.ReservedLow > reserved || r.ReservedHigh < reserved {
			t.Logf("%s, %s: %d (%d to %d), reserved %d to %d, but the program needed %d, reserved %d",
				capture, s, r.Peak, r.Low, r.High, r.ReservedLow, r.ReservedHigh, allocated, reserved)
		}
	}
	before, _ := os.ReadFile(reached) // none at first
	now := "change\ttruths\trefused\thold\twithin 3 %\tscore\treserved holds\treserved score\n"
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		now += all[kind].line(kind) + "\n"
	}
	isWorse := false
	for line := range strings.Lines(string(before)) {
		kind, _, _ := strings.Cut(line, "\t")
		var was, is counts
		if all[kind] == nil || !was.read(line) || !is.read(all[kind].line(kind)) || was.truths != is.truths {
			continue // other truths
		}
		if is.refused > was.refused || is.held < was.held || is.near < was.near || is.reservedHeld < was.reservedHeld || is.score > was.score || is.reservedScore > was.reservedScore {
			isWorse = true
			t.Errorf("worse: %s\nbefore: %s", all[kind].line(kind), line)
		}
	}
	switch {
	case isWorse || now == string(before):
	case !*update:
		t.Errorf("%s is not what is reached now: write it with -update:\n%s", reached, now)
	default:
		if err := os.WriteFile(reached, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
