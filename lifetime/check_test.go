package lifetime_test

import (
	"math"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
)

// damaged returns a capture that passes Check, for tests to damage.
func damaged(t *testing.T) (*lifetime.Capture, *lifetime.Space) {
	b := build.New(0)
	b.Source(lifetime.Source{File: "test"})
	s := b.Space()
	site := func(op string) lifetime.SiteID { return b.Site(lifetime.Site{Op: op}) }
	block := func(addr uint64, op string) build.Block {
		return build.Block{Addr: addr, Requested: 100, Occupied: 512, Site: site(op)}
	}
	b.Free(s, 5, build.Block{Addr: 0x9000, Requested: 1, Occupied: 512}) // buffer 0, older than the window
	b.Alloc(s, 10, block(0x1000, "a"))
	b.Alloc(s, 20, block(0x2000, "b"))
	b.Free(s, 30, block(0x1000, "f"))
	b.Alloc(s, 40, block(0x3000, "c"))
	b.Live(s, block(0x2000, ""))
	b.Live(s, block(0x3000, ""))
	b.Annotate(s, 41, 0x3000, b.Note("n"))
	b.Reserve(s, 42, lifetime.Region{Addr: 0, Size: 100})
	b.Reserve(s, 43, lifetime.Region{Addr: 200, Size: 100})
	for at := range int64(2) {
		b.Mark(s, lifetime.Mark{Begin: 44 + at, End: 44 + at, Kind: lifetime.Annotation, Text: "m"})
		b.Total(s, lifetime.Total{T: 46 + at, Bytes: 200, Measure: lifetime.Requested})
	}
	b.Describe(s, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.EndState})
	b.Stack([]lifetime.FrameID{b.Frame(lifetime.Frame{Function: "f"}), b.Frame(lifetime.Frame{Function: "g"})})
	c, err := b.Finish()
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, c.Spaces[0]
}

