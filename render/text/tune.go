package text

import (
	"fmt"
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
	own, best := &a.Settings[0], a.Setting(a.Recommended)
	if a.Keep {
		p.Line("keep what you have: PYTORCH_CUDA_ALLOC_CONF=%s", conf(own.Conf))
		switch {
		case own.Outcome == "oom":
			p.Line("  no other settings avoid the OOM")
		default:
			p.Line("  no other settings need less by 2 %%")
		}
	} else {
		p.Line("recommended: PYTORCH_CUDA_ALLOC_CONF=%s", conf(best.Conf))
		p.Line("  %s", gain(own, best))
	}
	p.Line("  replay: %s", a.Replay.Text())
	if a.Capacity > 0 {
		p.Line("  capacity: %s", units.Bytes(a.Capacity))
	}
	p.Line("")
	p.settings(a.Settings)
	for i := range a.Captures {
		c := &a.Captures[i]
		p.Line("")
		p.Para(Printable(c.File)+", "+Printable(c.ID)+": ", "  ", "replay: "+c.Replay.Text())
		p.settings(c.Settings)
	}
}

// conf returns a value of PYTORCH_CUDA_ALLOC_CONF for a shell.
func conf(name string) string {
	if name == "default" {
		return `""`
	}
	return Printable(name)
}

// gain compares the recommended settings with the recorded ones.
func gain(own, best *answer.TuneSetting) string {
	needs := fmt.Sprintf("it reserves %s instead of %s", units.Bytes(best.PeakReservedBytes), units.Bytes(own.PeakReservedBytes))
	if own.Outcome == "oom" {
		needs = fmt.Sprintf("it does not run out of memory; it reserves %s", units.Bytes(best.PeakReservedBytes))
	}
	if best.Exact {
		return needs + ", replayed exactly"
	}
	return needs + ", " + best.Accuracy()
}

// settings writes a table of settings. Their names are long, so each has a line above its figures.
func (p *Page) settings(all []answer.TuneSetting) {
	const row = "%10s %10s %10s %8s %8s  %s"
	p.Line(row, "reserved", "live", "slack", "segments", "retries", "result")
	for i := range all {
		s := &all[i]
		name, result := Printable(s.Conf), s.Accuracy()
		if s.Recorded {
			name += " (recorded)"
		}
		if s.Outcome != "ok" {
			result = fmt.Sprintf("OOM at event %d", *s.OOMEvent)
		}
		p.Line("%s", name)
		p.Line(row, size(s.PeakReservedBytes), size(s.PeakLiveBytes), size(s.PeakReservedBytes-s.PeakLiveBytes),
			units.Count(int64(s.SegmentsAtEnd)), units.Count(int64(s.Retries)), result)
	}
}
