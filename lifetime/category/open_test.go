package category_test

import (
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
)

// open opens a capture and finds what its buffers are for.
func open(file string, in formats.Input) (*lifetime.Capture, error) {
	c, err := formats.Open(file, in)
	if err == nil {
		category.Of(c, nil)
	}
	return c, err
}
