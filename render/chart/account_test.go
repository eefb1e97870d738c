package chart

import (
	"bytes"
	"encoding/xml"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// TestAccount: of every log whose figures add up to a capacity, the parts of the bar do, too. Also without a capacity, the bar, the request and the line of the
// capacity are inside of the picture.
func TestAccount(t *testing.T) {
	files, _ := filepath.Glob("../../testdata/oomtext/*.log")
	drawn, without := 0, 0
	for _, file := range files {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			for _, d := range c.Failures(s) {
				a, ok := d.Failure.Account(d.Mark.Free.Or(-1))
				parts := accountParts(c.Capture, &d, &a)
				if len(parts) == 0 {
					continue
				}
				sum := int64(0)
				for _, k := range parts {
					sum += k.bytes
				}
				if !ok {
					without++
				} else if sum != a.Capacity && a.Live < a.Capacity { // a text may give more live bytes than the device has
					t.Errorf("%s %s: the parts have %d bytes, the device %d", file, s.ID(), sum, a.Capacity)
				}
				for _, width := range []int{480, 600, 960} {
					var w bytes.Buffer
					if err := Account(&w, c, &d, "Out of memory", Options{Width: width}); err != nil {
						t.Fatal(err)
					}
					if limit := d.Failure.Allowed; limit >= 0 && (a.Capacity < 0 || limit <= a.Capacity) && !strings.Contains(w.String(), "limit "+units.Bytes(limit)) {
						t.Errorf("%s: the limit of %d bytes is not in the picture", file, limit)
					}
					drawn++
					checkInside(t, file, w.Bytes(), float64(width))
				}
			}
		}
	}
	if drawn < 10 || without < 2 {
		t.Errorf("only %d accounts, %d without a capacity", drawn, without)
	}
}

// checkInside reports rectangles and texts that begin outside of a picture.
func checkInside(t *testing.T, name string, svg []byte, width float64) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if err != nil {
			return
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				text, _, _ := strings.Cut(strings.TrimPrefix(a.Value, "M"), " ")
				if x, err := strconv.ParseFloat(text, 64); err == nil && (a.Name.Local == "x" || a.Name.Local == "d") && (x < 0 || x > width) {
					t.Errorf("%s: <%s> begins at %v of %v", name, e.Name.Local, x, width)
				}
			}
		}
	}
}

// TestEdges: bars of every picture of what is alive, and the squares of its key, have an edge of their own: many colours are pale on a white page.
func TestEdges(t *testing.T) {
	for _, file := range []string{"torchsnap/healthy.pickle", "jaxprof/leak_before.memory.prof", "xplane/oom.hlo.pb"} {
		c, err := judged.Open("../../testdata/"+file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			if len(s.LiveAt(s.Peak(lifetime.Occupied).At)) == 0 {
				continue
			}
			var w bytes.Buffer
			if err := Peak(&w, c.Capture, s, "", Options{}); err != nil {
				t.Fatal(err)
			}
			areas, edges := strings.Count(w.String(), "<title>")-1, strings.Count(w.String(), `class="line-dim"`)
			if edges < areas/2 || edges == 0 {
				t.Errorf("%s %s: %d areas, %d edges", file, s.ID(), areas, edges)
			}
		}
	}
}
