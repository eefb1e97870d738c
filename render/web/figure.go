package web

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
	"github.com/memlane/memlane/render/text"
)

// picture is where the plot is in the picture of a space, as the page has it. The plot is empty if the picture has no
// axis of time.
type picture struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Left   float64 `json:"left"`
	Right  float64 `json:"right"`
	Top    float64 `json:"top"`
	Bottom float64 `json:"bottom"`

	Ceiling uint64   `json:"ceiling"`        // bytes at the top of the plot; 0 = by address, or none
	Band    float64  `json:"band,omitempty"` // height of what is below a break of the axis
	Address bool     `json:"address"`        // whether the vertical axis has addresses
	Narrow  *picture `json:"narrow"`         // the same picture for a phone; nil = none
}

func pictureOf(f *plot.Frame) *picture {
	if f == nil {
		return nil
	}
	return &picture{f.Width, f.Height, f.Left, f.Right, f.Top, f.Bottom, f.Bytes.From, float64(f.Bytes.Band) / 10, f.Right > 0 && f.Bytes.From == 0, nil}
}

// lineParts is the number of points of a line over a picture.
const lineParts = 240

// lineOf returns the heights of levels in equal parts of a plot, from left to right, in pixels from the top of the
// picture; none if there are no levels, or the plot has no axis of bytes.
func lineOf(levels []lifetime.Level, f *plot.Frame) []float64 {
	all := []float64{}
	if len(levels) == 0 || f.Bytes.From == 0 {
		return all
	}
	for _, level := range plot.Highest(slices.Values(levels), f.From, f.To, lineParts) {
		all = append(all, f.Y(uint64(max(level, 0))))
	}
	return all
}

// mostPictures is how many pictures a page has of one capture. Each is as large as the whole of what is said of a
// device that did little.
const mostPictures = 64

// mostNarrow is the number of buffers up to which a second picture takes no time that is noticed.
const mostNarrow = 200_000

// picturesOf returns for each space of c the frame of the picture that memlane svg draws of it, nil if there is none,
// and passes its SVG to take. Of more than mostPictures spaces, those with the highest peaks have one. narrow is the frame of one more picture of
// the main space, for phones, which is passed as "narrow".
func picturesOf(c *judge.Capture, take func(space int, name string, svg []byte) error) (all []*plot.Frame, narrow *plot.Frame, err error) {
	all = make([]*plot.Frame, len(c.Spaces))
	for _, i := range highest(c.Spaces, mostPictures) {
		s := c.Spaces[i]
		var svg bytes.Buffer
		var frame plot.Frame
		o := figure.Options{Title: func(byCategory bool) string { return text.Title(c, s, byCategory) }, Frame: &frame}
		if figure.Write(&svg, c, s, nil, o) != nil { // the page has a strip of the others
			continue // the page says that nothing was recorded
		}
		all[i] = &frame
		if err := take(i, "picture", svg.Bytes()); err != nil {
			return nil, nil, err
		}
		if s != mainOf(c) || len(s.Buffers) > mostNarrow {
			continue
		}
		svg.Reset()
		narrow, o.Width = new(plot.Frame), plot.Least
		if o.Frame = narrow; figure.Write(&svg, c, s, nil, o) != nil {
			narrow = nil
		} else if err := take(i, "narrow", svg.Bytes()); err != nil {
			return nil, nil, err
		}
	}
	return all, narrow, nil
}

// highest returns the indices of the n spaces with the highest peaks, in the order of spaces.
func highest(spaces []*lifetime.Space, n int) []int {
	all := make([]int, len(spaces))
	for i := range all {
		all[i] = i
	}
	if len(all) > n {
		peaks := make([]int64, len(spaces))
		for i, s := range spaces {
			peaks[i] = s.Peak(lifetime.Occupied).Bytes
		}
		slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(peaks[b], peaks[a]) })
		all = all[:n]
		slices.Sort(all)
	}
	return all
}

// mainOf returns the space that memlane svg draws of a capture.
func mainOf(c *judge.Capture) *lifetime.Space {
	return judge.Once(c, "main", nil, func() *lifetime.Space {
		main, _, _ := figure.Main(c, selection.Recorded(c.Spaces))
		return main
	})
}
