// Package judged opens captures for tests as commands do: with the categories of buffers, and with leaks marked.
package judged

import (
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/outline"
)

// Open is formats.Open with judgements.
func Open(file string, in formats.Input) (*lifetime.Capture, error) {
	c, err := formats.Open(file, in)
	if err == nil {
		category.Of(c, nil)
		finding.MarkLeaks(c)
	}
	return c, err
}

// OpenOutline is formats.OpenOutline with judgements.
func OpenOutline(file string, in formats.Input) (*outline.Outline, error) {
	o, err := formats.OpenOutline(file, in)
	if err == nil {
		category.OfOutline(o)
		finding.MarkOutline(o)
	}
	return o, err
}
