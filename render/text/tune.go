package text

import (
	"io"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
)

// Tune writes the recommended settings of PyTorch's allocator and a table of the replayed ones.
func Tune(w io.Writer, a *answer.Tune, s Style) error {
	p := NewPage(s)
	for _, r := range a.Refused {
		p.Para(Printable(r.ID)+": ", "  ", "cannot predict: "+r.Why)
	}
	if len(a.Settings) > 0 {
		p.tuned(a)
	}
	return p.To(w)
}

func (p *Page) tuned(a *answer.Tune) {
	verdict, reason := a.Verdict()
	p.Line("%s", Printable(verdict))
	p.Para("  ", "  ", Printable(reason))
	if a.Unfinished {
		p.Para("  ", "    ", answer.Scope)
	}
	p.Line("  replay: %s", a.Replay.Text())
	if a.Capacity > 0 {
		p.Line("  capacity: %s", units.Bytes(a.Capacity))
	}
	p.Line("")
	p.settings(a, a.Settings)
	for i := range a.Captures {
		c := &a.Captures[i]
		p.Line("")
		p.Para(Printable(c.File)+", "+Printable(c.ID)+": ", "  ", "replay: "+c.Replay.Text())
		p.settings(a, c.Settings)
	}
}

// settings writes a table of the settings that tell something. Their names are long, so each has a line above its
// figures.
func (p *Page) settings(a *answer.Tune, all []answer.TuneSetting) {
	const row = "%10s %10s %10s %8s %8s  %s"
	p.Line(row, "reserved", "live", "slack", "segments", "retries", "result")
	others := 0
	for i := range all {
		if !a.Tells(i) {
			others++
			continue
		}
		s := &all[i]
		p.Line("%s%s", Printable(s.Conf), map[bool]string{true: " (recorded)"}[s.Recorded])
		p.Line(row, size(s.PeakReservedBytes), size(s.PeakLiveBytes), size(s.PeakReservedBytes-s.ReplayedBytes),
			units.Count(int64(s.SegmentsAtEnd)), units.Count(int64(s.Retries)), s.Result())
	}
	if others > 0 {
		p.Line("%s, without gain (--json has them all)", units.Plural(others, "other setting"))
	}
}
