package render_test

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"regexp"
	"strconv"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/canvas"
)

// legendRow matches a row of the legend: the colour, and the bytes at the peak.
var legendRow = regexp.MustCompile(`fill="#([0-9a-f]{6})" d="M[0-9.]+ [0-9.]+h12v12h-12z"/>\n(?:<path.*\n)?(?:<text.*\n)<text[^>]*>([0-9.]+) (B|KiB|MiB|GiB) at the peak`)

// TestLegendColors checks that the colour of the legend is on the picture: in some column, each group with 1 % of the
// peak or more has most of the height that its bytes need.
func TestLegendColors(t *testing.T) {
	checked := 0
	files := append([]string{"../testdata/torchsnap/leak_4mib_20steps.pickle", "../testdata/meaning/a17.pickle.zst", "../testdata/torchsnap/oom_observer.pickle",
		"../testdata/meaning/m05.pickle.zst", "../testdata/meaning/n07.pickle.zst"}, pictured...)
	for _, file := range files[:deep.Or(3, len(files))] {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := selection.Largest(c.Spaces)
		if s == nil {
			continue
		}
		ceiling := max(s.Peak(lifetime.Occupied).Bytes, 1)
		if s.Limit > 0 && s.Limit <= 2*ceiling {
			ceiling = max(ceiling, s.Limit)
		}
		for _, color := range []blocks.Color{blocks.BySite, blocks.BySize, blocks.ByCategory} {
			const height = 420
			o := blocks.Options{Color: color, Theme: canvas.Light, Width: 960, Height: height}
			var text, picture bytes.Buffer
			if err := blocks.Write(&text, c, s, o); err != nil {
				t.Fatal(err)
			}
			o.Format = canvas.PNG
			if err := blocks.Write(&picture, c, s, o); err != nil {
				t.Fatal(err)
			}
			most := columnsOf(t, picture.Bytes())
			for _, row := range legendRow.FindAllStringSubmatch(text.String(), -1) {
				number, _ := strconv.ParseFloat(row[2], 64)
				share := number * map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[row[3]] / float64(ceiling)
				if share < 0.01 {
					continue
				}
				checked++
				want := share * 2 * (height - 62 - 82) // two dots per pixel
				if got := most[row[1]]; float64(got) < want/2 {
					t.Errorf("%s, colour %d: #%s has %.1f %% of the height, but only %d of %.0f dots in any column", file, color, row[1], 100*share, got, want)
				}
			}
		}
	}
	if checked < deep.Or(15, 30) {
		t.Errorf("only %d rows of legends were checked", checked)
	}
}

// columnsOf returns the most dots that each colour has in a column of the plot of a PNG.
func columnsOf(t *testing.T, picture []byte) map[string]int {
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	rgba := image.NewRGBA(img.Bounds())
	draw.Draw(rgba, rgba.Bounds(), img, image.Point{}, draw.Src)
	columns := map[[3]byte]int{}
	for x := 2 * 86; x < 2*700; x++ {
		dots := map[[3]byte]int{}
		for y := 2 * 82; y < img.Bounds().Dy()-2*62; y++ {
			dots[[3]byte(rgba.Pix[rgba.PixOffset(x, y):])]++
		}
		for color, n := range dots {
			columns[color] = max(columns[color], n)
		}
	}
	most := map[string]int{}
	for color, n := range columns {
		most[fmt.Sprintf("%02x", color)] = n
	}
	return most
}

// TestNarrowKeys: keys of a phone name operators where all have one place, and its title has whole words.
func TestNarrowKeys(t *testing.T) {
	c, err := judged.Open("../testdata/xplane/tf_leak.xplane.pb", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := selection.Largest(c.Spaces)
	var text bytes.Buffer
	if err := blocks.Write(&text, c, s, blocks.Options{Color: blocks.BySite, Theme: canvas.Light, Width: 440, Title: "Probable leak in vm/bfc_cpu_allocator_for_gpu: Relu"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">MatMul <tspan", ">AddV2 <tspan", ">Probable leak<"} {
		if !bytes.Contains(text.Bytes(), []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}
