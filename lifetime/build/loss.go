package build

import (
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
)

// counted is a loss of a space in the making.
type counted struct{ loss.Loss }

// add counts one more case. where is called for the first one alone.
func (c *counted) add(bytes int64, where func() string) {
	if c.Count++; c.Count == 1 {
		c.First = where()
	}
	c.Bytes = lifetime.AddSat(c.Bytes, bytes)
}

// report adds the cases to the losses of the capture, if there are any.
func (c *counted) report(b *Builder, r loss.Reason, s *lifetime.Space) {
	if c.Count > 0 {
		b.Lose(r, c.Count, c.Bytes, s.ID()+": "+c.First)
	}
}
