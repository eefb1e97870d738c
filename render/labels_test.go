package render_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/plot"
)

// words is a text of a picture, and the box that it needs by its estimated width, in pixels.
type words struct {
	text                     string
	left, right, top, bottom float64
}

// wordsOf returns the texts of an SVG.
func wordsOf(t *testing.T, svg []byte) (all []words, width, height float64) {
	t.Helper()
	var picture struct {
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
	}
	if err := xml.Unmarshal(svg, &picture); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all, picture.Width, picture.Height
		} else if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
			var text struct {
				X         float64 `xml:"x,attr"`
				Y         float64 `xml:"y,attr"`
				Anchor    string  `xml:"text-anchor,attr"`
				Size      string  `xml:"font-size,attr"`
				Weight    string  `xml:"font-weight,attr"`
				Transform string  `xml:"transform,attr"`
				Start     string  `xml:",chardata"`
				Aside     string  `xml:"tspan"`
			}
			if err := d.DecodeElement(&text, &e); err != nil {
				t.Fatal(err)
			}
			size := 12
			if text.Size != "" {
				size, _ = strconv.Atoi(text.Size)
			}
			measure := size
			if text.Weight != "" {
				measure++
			}
			long := float64(canvas.Width(text.Start+text.Aside, measure)) / 10
			w := words{text.Start + text.Aside, text.X, text.X + long, text.Y - 0.75*float64(size), text.Y + 0.2*float64(size)}
			switch {
			case text.Transform != "": // upwards, and in the middle
				w.left, w.right, w.top, w.bottom = text.X-0.75*float64(size), text.X+0.2*float64(size), text.Y-long/2, text.Y+long/2
			case text.Anchor == "end":
				w.left, w.right = text.X-long, text.X
			case text.Anchor == "middle":
				w.left, w.right = text.X-long/2, text.X+long/2
			}
			all = append(all, w)
		}
	}
}

// checkWords checks that the texts of a picture are inside it, and that none is on another one.
func checkWords(t *testing.T, where string, svg []byte) {
	t.Helper()
	all, width, height := wordsOf(t, svg)
	if len(all) < 4 {
		t.Errorf("%s: only %d texts", where, len(all))
	}
	for i, w := range all {
		if w.left < 0 || w.top < 0 || w.right > width+0.5 || w.bottom > height+0.5 {
			t.Errorf("%s: %q is not inside %.0f x %.0f: %+v", where, w.text, width, height, w)
		}
		for _, o := range all[:i] {
			if w.left < o.right && o.left < w.right && w.top+0.5 < o.bottom && o.top+0.5 < w.bottom {
				t.Errorf("%s: %q is on %q", where, w.text, o.text)
			}
		}
	}
}

// TestLabels checks the texts of the pictures of captures in testdata: none is on another one or beyond the picture. It takes every fourth
// capture, and with MEMLANE_DEEP all.
func TestLabels(t *testing.T) {
	some, err := captures()
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(some)
	for _, glob := range []string{"../testdata/labelled/*.pickle.zst", "../testdata/meaning/*.pickle.zst", "../testdata/labelled/*.pb.zst"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatal(glob, err)
		}
		for i, file := range files {
			if i%deep.Or(4, 1) > 0 {
				continue
			}
			c, err := judged.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			all[file] = c.Capture
		}
	}
	for i, file := range slices.Sorted(maps.Keys(some)) {
		if i%deep.Or(4, 1) > 0 {
			delete(all, file)
		}
	}
	checked := 0
	for _, file := range slices.Sorted(maps.Keys(all)) {
		c := all[file]
		for i, s := range c.Spaces[:min(len(c.Spaces), 4)] {
			sizes := [][2]int{{600, 0}, {960, 0}, {1600, 900}}
			for k, draw := range drawings(c, s) {
				o := sizes[(i+k)%len(sizes)]
				var svg bytes.Buffer
				if err := draw(&svg, o[0], o[1]); err != nil {
					continue // the space lacks what this picture needs
				}
				checkWords(t, fmt.Sprintf("%s %s, picture %d, %d wide", file, s.ID(), k, o[0]), svg.Bytes())
				checked++
			}
		}
	}
	if checked < deep.Or(125, 500) {
		t.Errorf("only %d pictures", checked)
	}
}

// drawings returns functions that draw the pictures of a space.
func drawings(c *lifetime.Capture, s *lifetime.Space) (all []func(w io.Writer, width, height int) error) {
	others := slices.DeleteFunc(slices.Clone(c.Spaces), func(o *lifetime.Space) bool { return o == s })
	for _, o := range []blocks.Options{{}, {Color: blocks.ByCategory, Others: others}, {Layout: blocks.Address}} {
		all = append(all, func(w io.Writer, width, height int) error {
			o.Width, o.Height = width, height
			return blocks.Write(w, judge.Of(c), s, o)
		})
	}
	return append(all, func(w io.Writer, width, height int) error {
		return chart.Usage(w, judge.Of(c), s, chart.Options{Width: width, Height: height, Others: others})
	}, func(w io.Writer, width, height int) error {
		return chart.Peak(w, c, s, "", chart.Options{Width: width, Height: height})
	}, func(w io.Writer, width, height int) error {
		return blocks.Write(w, judge.Of(c), selection.ByEvent(s), blocks.Options{Width: width, Height: height})
	})
}

// TestLineNumbers checks that names of call sites keep their line numbers in legends, however long they are.
func TestLineNumbers(t *testing.T) {
	all, err := captures()
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, file := range slices.Sorted(maps.Keys(all)) {
		c := all[file]
		for _, s := range c.Spaces[:min(len(c.Spaces), 2)] {
			var svg bytes.Buffer
			if s.Axis == lifetime.ProgramOrder || blocks.Write(&svg, judge.Of(c), s, blocks.Options{Width: 640}) != nil {
				continue
			}
			texts, _, _ := wordsOf(t, svg.Bytes())
			for _, w := range texts {
				if name, line, ok := strings.Cut(w.text, ".py"); ok && w.left > 300 {
					rows++
					if !strings.HasPrefix(line, ":") {
						t.Errorf("%s: %q (%s) has no line number", file, w.text, name)
					}
				}
			}
		}
	}
	if rows < 50 {
		t.Errorf("only %d rows", rows)
	}
}

// TestWholeSentences: no footer or fact of a narrow picture has an ellipsis in a sentence or a memory ID, and no text has two.
func TestWholeSentences(t *testing.T) {
	for _, file := range []string{"chrome/cuprof_leak.json.gz", "xplane/seed_oom.hlo.pb", "xplane/tf_leak.xplane.pb", "torchsnap/small_leak_cycles.pickle", "jaxprof/leak_after.memory.prof"} {
		c, err := judged.Open("../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := selection.Largest(c.Spaces)
		if s == nil {
			s = c.Spaces[0]
		}
		if strings.HasPrefix(file, "chrome") {
			s.Base = 205 << 30 // the axis is broken
		}
		var text bytes.Buffer
		advice := "Record with memlane.record() before the model is made, to see what was there before the recording."
		if err := blocks.Write(&text, c, s, blocks.Options{Theme: canvas.Light, Width: plot.Least, Advice: advice}); err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`<text[^>]*>([^<]*…[^<]*)<`).FindAllStringSubmatch(text.String(), -1) {
			if strings.Count(m[1], "…") > 1 || strings.Contains(m[1], "/space0") || strings.Contains(m[1], "ecord") || strings.Contains(m[1], "scale") || strings.Contains(m[1], "together") {
				t.Errorf("%s: %s", file, m[1])
			}
		}
	}
}
