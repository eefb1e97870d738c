package finding_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// growth is a program whose call site "history" replaces its buffer when its size changes, next to call sites with sizes of their own.
type growth struct {
	size   func(step int) int64 // of the buffer of history
	piece  func(step int) int64 // of a buffer that is joined to it; 0 = none
	bias   func(step int) int64 // of a gradient
	others []func(step int) int64
	short  func(step int) bool // whether history also makes a buffer that nothing replaces
	first  int64               // size of a buffer that history drops before it grows; 0 = none
}

// growingSteps is the number of steps of a growth.
const growingSteps = 60

// found reports whether the rule finds the site.
func (g growth) found(t *testing.T) bool {
	t.Helper()
	h := newByHand()
	temporary := func(name string, size int64) {
		if size > 0 {
			h.free(h.alloc(name, size))
		}
	}
	h.addr = 1 << 40 // sizes are below the distance of two addresses, 1 MiB
	temporary("history", g.first)
	var last madeBlock
	for step := range growingSteps {
		h.step()
		temporary("work", 900)
		for i, size := range g.others {
			temporary(fmt.Sprint("other", i), size(step))
		}
		if g.piece != nil {
			temporary("piece", g.piece(step))
		}
		if g.bias != nil {
			temporary("AddmmBackward0", g.bias(step))
		}
		if g.short != nil && g.short(step) {
			temporary("history", 1)
		}
		if size := g.size(step); size != last.size {
			next := h.alloc("history", size)
			if last.size > 0 {
				h.free(last)
			}
			last = next
		}
	}
	temporary("work", 900)
	_, found := h.findIn(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock}, "growing_buffer")
	return len(found) == 1
}

