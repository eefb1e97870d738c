package main

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/whatif"
	"github.com/memlane/memlane/render/chart"
)

// TestWhatIfOutline: what whatif -o draws has the level of the program as it is, and of the changed one, at 200 instants of each, to a pixel.
func TestWhatIfOutline(t *testing.T) {
	files := []string{"whatif/one_step", "replay/b19.c2.oom", "whatif/gpt_small", "whatif/named", "whatif/cut_second", "whatif/accumulated", "whatif/evaluates", "meaning/a17"}
	changes := []string{"batch=2", "checkpoint=blocks", "optimizer=adam8bit", "no_grad", "precision=amp", "offload=activations", "freeze=*", "loss.chunks=8", "batch=0.5,accumulate=2", "next-step"}
	tried := 0
	for i, file := range files {
		c, err := judged.Open("../../testdata/"+file+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for k, change := range changes {
			if (i+k)%deep.Or(5, 1) > 0 {
				continue
			}
			edits, err := whatif.Parse(change)
			if err != nil {
				t.Fatal(err)
			}
			asked := answer.WhatIfAsked{Scenarios: []whatif.Scenario{edits}, Changed: &answer.Changed{}}
			if _, err := answer.WhatIfOf(c, asked); err != nil || asked.Changed.After == nil {
				continue // it is refused
			}
			var picture bytes.Buffer
			d := diff.Compare(judge.Of(asked.Changed.Before), judge.Of(asked.Changed.After))
			if err := chart.Diff(&picture, d, d.Main(), chart.Options{Width: 1600, Height: 1200}); err != nil {
				t.Fatal(err)
			}
			sides := []*lifetime.Space{asked.Changed.Before.Spaces[0], asked.Changed.After.Spaces[0]}
			for side, text := range upperEdges(t, picture.String()) {
				s, span := sides[side], max(sides[0].End-sides[0].Begin, sides[1].End-sides[1].Begin)
				for n := range int64(200) {
					at := s.Begin + (n+1)*(s.End-s.Begin)/202
					x := text.left + float64(at-s.Begin)/float64(span)*text.width
					level := text.zero - float64(s.LevelAt(at, lifetime.Occupied))/text.pixel
					column := text.columns[int(x)]
					for _, near := range []int{int(x) - 1, int(x) + 1} { // an instant may be in the column beside
						if of, ok := text.columns[near]; ok {
							column = [2]float64{min(column[0], of[0]), max(column[1], of[1])}
						}
					}
					if level < column[0]-1 || level > column[1]+1 {
						t.Fatalf("%s with %s: at %d of side %d %d B are in use, at %.1f; drawn is %.1f to %.1f", file, change, at, side, s.LevelAt(at, lifetime.Occupied), level, column[0], column[1])
					}
					tried++
				}
			}
		}
	}
	if tried < 2*200*deep.Or(8, 50) {
		t.Errorf("only %d instants", tried)
	}
}

// upperEdge is the area of one side of a picture: the highest and the lowest y of its upper edge in each pixel, and its scale.
type upperEdge struct {
	left, width, zero, pixel float64 // pixel is in bytes
	columns                  map[int][2]float64
}

var (
	areaPath  = regexp.MustCompile(`<path fill="#699bdd" d="M([\d.]+) ([\d.]+)([^"]*)"><title>(?:before|after): peak [^<]* \(([\d,]+) B\)</title>`)
	gridPath  = regexp.MustCompile(`class="line-grid" d="M([\d.]+) [\d.]+h([\d.]+)"`)
	pathMoves = regexp.MustCompile(`([hvlz])(-?[\d.]+)?(?: ?(-?[\d.]+))?`)
)

// upperEdges reads both sides of a picture.
func upperEdges(t *testing.T, picture string) (sides []upperEdge) {
	t.Helper()
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return n
	}
	grid := gridPath.FindStringSubmatch(picture)
	for _, m := range areaPath.FindAllStringSubmatch(picture, -1) {
		x, y, top := number(m[1]), number(m[2]), math.Inf(1)
		side := upperEdge{left: number(grid[1]), width: number(grid[2]), columns: map[int][2]float64{}}
		for _, move := range pathMoves.FindAllStringSubmatch(m[3], -1) {
			from := x
			switch move[1] {
			case "h":
				x += number(move[2])
			case "v":
				y += number(move[2])
			case "l":
				x, y = x+number(move[2]), y+number(move[3])
			}
			if x < from { // back along the bottom
				break
			}
			for k := int(from); k <= int(x); k++ {
				column, isKnown := side.columns[k]
				if !isKnown {
					column = [2]float64{y, y}
				}
				side.columns[k] = [2]float64{min(column[0], y), max(column[1], y)}
			}
			top, side.zero = min(top, y), max(side.zero, y)
		}
		side.pixel = number(m[4]) / (side.zero - top)
		sides = append(sides, side)
	}
	if len(sides) != 2 || grid == nil {
		t.Fatalf("%d sides", len(sides))
	}
	return sides
}
