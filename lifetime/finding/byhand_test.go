package finding_test

import (
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/frame"
)

// byHand is a program that a test scripts, with an event every 10 nanoseconds.
type byHand struct {
	b    *build.Builder
	s    build.SpaceRef
	at   int64
	addr uint64
}

func newByHand() *byHand {
	h := &byHand{b: build.New(build.Everything), addr: 1 << 30}
	h.b.Source(lifetime.Source{File: "made"})
	h.s = h.b.Space()
	return h
}

type madeBlock struct {
	addr uint64
	size int64
}

func (h *byHand) alloc(name string, size int64) madeBlock {
	return h.allocPadded(name, size, size)
}

func (h *byHand) allocPadded(name string, requested, occupied int64) madeBlock {
	h.at += 10
	h.addr += 1 << 20
	h.b.Alloc(h.s, h.at, build.Block{Addr: h.addr, Requested: requested, Occupied: occupied, Site: h.site(name)})
	return madeBlock{h.addr, requested}
}

func (h *byHand) site(function string) lifetime.SiteID {
	kind := frame.User
	if strings.HasSuffix(function, "Backward0") {
		kind = frame.Node
	}
	frame := h.b.Frame(frame.Frame{Function: function, File: "train.py", Kind: kind})
	return h.b.Site(lifetime.Site{Stack: h.b.Stack([]lifetime.FrameID{frame})})
}

func (h *byHand) free(x madeBlock) {
	h.at += 10
	h.b.Free(h.s, h.at, build.Block{Addr: x.addr, Requested: x.size, Occupied: x.size})
}

func (h *byHand) step() {
	h.b.Mark(h.s, lifetime.Mark{Begin: h.at + 1, End: h.at + 2, Kind: lifetime.Step, Text: "step"})
}

// find returns the findings of one rule.
func (h *byHand) find(t *testing.T, rule string) (c *lifetime.Capture, found []finding.Finding) {
	t.Helper()
	return h.findIn(t, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Clock}, rule)
}

func (h *byHand) findIn(t *testing.T, description lifetime.SpaceInfo, rule string) (c *lifetime.Capture, found []finding.Finding) {
	t.Helper()
	c = h.capture(t, description)
	for _, f := range find(t, c, finding.Settings{}) {
		if f.Rule == rule {
			found = append(found, f)
		}
	}
	return c, found
}

// capture ends the program and returns its capture.
func (h *byHand) capture(t *testing.T, description lifetime.SpaceInfo) *lifetime.Capture {
	t.Helper()
	h.b.Describe(h.s, description)
	c, err := h.b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}