// TestGrowingBufferThresholds tests the rule on both sides of each of its thresholds. linear grows by 1000 bytes per step.
func TestGrowingBufferThresholds(t *testing.T) {
	linear := func(step int) int64 { return 10_000 + 1000*int64(step) }
	fixed := func(int) int64 { return 3000 }
	like := func(off int64) func(int) int64 { // in proportion to linear, every other buffer off percent off
		return func(step int) int64 { return 4 * linear(step) * (100 + off*int64(step%2)) / 100 }
	}
	sites := func(grow int) (all []func(int) int64) { // 10 sites, with "work"
		for i := range 9 {
			if i < grow {
				all = append(all, like(0))
			} else {
				all = append(all, fixed)
			}
		}
		return all
	}
	growths := func(n int) func(int) int64 { // so many at even distances
		return func(step int) int64 { return 10_000 + 10_000*int64((step+1)*n/growingSteps) }
	}
	factor := func(percent int64) func(int) int64 { // from the first growth to the last that counts
		return func(step int) int64 { return 10_000 + 10_000*(percent-100)/100*int64(min(step, 58))/57 }
	}
	thirds := func(percent int64) func(int) int64 { // the share of the last third
		return func(step int) int64 {
			if step < 40 {
				return 10_000 + (100-percent)*50*int64(step)
			}
			return 10_000 + (100-percent)*2000 + percent*100*int64(step-40)
		}
	}
	every := func(n, of int) func(int) bool { return func(step int) bool { return step%of < n } }
	pieces := func(n, of int) func(int) int64 {
		return func(step int) int64 {
			if every(n, of)(step) {
				return 1000
			}
			return 7
		}
	}
	for name, c := range map[string]struct {
		growth
		want bool
	}{
		"linear":                                {growth{size: linear}, true},
		"no growth":                             {growth{size: fixed}, false},
		"6 growths":                             {growth{size: growths(8)}, true}, // the last two are too recent
		"5 growths":                             {growth{size: growths(7)}, false},
		"by a half":                             {growth{size: factor(152)}, true},
		"by less":                               {growth{size: factor(148)}, false},
		"16 % in the last third":                {growth{size: thirds(16)}, true},
		"12 % in the last third":                {growth{size: thirds(12)}, false},
		"one in five is not replaced":           {growth{size: linear, short: every(1, 5)}, true},
		"one in three is not replaced":          {growth{size: linear, short: every(1, 3)}, false},
		"a fifth of the last before":            {growth{size: linear, first: 13_000}, true},
		"more than a fifth before":              {growth{size: linear, first: 14_500}, false},
		"3 of 10 grow in proportion":            {growth{size: linear, others: sites(3)}, true},
		"4 of 10 grow in proportion":            {growth{size: linear, others: sites(4)}, false},
		"all grow, and pieces are joined":       {growth{size: linear, others: sites(9), piece: pieces(1, 1)}, true},
		"all grow, and 9 of 11 are joined":      {growth{size: linear, others: sites(9), piece: pieces(9, 11)}, true},
		"all grow, and 7 of 10 are joined":      {growth{size: linear, others: sites(9), piece: pieces(7, 10)}, false},
		"all grow, by the size of a gradient":   {growth{size: linear, others: sites(9), bias: pieces(1, 1)}, false},
		"all grow, almost in proportion":        {growth{size: linear, others: []func(int) int64{like(2), like(-2)}}, false},
		"all grow, but not in proportion":       {growth{size: linear, others: []func(int) int64{like(8), like(-8)}}, true},
		"others have a fixed size":              {growth{size: linear, others: sites(0)}, true},
		"a result of fixed size is next to it":  {growth{size: linear, others: sites(0), short: every(1, 6)}, true},
		"grows, and is dropped half way":        {growth{size: func(step int) int64 { return linear(step % 30) }}, false},
		"grows, and then stays":                 {growth{size: func(step int) int64 { return linear(min(step, 30)) }}, false},
		"doubles, and the next is not yet due":  {growth{size: func(step int) int64 { return doubled(step) }}, true},
		"doubles, and the next is long overdue": {growth{size: func(step int) int64 { return doubled(min(step, 12)) }}, false},
	} {
		if got := c.found(t); got != c.want {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
}

// TestGrowingBufferForecast: what is copied into a larger buffer is in use beside it.
func TestGrowingBufferForecast(t *testing.T) {
	const mib = 1 << 20
	h := newByHand()
	var last madeBlock
	for step := range int64(60) {
		h.step()
		h.free(h.alloc("work", 900))
		next := h.alloc("log", (step+1)*mib)
		if last.size > 0 {
			h.free(last)
		}
		last = next
	}
	h.free(h.alloc("work", 900))
	_, found := h.findIn(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock, Limit: 1024 * mib}, "growing_buffer")
	if len(found) != 1 || !strings.Contains(found[0].Description, "reaches the capacity of 1.00 GiB at about step 512") {
		t.Errorf("%v", found) // 512 + 513 MiB are more
	}
}

// doubled returns the capacity of a log with a row of 1000 bytes for each step, which doubles when it is full.
func doubled(step int) int64 {
	capacity := int64(2000)
	for capacity < 1000*int64(step+1) {
		capacity *= 2
	}
	return capacity
}

// TestGrowingChain: lines of a program call the line of a library that extends a buffer in turns, so no stack has a buffer that grows.
// Sequences of their own lengths are no chain.
func TestGrowingChain(t *testing.T) {
	for name, grows := range map[string]bool{"one cache": true, "a cache for each request": false} {
		p := newProgram(9)
		p.steps = 60
		var cache *tensor
		library := p.b.Frame(frame.Frame{Function: "update", File: "/site-packages/library/cache.py", Line: 3, Kind: frame.Framework})
		found := findingsOf(t, p, finding.Settings{}, p.marked(func(step int) {
			for k, caller := range []string{"prompt", "token", "token"} {
				line := p.b.Frame(frame.Frame{Function: caller, File: "serve.py", Line: 5})
				size := int64(3*step+k+1) << 12
				if !grows {
					size = int64(k+1) << 16
				}
				old := cache
				cache = p.allocAt(p.b.Site(lifetime.Site{Stack: p.b.Stack([]lifetime.FrameID{library, line})}), size)
				if old != nil {
					p.free(old)
				}
			}
		}))["growing_buffer"]
		if grows != (len(found) == 1) {
			t.Errorf("%s: %v", name, found)
		}
	}
}
