package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/render/blocks"
)

// rectangle is a block of an address picture, read from the file.
type rectangle struct {
	x, y, right, bottom float64 // pixels
	offset              uint64  // from its hover text
	size                int64
}

// drawing is an address picture, read from the file.
type drawing struct {
	blocks      []rectangle
	merged      int64          // number of merged buffers
	mergedBytes string         // their bytes at the peak
	plot        rectangle      // from the lines of the grid
	first       uint64         // address, from the model
	lines       map[string]int // y of the lines of the grid, by label, in tenths of a pixel
}

var (
	offsetText = regexp.MustCompile(`\noffset (\d+) \(0x[0-9a-f]+\)`)
	bytesText  = regexp.MustCompile(`(?m)^(?:\S+ \S+ \(([\d,]+) B\)|(\d+) B)$`)
	mergedText = regexp.MustCompile(`(?:; |together: )([\d,]+) small buffers?(?: \((.*?) at the peak\))?`)
)

// readBack reads an address picture without the model.
func readBack(t *testing.T, svg []byte) *drawing {
	t.Helper()
	d := &drawing{lines: map[string]int{}}
	var path, text string
	var last rectangle
	var attrs map[string]string
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return d
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			text, attrs = "", map[string]string{}
			for _, a := range e.Attr {
				attrs[a.Name.Local] = a.Value
			}
			if e.Name.Local == "path" {
				path = attrs["d"]
				last = bounds(t, path)
				if attrs["class"] == "line-grid" && last.y == last.bottom {
					d.plot.x, d.plot.right = last.x, last.right
					d.plot.bottom = max(d.plot.bottom, last.y)
				}
			}
		case xml.CharData:
			text += string(e)
		case xml.EndElement:
			switch {
			case e.Name.Local == "desc":
				if m := mergedText.FindStringSubmatch(text); m != nil {
					d.merged, d.mergedBytes = numeral(m[1]), m[2]
				}
			case e.Name.Local == "text" && attrs["text-anchor"] == "end" && attrs["class"] == "dim":
				d.lines[text] = int(math.Round(last.y * 10))
			case e.Name.Local == "title" && offsetText.MatchString(text):
				m := bytesText.FindStringSubmatch(text)
				if m == nil {
					t.Fatalf("no size in %q", text)
				}
				last.size = numeral(m[1] + m[2])
				last.offset, _ = strconv.ParseUint(offsetText.FindStringSubmatch(text)[1], 10, 64)
				d.blocks = append(d.blocks, last)
			}
		}
	}
}

func numeral(s string) int64 {
	n, _ := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
	return n
}

// bounds returns the rectangle around path data of absolute moves and relative
// lines along the axes.
func bounds(t *testing.T, d string) rectangle {
	t.Helper()
	r := rectangle{x: math.Inf(1), y: math.Inf(1), right: math.Inf(-1), bottom: math.Inf(-1)}
	x, y := 0.0, 0.0
	for _, m := range regexp.MustCompile(`([Mhvlz])(-?[\d.]*) ?(-?[\d.]*)`).FindAllStringSubmatch(d, -1) {
		a, _ := strconv.ParseFloat(m[2], 64)
		b, _ := strconv.ParseFloat(m[3], 64)
		switch m[1] {
		case "M":
			x, y = a, b
		case "h":
			x += a
		case "v":
			y += a
		case "l":
			x, y = x+a, y+b
		}
		r.x, r.y, r.right, r.bottom = min(r.x, x), min(r.y, y), max(r.right, x), max(r.bottom, y)
	}
	return r
}

// TestRectangles checks that an address picture contains the begin, end, offset and size
// of the buffers, to a pixel. Separate and merged buffers together must have the count
// and the bytes of the model. Without MEMLANE_DEEP=1 every third capture is drawn.
func TestRectangles(t *testing.T) {
	files, err := filepath.Glob("../../testdata/xplane/*.hlo.pb")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	for _, file := range pickles(t) {
		files = append(files, file)
	}
	files = append(files, "../../testdata/xplane/tf_leak.xplane.pb", "../../testdata/chrome/cpu_leak.json.gz")
	slices.Sort(files)
	single := 0
	for i, file := range files {
		if i%deep.Or(3, 1) != 0 {
			continue
		}
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			if len(s.Buffers) == 0 || s.Facts&lifetime.Addresses == 0 {
				continue
			}
			for _, most := range []int{1, 7, 100000} {
				var w bytes.Buffer
				if err := blocks.Write(&w, c, s, blocks.Options{Layout: blocks.Address, MaxBlocks: most}); err != nil {
					t.Fatal(err)
				}
				where := fmt.Sprintf("%s %s, %d blocks", file, s.ID(), most)
				d := readBack(t, w.Bytes())
				d.first = firstAddress(s)
				checkNumbers(t, where, d, s, checkPlaces(t, where, d, s))
				if pieces(s) == 1 && len(d.lines) > 1 {
					checkOffsets(t, where, d)
					single++
				}
			}
		}
	}
	if single < deep.Or(4, 10) {
		t.Errorf("only %d pictures without gaps", single)
	}
}

