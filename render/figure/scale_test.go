package figure_test

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/region"
	"github.com/memlane/memlane/render/figure"
	"github.com/memlane/memlane/render/plot"
)

var (
	paths = regexp.MustCompile(`<path [^>]*d="([^"]*)"`)
	moves = regexp.MustCompile(`([MLhvlHVz])([-.0-9]*) ?([-.0-9]*)`)
)

// TestScale: the scale of every picture, of any size, holds all marks that are drawn on it: nothing leaves the page, the top of the plot is not below the
// peak, what was reserved where that has a curve, and the capacity where that has a line.
func TestScale(t *testing.T) {
	drawn := 0
	for _, glob := range []string{"torchsnap/*oom*.pickle", "torchsnap/t2*.pickle", "oomtext/*.log", "chrome/cpu_*.json.gz", "gpumemprof/*.json", "jaxprof/*.prof", "hlotext/text/*-buffer-assignment.txt"} {
		files, _ := filepath.Glob("../../testdata/" + glob)
		for _, file := range files {
			c, err := judged.Open(file, formats.Input{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.Spaces {
				for _, size := range [][2]int{{}, {480, 240}, {2000, 700}} {
					for _, view := range []figure.View{figure.Blocks, figure.Usage, figure.Peak} {
						var w bytes.Buffer
						var frame plot.Frame
						if figure.Write(&w, c, s, c.Spaces, figure.Options{View: view, Width: size[0], Height: size[1], Frame: &frame}) != nil {
							continue // nothing of it was recorded
						}
						drawn++
						checkPage(t, file+" "+s.ID()+" view "+strconv.Itoa(int(view)), w.Bytes())
						if ceiling := frame.Bytes.From; ceiling > 0 {
							checkCeiling(t, file, s, view, int64(ceiling), w.Bytes())
						}
					}
				}
			}
		}
	}
	if drawn < 200 {
		t.Errorf("only %d pictures", drawn)
	}
}

// checkCeiling checks the bytes at the top of a plot.
func checkCeiling(t *testing.T, file string, s *lifetime.Space, view figure.View, ceiling int64, svg []byte) {
	t.Helper()
	marks := map[string]int64{"peak": s.Peak(lifetime.Occupied).Bytes}
	if view == figure.Usage && bytes.Contains(svg, []byte(">reserved<")) {
		for _, level := range region.Levels(s) {
			marks["reserved"] = max(marks["reserved"], level.Bytes)
		}
	}
	if capacity, text := plot.Capacity(s); capacity > 0 && bytes.Contains(svg, []byte("<title>"+text+"</title>")) {
		marks["capacity"] = capacity
	}
	for name, bytes := range marks {
		if bytes > ceiling {
			t.Errorf("%s %s, view %d: %s is %d bytes, the top %d", file, s.ID(), view, name, bytes, ceiling)
		}
	}
}

// checkPage reports shapes that leave the page.
func checkPage(t *testing.T, name string, svg []byte) {
	t.Helper()
	number := func(text []byte) float64 {
		f, _ := strconv.ParseFloat(string(text), 64)
		return f
	}
	size := regexp.MustCompile(`width="(\d+)" height="(\d+)"`).FindSubmatch(svg)
	for _, path := range paths.FindAllSubmatch(regexp.MustCompile(`(?s)<defs>.*?</defs>`).ReplaceAll(svg, nil), -1) {
		x, y := 0.0, 0.0
		for _, m := range moves.FindAllSubmatch(path[1], -1) {
			a, b := number(m[2]), number(m[3])
			switch m[1][0] {
			case 'M', 'L':
				x, y = a, b
			case 'l':
				x, y = x+a, y+b
			case 'h':
				x += a
			case 'v':
				y += a
			case 'H':
				x = a
			case 'V':
				y = a
			}
			if x < -.01 || y < -.01 || x > number(size[1])+.01 || y > number(size[2])+.01 {
				t.Errorf("%s: %s leaves the page of %s x %s at %.1f, %.1f", name, path[1], size[1], size[2], x, y)
				return
			}
		}
	}
}
