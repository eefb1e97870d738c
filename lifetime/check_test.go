package lifetime

import (
	"math"
	"strings"
	"testing"
)

// damaged returns a capture that passes Check, for a test to damage.
func damaged(t *testing.T) (*Capture, *Space) {
	c, s := build(t, endState,
		free(5, 0x9000, 1, ""), // buffer 0, older than the window
		alloc(10, 0x1000, 100, "a"), alloc(20, 0x2000, 100, "b"), free(30, 0x1000, 100, "f"), alloc(40, 0x3000, 100, "c"),
		live(0x2000, 100, 512, ""), live(0x3000, 100, 512, ""), note(41, 0x3000, "n"),
		reserve(42, 0, 100), reserve(43, 200, 100), mark(44, 44, "m"), mark(45, 45, "n"), total(46, 200, Requested), total(47, 200, Requested))
	c.Stacks = append(c.Stacks, []FrameID{0})
	return c, s
}

// TestCheckFinds damages a capture in one way at a time: Check names each.
func TestCheckFinds(t *testing.T) {
	for want, damage := range map[string]func(*Capture, *Space){
		"source 1 of 1":                     func(_ *Capture, s *Space) { s.Source = 1 },
		"source -1 of 1":                    func(_ *Capture, s *Space) { s.Source = -1 },
		"begins at 10, ends at 10":          func(_ *Capture, s *Space) { s.Buffers[1].End = 10 },
		"outside the window":                func(_ *Capture, s *Space) { s.Begin++ },
		"buffer 2: [20, 48) outside":        func(_ *Capture, s *Space) { s.End-- },
		"buffer 1: negative size":           func(_ *Capture, s *Space) { s.Buffers[1].Size = -1 },
		"buffer 2: negative size":           func(_ *Capture, s *Space) { s.Buffers[2].Requested = -1 },
		"buffer 1: site":                    func(c *Capture, s *Space) { s.Buffers[1].Site = SiteID(len(c.Sites)) },
		"buffer 2 begins before buffer 1":   func(_ *Capture, s *Space) { s.Buffers[1].Begin = 21 },
		"1 and 2 begin at the same instant": func(_ *Capture, s *Space) { s.Buffers[1].Begin = 20 },
		"3 ends for 4 buffers":              func(_ *Capture, s *Space) { s.byEnd = s.byEnd[1:] },
		"which there is not":                func(_ *Capture, s *Space) { s.byEnd[0] = s.byEnd[1] },
		"that of buffer 4":                  func(_ *Capture, s *Space) { s.byEnd[0] = 4 },
		"end 1, of buffer 0, stands behind": func(_ *Capture, s *Space) { s.byEnd[0], s.byEnd[1] = s.byEnd[1], s.byEnd[0] },
		"end 2, of buffer 1, stands behind": func(_ *Capture, s *Space) { s.byEnd[1], s.byEnd[2] = s.byEnd[2], s.byEnd[1] },
		"buffers 1 and 2 are both alive":    func(_ *Capture, s *Space) { s.Buffers[2].Addr = 0x1000 },
		"1 free sites for 4":                func(_ *Capture, s *Space) { s.FreeSites = s.FreeSites[:1] },
		"1 notes for 4":                     func(_ *Capture, s *Space) { s.BufNotes = s.BufNotes[:1] },
		"freed by site":                     func(c *Capture, s *Space) { s.FreeSites[1] = SiteID(len(c.Sites)) },
		"buffer 3: note":                    func(c *Capture, s *Space) { s.BufNotes[3] = NoteID(len(c.Notes)) },
		"region 0: [4, 48) of 100": func(_ *Capture, s *Space) {
			s.Begin, s.Buffers[0].Begin, s.Regions[0].Begin = 5-0, 5, 4
			s.Buffers[0].End = 6
		},
		"region 0: [42, 42)":              func(_ *Capture, s *Space) { s.Regions[0].End = 42 },
		"region 1: [43, 99)":              func(_ *Capture, s *Space) { s.Regions[1].End = 99 },
		"of -1 bytes":                     func(_ *Capture, s *Space) { s.Regions[0].Size = -1 },
		"region 0: site":                  func(c *Capture, s *Space) { s.Regions[0].Site = SiteID(len(c.Sites)) },
		"region 1 begins before region 0": func(_ *Capture, s *Space) { s.Regions[0].Begin = 44 },
		"mark 0: [44, 43)":                func(_ *Capture, s *Space) { s.Marks[0].End = 43 },
		"mark 1: site":                    func(c *Capture, s *Space) { s.Marks[1].Site = SiteID(len(c.Sites)) },
		"mark 1 begins before mark 0":     func(_ *Capture, s *Space) { s.Marks[0].Begin, s.Marks[0].End = 46, 46 },
		"value 7: site":                   func(c *Capture, s *Space) { s.Values = []Value{{ID: 7, Site: SiteID(len(c.Sites))}} },
		"value 7: negative size":          func(_ *Capture, s *Space) { s.Values = []Value{{ID: 7, Size: -1}} },
		"value 8: negative size":          func(_ *Capture, s *Space) { s.Values = []Value{{ID: 8, Requested: -1}} },
		"stack level 0: -1 bytes":         func(_ *Capture, s *Space) { s.Stack = []Level{{At: 20, Bytes: -1}} },
		"stack level 1: 5 bytes at 19":    func(_ *Capture, s *Space) { s.Stack = []Level{{At: 20, Bytes: 5}, {At: 19, Bytes: 5}} },
		"total 1 stands behind":           func(_ *Capture, s *Space) { s.Totals[0].T = 48 },
		"stack 1: frame":                  func(c *Capture, _ *Space) { c.Stacks[1] = []FrameID{FrameID(len(c.Frames))} },
		"site 1: stack":                   func(c *Capture, _ *Space) { c.Sites[1].Stack = StackID(len(c.Stacks)) },
		"call 0: space 1 of 1":            func(c *Capture, _ *Space) { c.Calls = []Call{{Space: 1}} },
		"call 0: space -1 of 1":           func(c *Capture, _ *Space) { c.Calls = []Call{{Space: -1}} },
		"call 1: site":                    func(c *Capture, _ *Space) { c.Calls = []Call{{}, {Site: SiteID(len(c.Sites))}} },
		"call 0: NaN seconds":             func(c *Capture, _ *Space) { c.Calls = []Call{{Begin: math.NaN()}} },
		"call 0: +Inf seconds":            func(c *Capture, _ *Space) { c.Calls = []Call{{Seconds: math.Inf(1)}} },
		"sample 0: space 1 of 1":          func(c *Capture, _ *Space) { c.Samples = []Sample{{Space: 1}} },
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

// TestCheckAllows: what looks damaged and is legal.
func TestCheckAllows(t *testing.T) {
	c, s := damaged(t)
	s.Axis = ProgramOrder // buffers of a program's schedule begin together and share memory
	s.Buffers[1].Begin, s.Buffers[2].Addr = 20, 0x1000
	s.Values = []Value{{ID: 7}} // of nothing
	s.Regions[0].Size = 0
	s.Stack = []Level{{At: 20, Bytes: 5}, {At: 20, Bytes: 6}}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}
