package report

import (
	"io"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
)

// WriteTune writes settings of PyTorch's allocator as Markdown, for a pull request.
func WriteTune(w io.Writer, a *answer.Tune) error {
	m := &markdown{}
	m.line("# Settings of PyTorch's allocator\n")
	for _, r := range a.Refused {
		m.line("- %s: cannot predict: %s", Escape(r.ID), Escape(r.Why))
	}
	if len(a.Settings) > 0 {
		verdict, reason := a.Verdict()
		m.line("**%s**\n\n%s. replay: %s.", Escape(verdict), Escape(reason), a.Replay.Text())
		if a.Capacity > 0 {
			m.line("Capacity: %s.", units.Bytes(a.Capacity))
		}
		for i := range a.Batches {
			b := &a.Batches[i]
			m.line("\n- largest batch within %s, %s: %s", units.Bytes(b.CapacityBytes), Escape(b.Conf), b.Text())
		}
		for i := range a.Growth {
			g := &a.Growth[i]
			m.line("\n- with %.4g times the activations, %s: %s", g.Factor, Escape(g.Conf), g.Text())
		}
		m.settings(a.Settings)
	}
	for i := range a.Captures {
		c := &a.Captures[i]
		m.line("\n## %s, %s\n\nreplay: %s.", Escape(c.File), Escape(c.ID), c.Replay.Text())
		m.settings(c.Settings)
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}

func (m *markdown) settings(all []answer.TuneSetting) {
	m.line("\n| settings | reserved | live | slack | segments | retries | result |\n|---|--:|--:|--:|--:|--:|---|")
	for i := range all {
		s := &all[i]
		name := Escape(s.Conf)
		if s.Recorded {
			name += " (recorded)"
		}
		m.line("| %s | %s | %s | %s | %s | %s | %s |", name, units.Bytes(s.PeakReservedBytes), units.Bytes(s.PeakLiveBytes),
			units.Bytes(s.PeakReservedBytes-s.PeakLiveBytes), units.Count(int64(s.SegmentsAtEnd)), units.Count(int64(s.Retries)), s.Result())
	}
}
