package web

import (
	"bytes"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
)

// picture is where the plot is in the picture of a space: see plot.Frame. The frame is empty if the picture has no axis of time.
type picture struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Left   float64 `json:"left"`
	Right  float64 `json:"right"`
	Top    float64 `json:"top"`
	Bottom float64 `json:"bottom"`
}

// picturesOf returns for each space of c the picture that memlane svg draws of it, nil if there is none, and passes its SVG to take.
func picturesOf(c Capture, take func(space int, svg []byte) error) ([]*picture, error) {
	all := make([]*picture, len(c.Spaces))
	main, recorded := mainOf(c.Spaces)
	for i, s := range c.Spaces {
		var svg bytes.Buffer
		var frame plot.Frame
		var others []*lifetime.Space // as for memlane svg, which draws them if no memory ID is named
		if s == main {
			others = recorded
		}
		o := figure.Options{Frame: &frame}
		if s.UsageOnly() {
			o.View = figure.Usage
		}
		if figure.Write(&svg, c.Capture, s, others, c.Findings, o) != nil {
			continue // the page says that nothing was recorded
		}
		all[i] = &picture{frame.Width, frame.Height, frame.Left, frame.Right, frame.Top, frame.Bottom}
		if err := take(i, svg.Bytes()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// mainOf returns the space that memlane svg draws of several, and those recorded while a program ran, or all if there are none.
func mainOf(spaces []*lifetime.Space) (main *lifetime.Space, recorded []*lifetime.Space) {
	recorded = answer.Recorded(spaces)
	main, _ = answer.Largest(recorded)
	return main, recorded
}
