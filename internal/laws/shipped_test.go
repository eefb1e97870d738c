package laws

import (
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	did "github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
)

// TestShipped tries the laws on the captures of testdata. It opens and judges each of them once.
func TestShipped(t *testing.T) {
	a, steps := &agreement{}, &stepsLaw{known: map[did.Source]int{}}
	holders, failures, fitting := 0, 0, 0
	for file, c := range shipped(t) {
		o, err := judged.OpenOutline(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		a.file = file
		a.compare(c, o)
		checkInstants(t, file, c)
		holders += checkHolders(t, file, c)
		fitting += checkPeakFits(t, file, c)
		for _, capacity := range []int64{0, 64 << 20, 1 << 30} {
			failures += checkReasons(t, file, c, capacity)
		}
		steps.check(t, file, c)
		checkSums(t, file, c)
		checkTexts(t, file, c)
	}
	for _, text := range a.contradictions {
		t.Error(text)
	}
	t.Logf("%d captures, %d pairs of answers, %d contradictions", a.captures, a.pairs, len(a.contradictions))
	t.Logf("%d answers about the steps of %d memory IDs: %d marked, %d annotated, %d by phases, %d recurring, %d without steps", steps.answers, steps.spaces,
		steps.known[did.Marked], steps.known[did.Annotated], steps.known[did.Phases], steps.known[did.Recurrence], steps.known[did.NoSteps])
	for what, of := range map[string]struct{ n, least int }{
		"captures": {a.captures, 100}, "failures with their holders": {holders, 5}, "memory IDs with addresses and reserved memory": {fitting, 40},
		"failures": {failures, 100}, "answers about steps": {steps.answers, 1000},
	} {
		if of.n < of.least {
			t.Errorf("only %d %s", of.n, what)
		}
	}
}

// checkPeakFits checks that no more memory lives at an instant than is reserved. It returns the number of spaces that tell.
func checkPeakFits(t fataler, file string, c *lifetime.Capture) (n int) {
	for _, s := range c.Spaces {
		reserved := region.Levels(s)
		if s.Facts&lifetime.Addresses == 0 || len(reserved) == 0 {
			continue
		}
		n++
		peak, most := s.Peak(lifetime.Occupied), int64(0)
		for _, r := range reserved {
			most = max(most, r.Bytes)
		}
		if peak.Bytes-s.StackAt(peak.At) > most {
			t.Fatalf("%s %s: peak %d of at most %d reserved", file, s.ID(), peak.Bytes, most)
		}
	}
	return n
}

// judgedLast is the capture that findingsOf was asked about last: laws ask about one after the other.
var judgedLast struct {
	*lifetime.Capture
	found []finding.Finding
}

// findingsOf returns the findings about a capture.
func findingsOf(c *lifetime.Capture) []finding.Finding {
	if judgedLast.Capture != c {
		judgedLast.Capture, judgedLast.found = c, finding.Find(c, c.Spaces, finding.Settings{})
	}
	return judgedLast.found
}

// shipped yields the captures of testdata.
func shipped(t *testing.T) iter.Seq2[string, *lifetime.Capture] {
	return func(yield func(string, *lifetime.Capture) bool) {
		err := filepath.WalkDir("../../testdata", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(file, "/gen/") {
				return err
			}
			if c, err := judged.Open(file, formats.Input{}); err == nil && !yield(file, c) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
