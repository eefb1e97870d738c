package laws

import (
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
	did "github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/region"
)

// TestShipped tries the laws on the captures of testdata. It opens and judges each of them once. Without MEMLANE_DEEP=1 it tries all small
// files and a quarter of the others.
func TestShipped(t *testing.T) {
	a, steps := &agreement{}, &stepsLaw{known: map[did.Source]int{}}
	holders, failures, fitting := 0, 0, 0
	for file, c := range shipped(t) {
		o, err := judged.OpenOutline(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		of := subjectOf(file, c)
		a.compare(of, o)
		checkInstants(t, of)
		holders += checkHolders(t, of)
		fitting += checkPeakFits(t, file, c)
		for _, capacity := range []int64{0, 64 << 20, 1 << 30} {
			failures += checkReasons(t, of, capacity)
		}
		steps.check(t, of)
		checkSums(t, of)
		checkTexts(t, of)
	}
	for _, text := range a.contradictions {
		t.Error(text)
	}
	t.Logf("%d captures, %d pairs of answers, %d contradictions", a.captures, a.pairs, len(a.contradictions))
	t.Logf("%d answers about the steps of %d memory IDs: %d marked, %d annotated, %d by phases, %d recurring, %d without steps", steps.answers, steps.spaces,
		steps.known[did.Marked], steps.known[did.Annotated], steps.known[did.Phases], steps.known[did.Recurrence], steps.known[did.NoSteps])
	for what, of := range map[string]struct{ n, least int }{
		"captures": {a.captures, deep.Or(300, 500)}, "failures with their holders": {holders, 5},
		"memory IDs with addresses and reserved memory": {fitting, deep.Or(10, 40)},
		"failures": {failures, 100}, "answers about steps": {steps.answers, 1000},
	} {
		if of.n < of.least {
			t.Errorf("only %d %s", of.n, what)
		}
	}
}

// checkPeakFits checks that no more memory lives at an instant than is reserved. It returns the number of spaces that tell.
func checkPeakFits(t fataler, file string, c *judge.Capture) (n int) {
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

// subject is a capture with the answers that several laws ask for. Each is made once, when the first law asks.
type subject struct {
	*judge.Capture
	file   string
	info   func() answer.Capture
	leaks  func() answer.CaptureLeaks
	report func() answer.CaptureReport
	diff   func() *diff.Result // with itself
}

func subjectOf(file string, c *judge.Capture) *subject {
	s := &subject{Capture: c, file: file}
	s.info = sync.OnceValue(func() answer.Capture { return answer.InfoOf(c.Outline()) })
	s.leaks = sync.OnceValue(func() answer.CaptureLeaks { return answer.LeaksOf(c, "") })
	s.report = sync.OnceValue(func() answer.CaptureReport { return answer.CaptureReportOf(c, "") })
	s.diff = sync.OnceValue(func() *diff.Result { return diff.Compare(c, c) })
	return s
}

// reportOf returns the report about one capture.
func reportOf(part answer.CaptureReport) *answer.Report {
	return answer.NewReport("default", []answer.CaptureReport{part}, &answer.Ranks{}, nil)
}

// shipped yields the captures of testdata, or those of them that TestShipped tries.
func shipped(t *testing.T) iter.Seq2[string, *judge.Capture] {
	return func(yield func(string, *judge.Capture) bool) {
		large := 0
		err := filepath.WalkDir("../../testdata", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(file, "/gen/") {
				return err
			}
			if info, err := d.Info(); err != nil {
				return err
			} else if info.Size() > 8<<10 && !deep.Is() {
				if large++; large%4 != 0 {
					return nil
				}
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
