package plot

import (
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// TestRuns checks that each pixel of the ribbon shows a phase that the program was in during it, and that pixels without a
// phase are empty.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := New(480 + r.IntN(800))
		p.From, p.To = r.Int64N(1000), 1000+r.Int64N(100000)
		at := r.Int64N(2000)
		for range r.IntN(400) {
			length := 1 + r.Int64N(1+r.Int64N(3000))
			p.phases.Spans = append(p.phases.Spans, program.PhaseSpan{Begin: at, End: at + length, Phase: purpose.Phase(1 + r.IntN(4))})
			at += length
		}
		shown := map[int]string{} // by pixel
		for _, run := range p.runs() {
			for x := run.from; x < run.to; x += 10 {
				shown[int(x-p.Left)/10] = phaseName(&p.phases.Spans[run.span])
			}
		}
		for k := range int(p.Right-p.Left) / 10 {
			left, right := p.Left+int32(k)*10, p.Left+int32(k)*10+10
			fits, any := false, false
			for i := range p.phases.Spans {
				s := &p.phases.Spans[i]
				if s.Begin < p.To && s.End > p.From && p.X(s.Begin) < right && p.X(s.End) > left {
					any = true
					fits = fits || shown[k] == phaseName(s)
				}
			}
			if any && !fits || !any && shown[k] != "" && p.X(p.phases.Spans[len(p.phases.Spans)-1].End) != left {
				t.Fatalf("pixel %d shows %q", k, shown[k])
			}
		}
	}
}
