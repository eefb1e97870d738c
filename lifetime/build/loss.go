package build

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

type counted struct{ loss.Loss }

// add counts one case. It calls where for the first one only.
func (c *counted) add(bytes int64, where func() string) {
	if c.Count++; c.Count == 1 {
		c.First = where()
	}
	c.Bytes = units.AddSat(c.Bytes, bytes)
}

// report adds the cases to the losses of the capture, if there are any.
func (c *counted) report(b *Builder, r loss.Reason, s *lifetime.Space) {
	if c.Count > 0 {
		b.Lose(r, c.Count, c.Bytes, s.ID()+": "+c.First)
	}
}
