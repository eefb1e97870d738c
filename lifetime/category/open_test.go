package category_test

import (
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
)

// opened are the captures that tests share.
var opened = map[string]*lifetime.Capture{}

// shared opens a capture once for all tests, none of which may change it.
func shared(file string) (*lifetime.Capture, error) {
	if c := opened[file]; c != nil {
		return c, nil
	}
	c, err := open(file, formats.Input{})
	if err == nil {
		opened[file] = c
	}
	return c, err
}

// open opens a capture and finds what its buffers are for.
func open(file string, in formats.Input) (*lifetime.Capture, error) {
	c, err := formats.Open(file, in)
	if err == nil {
		category.Of(c, nil)
	}
	return c, err
}
