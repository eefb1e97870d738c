package chart

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/render/plot"
)

// categorized returns a space of random buffers of n categories.
func categorized(r *rand.Rand, n int) (*lifetime.Capture, *lifetime.Space) {
	c := &lifetime.Capture{Tables: lifetime.Tables{Sources: []lifetime.Source{{File: "x"}}, Sites: make([]lifetime.Site, 1), Purposes: make([]purpose.Purpose, 1)}}
	for k := range n {
		c.Purposes = append(c.Purposes, purpose.Purpose{Category: purpose.Category(k)})
	}
	s := &lifetime.Space{SpaceInfo: lifetime.SpaceInfo{End: 1000}}
	for range 300 {
		begin := r.Int64N(1000)
		s.Buffers = append(s.Buffers, lifetime.Buffer{Begin: begin, End: min(1000, begin+1+r.Int64N(300)), Size: 1 + r.Int64N(1000)})
		s.Purposes = append(s.Purposes, lifetime.PurposeID(1+r.IntN(n)))
	}
	slices.SortFunc(s.Buffers, func(x, y lifetime.Buffer) int { return int(x.Begin - y.Begin) })
	for i := range s.Buffers {
		if s.Buffers[i].End == 1000 {
			s.Buffers[i].Edge = lifetime.EndOpen
		}
	}
	s.SortEnds(nil)
	c.Spaces = []*lifetime.Space{s}
	return c, s
}

// TestBands: bands lie on each other up to the highest level of each column, and sum to the peak.
func TestBands(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 2; n <= 11; n++ {
		c, s := categorized(r, n)
		u, err := newUsage(c, s, Options{Width: 960, Categories: true})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(n, mostBands+1); len(u.bands) != want {
			t.Fatalf("%d bands of %d categories, want %d", len(u.bands), n, want)
		}
		sum, below := int64(0), make([]int64, u.occupied.Columns)
		for _, b := range u.bands {
			sum += b.atPeak
			for k, v := range b.top.high {
				if v < below[k] {
					t.Fatalf("%s ends at %d, the band below at %d", b.name, v, below[k])
				}
				below[k] = v
			}
		}
		if sum != u.peak.Bytes || !slices.Equal(below, u.occupied.high) {
			t.Errorf("%d categories: bands have %d at the peak of %d", n, sum, u.peak.Bytes)
		}
		var svg bytes.Buffer
		if err := Usage(&svg, judge.Of(c), s, Options{Categories: true}); err != nil {
			t.Fatal(err)
		}
		for _, b := range u.bands {
			if !strings.Contains(svg.String(), ">"+b.name+"<") {
				t.Errorf("the legend has no %s", b.name)
			}
		}
	}
	plain, s := categorized(r, 1)
	if u, err := newUsage(plain, s, Options{Width: 960, Categories: true}); err != nil || len(u.bands) != 0 {
		t.Errorf("one category has bands: %v", err)
	}
	if plot.CategoryLook("output") == plot.CategoryLook("activation") {
		t.Error("outputs and activations of compiled programs have one colour")
	}
}

// TestRecordedBands: the categories that a timeline records lie on each other up to its total at each time, and have no panels of their own.
func TestRecordedBands(t *testing.T) {
	c, err := judged.Open("../../testdata/chrome/cpu_leak.timeline.json.gz", formats.Input{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.ID() == "timeline" })
	u, err := newUsage(c.Capture, c.Spaces[at], Options{Width: 960})
	if err != nil || len(u.bands) != len(c.Spaces)-1 {
		t.Fatalf("%d bands of %d memory IDs: %v", len(u.bands), len(c.Spaces), err)
	}
	sum := int64(0)
	for _, b := range u.bands {
		sum += b.atPeak
	}
	if top := u.bands[len(u.bands)-1].top.high; sum != u.peak.Bytes || !slices.Equal(top, u.occupied.high) {
		t.Errorf("the bands have %d at the peak of %d, and are as high as %v of %v", sum, u.peak.Bytes, top, u.occupied.high)
	}
	var svg bytes.Buffer
	if err := Usage(&svg, c, c.Spaces[at], Options{Others: slices.Delete(slices.Clone(c.Spaces), at, at+1)}); err != nil || strings.Contains(svg.String(), "other memory IDs") {
		t.Errorf("categories are drawn again: %v", err)
	}
}