// TestCheckFinds damages a capture in one way at a time. Check must report each.
func TestCheckFinds(t *testing.T) {
	for want, damage := range map[string]func(*lifetime.Capture, *lifetime.Space){
		"source 1 of 1":                     func(_ *lifetime.Capture, s *lifetime.Space) { s.Source = 1 },
		"source -1 of 1":                    func(_ *lifetime.Capture, s *lifetime.Space) { s.Source = -1 },
		"begins at 10, ends at 10":          func(_ *lifetime.Capture, s *lifetime.Space) { s.Buffers[1].End = 10 },
		"outside the recording":             func(_ *lifetime.Capture, s *lifetime.Space) { s.Begin++ },
		"buffer 2: [20, 48) outside":        func(_ *lifetime.Capture, s *lifetime.Space) { s.End-- },
		"buffer 1: negative size":           func(_ *lifetime.Capture, s *lifetime.Space) { s.Buffers[1].Size = -1 },
		"buffer 2: negative size":           func(_ *lifetime.Capture, s *lifetime.Space) { s.Buffers[2].Requested = -1 },
		"buffer 1: site":                    func(c *lifetime.Capture, s *lifetime.Space) { s.Buffers[1].Site = lifetime.SiteID(len(c.Sites)) },
		"buffer 2 begins before buffer 1":   func(_ *lifetime.Capture, s *lifetime.Space) { s.Buffers[1].Begin = 21 },
		"1 and 2 begin at the same instant": func(_ *lifetime.Capture, s *lifetime.Space) { s.Buffers[1].Begin = 20 },
		"3 ends for 4 buffers":              func(_ *lifetime.Capture, s *lifetime.Space) { s.EndOrder = s.EndOrder[1:] },
		"which does not exist":              func(_ *lifetime.Capture, s *lifetime.Space) { s.EndOrder[0] = s.EndOrder[1] },
		"end 0 is buffer 4":                 func(_ *lifetime.Capture, s *lifetime.Space) { s.EndOrder[0] = 4 },
		"end 1, of buffer 0, comes after": func(_ *lifetime.Capture, s *lifetime.Space) {
			s.EndOrder[0], s.EndOrder[1] = s.EndOrder[1], s.EndOrder[0]
		},
		"end 2, of buffer 1, comes after": func(_ *lifetime.Capture, s *lifetime.Space) {
			s.EndOrder[1], s.EndOrder[2] = s.EndOrder[2], s.EndOrder[1]
		},
		"buffers 1 and 2 are both alive": func(_ *lifetime.Capture, s *lifetime.Space) { s.Buffers[2].Addr = 0x1000 },
		"a column of 1 for 4":            func(_ *lifetime.Capture, s *lifetime.Space) { s.FreeSites = s.FreeSites[:1] },
		"freed by site":                  func(c *lifetime.Capture, s *lifetime.Space) { s.FreeSites[1] = lifetime.SiteID(len(c.Sites)) },
		"buffer 3: note":                 func(c *lifetime.Capture, s *lifetime.Space) { s.BufNotes[3] = lifetime.NoteID(len(c.Notes)) },
		"region 0: [4, 48) of 100": func(_ *lifetime.Capture, s *lifetime.Space) {
			s.Begin, s.Buffers[0].Begin, s.Regions[0].Begin = 5-0, 5, 4
			s.Buffers[0].End = 6
		},
		"region 0: [42, 42)":              func(_ *lifetime.Capture, s *lifetime.Space) { s.Regions[0].End = 42 },
		"region 1: [43, 99)":              func(_ *lifetime.Capture, s *lifetime.Space) { s.Regions[1].End = 99 },
		"of -1 bytes":                     func(_ *lifetime.Capture, s *lifetime.Space) { s.Regions[0].Size = -1 },
		"region 0: site":                  func(c *lifetime.Capture, s *lifetime.Space) { s.Regions[0].Site = lifetime.SiteID(len(c.Sites)) },
		"region 1 begins before region 0": func(_ *lifetime.Capture, s *lifetime.Space) { s.Regions[0].Begin = 44 },
		"mark 0: [44, 43)":                func(_ *lifetime.Capture, s *lifetime.Space) { s.Marks[0].End = 43 },
		"mark 1: site":                    func(c *lifetime.Capture, s *lifetime.Space) { s.Marks[1].Site = lifetime.SiteID(len(c.Sites)) },
		"mark 1 begins before mark 0":     func(_ *lifetime.Capture, s *lifetime.Space) { s.Marks[0].Begin, s.Marks[0].End = 46, 46 },
		"value 7: site": func(c *lifetime.Capture, s *lifetime.Space) {
			s.Values = []lifetime.Value{{ID: 7, Site: lifetime.SiteID(len(c.Sites))}}
		},
		"value 7: negative size":  func(_ *lifetime.Capture, s *lifetime.Space) { s.Values = []lifetime.Value{{ID: 7, Size: -1}} },
		"value 8: negative size":  func(_ *lifetime.Capture, s *lifetime.Space) { s.Values = []lifetime.Value{{ID: 8, Requested: -1}} },
		"stack level 0: -1 bytes": func(_ *lifetime.Capture, s *lifetime.Space) { s.Stack = []lifetime.Level{{At: 20, Bytes: -1}} },
		"stack level 1: 5 bytes at 19": func(_ *lifetime.Capture, s *lifetime.Space) {
			s.Stack = []lifetime.Level{{At: 20, Bytes: 5}, {At: 19, Bytes: 5}}
		},
		"total 1 comes after":   func(_ *lifetime.Capture, s *lifetime.Space) { s.Totals[0].T = 48 },
		"stack 1: frame":        func(c *lifetime.Capture, _ *lifetime.Space) { c.Stacks[1].Frame = lifetime.FrameID(len(c.Frames)) },
		"stack 2: caller 2":     func(c *lifetime.Capture, _ *lifetime.Space) { c.Stacks[2].Caller = 2 },
		"site 1: stack":         func(c *lifetime.Capture, _ *lifetime.Space) { c.Sites[1].Stack = lifetime.StackID(len(c.Stacks)) },
		"call 0: space 1 of 1":  func(c *lifetime.Capture, _ *lifetime.Space) { c.Calls = []lifetime.Call{{Space: 1}} },
		"call 0: space -1 of 1": func(c *lifetime.Capture, _ *lifetime.Space) { c.Calls = []lifetime.Call{{Space: -1}} },
		"call 1: site": func(c *lifetime.Capture, _ *lifetime.Space) {
			c.Calls = []lifetime.Call{{}, {Site: lifetime.SiteID(len(c.Sites))}}
		},
		"call 0: NaN seconds":    func(c *lifetime.Capture, _ *lifetime.Space) { c.Calls = []lifetime.Call{{Begin: math.NaN()}} },
		"call 0: +Inf seconds":   func(c *lifetime.Capture, _ *lifetime.Space) { c.Calls = []lifetime.Call{{Seconds: math.Inf(1)}} },
		"sample 0: space 1 of 1": func(c *lifetime.Capture, _ *lifetime.Space) { c.Samples = []lifetime.Sample{{Space: 1}} },
	} {
		c, s := damaged(t)
		if err := c.Check(); err != nil {
			t.Fatalf("before: %v", err)
		}
		damage(c, s)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check says %v, want %q in it", err, want)
		}
	}
}

// TestCheckAllows: data that looks damaged but is legal.
func TestCheckAllows(t *testing.T) {
	c, s := damaged(t)
	s.Axis = lifetime.ProgramOrder // buffers of a program's schedule begin together and share memory
	s.Buffers[1].Begin, s.Buffers[2].Addr = 20, 0x1000
	s.Values = []lifetime.Value{{ID: 7}} // of nothing
	s.Regions[0].Size = 0
	s.Stack = []lifetime.Level{{At: 20, Bytes: 5}, {At: 20, Bytes: 6}}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}
