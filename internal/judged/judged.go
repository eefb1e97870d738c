// Package judged opens captures for tests as commands do: judged, with leaks marked.
package judged

import (
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/judge"
)

// Open is formats.Open with the judgement.
func Open(file string, in formats.Input) (*judge.Capture, error) {
	c, err := formats.Open(file, in)
	if err != nil {
		return nil, err
	}
	category.Of(c, nil)
	j := judge.Of(c)
	j.Mark()
	return j, nil
}

// OpenOutline is formats.OpenOutline with the judgement.
func OpenOutline(file string, in formats.Input) (*judge.Outline, error) {
	o, err := formats.OpenOutline(file, in)
	if err != nil {
		return nil, err
	}
	return judge.NewOutline(o), nil
}