// firstAddress returns the address of offset 0.
func firstAddress(s *lifetime.Space) uint64 {
	first := uint64(math.MaxUint64)
	for _, b := range s.Buffers {
		first = min(first, b.Addr)
	}
	for _, r := range s.Regions {
		first = min(first, r.Addr)
	}
	return first
}

// pieces returns the number of contiguous address ranges of a space.
func pieces(s *lifetime.Space) (n int) {
	var all [][2]uint64
	for _, b := range s.Buffers {
		all = append(all, [2]uint64{b.Addr, b.Addr + uint64(b.Size)})
	}
	for _, r := range s.Regions {
		all = append(all, [2]uint64{r.Addr, r.Addr + uint64(r.Size)})
	}
	slices.SortFunc(all, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	end := uint64(0)
	for i, e := range all {
		if i == 0 || e[0] > end {
			n++
		}
		end = max(end, e[1])
	}
	return n
}

// checkNumbers compares the count and the bytes of the drawing with the model. shown are
// the buffers that have a block.
func checkNumbers(t *testing.T, where string, d *drawing, s *lifetime.Space, shown []int) {
	t.Helper()
	if got := int64(len(d.blocks)) + d.merged; got != int64(len(s.Buffers)) {
		t.Errorf("%s: %d drawn and %d together, want %d", where, len(d.blocks), d.merged, len(s.Buffers))
	}
	peak := s.Peak(lifetime.Occupied)
	rest := peak.Bytes - s.Base - s.StackAt(peak.At)
	for _, i := range s.LiveAt(peak.At) {
		if slices.Contains(shown, i) {
			rest -= s.Buffers[i].Size
		}
	}
	switch {
	case d.merged == 0 && rest != 0:
		t.Errorf("%s: the blocks lack %d bytes of the peak", where, rest)
	case d.merged > 0 && units.Bytes(rest) != cmp.Or(d.mergedBytes, units.Bytes(0)):
		t.Errorf("%s: %s drawn together at the peak, want %s", where, d.mergedBytes, units.Bytes(rest))
	}
}

// at returns the position of an instant.
func (d *drawing) at(s *lifetime.Space, t int64) float64 {
	return d.plot.x + float64(t-s.Begin)/float64(s.End-s.Begin)*(d.plot.right-d.plot.x)
}

// off returns the distance in pixels between a block and the place of a buffer, at its
// begin or its end, whichever is larger. It is infinite for another address or size.
func (d *drawing) off(r rectangle, s *lifetime.Space, b *lifetime.Buffer) float64 {
	if b.Size != r.size || b.Addr-d.first != r.offset {
		return math.Inf(1)
	}
	begin, end := max(b.Begin, s.Begin), b.End
	if b.Edge&lifetime.EndOpen != 0 {
		end = s.End
	}
	return max(math.Abs(d.at(s, begin)-r.x), math.Abs(d.at(s, end)-r.right))
}

// checkPlaces matches every block with a different buffer, and returns the buffers.
func checkPlaces(t *testing.T, where string, d *drawing, s *lifetime.Space) (shown []int) {
	t.Helper()
	slices.SortFunc(d.blocks, func(a, b rectangle) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.x, b.x)) })
	taken := make([]bool, len(s.Buffers))
	scale := 0.0 // pixels per byte, from the largest block
	if len(d.blocks) > 0 {
		largest := slices.MaxFunc(d.blocks, func(a, b rectangle) int { return cmp.Compare(a.size, b.size) })
		scale = (largest.bottom - largest.y) / float64(largest.size)
	}
	for k, r := range d.blocks {
		// Several buffers can have the same place within a pixel: take the nearest.
		best, off := -1, 1.0
		for i := range taken {
			if n := d.off(r, s, &s.Buffers[i]); n < off && !taken[i] {
				best, off = i, n
			}
		}
		if best < 0 {
			t.Errorf("%s: no buffer lies at %+v", where, r)
			continue
		}
		taken[best] = true
		shown = append(shown, best)
		if h := r.bottom - r.y; math.Abs(h-scale*float64(r.size)) > 1 {
			t.Errorf("%s: a block of %d bytes is %.1f px high, want %.1f", where, r.size, h, scale*float64(r.size))
		}
		if k > 0 && r.bottom > d.blocks[k-1].bottom+0.2 {
			t.Errorf("%s: offset %d lies below offset %d", where, r.offset, d.blocks[k-1].offset)
		}
	}
	return shown
}

// checkOffsets compares the height of blocks with the grid lines, if the addresses are
// one range.
func checkOffsets(t *testing.T, where string, d *drawing) {
	t.Helper()
	highest, bytes := d.plot.bottom, 0.0
	for label, y := range d.lines {
		if n, err := units.ParseBytes(label); err == nil && float64(y)/10 < highest {
			highest, bytes = float64(y)/10, float64(n)
		}
	}
	if bytes == 0 {
		return
	}
	scale := (d.plot.bottom - highest) / bytes
	for _, r := range d.blocks {
		low, high := d.plot.bottom-scale*float64(r.offset), d.plot.bottom-scale*float64(r.offset+uint64(r.size))
		if math.Abs(low-r.bottom) > 1 || math.Abs(high-r.y) > 1 {
			t.Errorf("%s: offset %d and %d bytes lie at %.1f to %.1f, want %.1f to %.1f", where, r.offset, r.size, r.bottom, r.y, low, high)
		}
	}
}
