package answer_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/selection"
)

// TestAnswersRetainNothing: answers about a capture do not keep its buffers, as a command has answers about thousands of captures.
func TestAnswersRetainNothing(t *testing.T) {
	const file = "../../testdata/meaning/a17.pickle.zst"
	for name, answerOf := range map[string]func(t *testing.T) (weak.Pointer[lifetime.Space], any){
		"info": func(t *testing.T) (weak.Pointer[lifetime.Space], any) {
			o, err := judged.OpenOutline(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			return weak.Make(o.Spaces[0].Recording), answer.InfoOf(o)
		},
		"peak": func(t *testing.T) (weak.Pointer[lifetime.Space], any) {
			o, err := judged.OpenOutline(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			return weak.Make(o.Spaces[0].Recording), answer.OutlinePeakOf(&o.Tables, o.Spaces[0], selection.AtPeak)
		},
		"peak of a whole capture": func(t *testing.T) (weak.Pointer[lifetime.Space], any) {
			c, err := judged.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			s := c.Spaces[0]
			return weak.Make(s), answer.PeakOf(&c.Tables, s, s.Peak(lifetime.Occupied).At)
		},
	} {
		t.Run(name, func(t *testing.T) {
			space, kept := answerOf(t)
			for range 3 {
				runtime.GC()
			}
			if space.Value() != nil {
				t.Error("the answer keeps the buffers of the capture")
			}
			runtime.KeepAlive(kept)
		})
	}
}
