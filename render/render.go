package render

import (
	"io"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/model"
)

// Export is one form that a whole capture can be written in.
type Export struct {
	Name      string // as in --to
	Extension string // of its files
	Doc       string // one line
	Write     func(w io.Writer, c *lifetime.Capture) error
}

// Exports are all forms, in the order of help texts.
var Exports = []Export{
	{"native", ".native", "the model as text, which memlane reads back", native.Write},
	{"json", ".json", "the model as JSON: buffers, regions, marks, sites, stacks, losses", model.Write},
}
