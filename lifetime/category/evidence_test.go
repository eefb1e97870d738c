package category_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/selection"
)

// evidence is the captures whose answers must not change with what says nothing about them.
func evidence(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*[0-9].pickle.zst", "principles/*.pickle.zst"} {
		all, err := filepath.Glob(filepath.Join(testdata, pattern))
		if err != nil || len(all) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, all...)
	}
	return files
}

// categoriesOf returns the categories of the buffers of a space, judged as part of a capture.
func categoriesOf(c *lifetime.Capture, s *lifetime.Space) (all []purpose.Category) {
	part := *c
	part.Tables.Purposes = make([]purpose.Purpose, 1)
	part.Spaces = slices.Clone(c.Spaces)
	for i, other := range part.Spaces {
		copied := *other
		copied.Purposes = nil
		part.Spaces[i] = &copied
		if other == s {
			s = &copied
		}
	}
	category.Of(&part, nil)
	for i := range s.Buffers {
		all = append(all, part.Purpose(s.PurposeOf(i)).Category)
	}
	return all
}

// differ returns the share of the bytes about which both answers say something and disagree, and names the most of them.
func differ(s *lifetime.Space, x, y []purpose.Category, both bool) (share float64, most string) {
	kinds, all, sum := map[string]int64{}, int64(0), int64(0)
	for i := range x {
		size := s.Buffers[i].Size
		all += size
		if x[i] == y[i] || both && (x[i] == purpose.UnknownCategory || y[i] == purpose.UnknownCategory) {
			continue
		}
		kind := fmt.Sprintf("%v -> %v", x[i], y[i])
		kinds[kind] += size
		if sum += size; kinds[kind] > kinds[most] {
			most = kind
		}
	}
	return float64(sum) / float64(max(all, 1)), most
}

// TestBeside: memory that a thread, or a function that the program calls, allocates and frees at once says nothing about other buffers.
func TestBeside(t *testing.T) {
	for _, file := range evidence(t) {
		c, err := shared(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			before := categoriesOf(c, s)
			for _, inside := range []bool{false, true} {
				for _, every := range []int{1, 7} {
					with, space, own := beside(c, s, every, inside)
					after := slices.DeleteFunc(categoriesOf(with, space), func(purpose.Category) bool { own = own[1:]; return !own[0] })
					if share, most := differ(s, before, after, false); share > 0 {
						t.Errorf("%s %s, one in %d, inside %v: %.2f %% of the bytes change, %s", file, s.ID(), every, inside, 100*share, most)
					}
				}
			}
		}
	}
}

// beside returns a capture in which 4 KiB are allocated and freed right after some allocations, by a thread of its own or by a function
// that the innermost function of the program calls. own tells, after its first element, which buffers were there before.
func beside(c *lifetime.Capture, s *lifetime.Space, every int, inside bool) (*lifetime.Capture, *lifetime.Space, []bool) {
	with := *c
	with.Frames = append(slices.Clone(c.Frames), frame.Frame{Function: "run", File: "/usr/lib/python3.11/threading.py", Line: 982, Kind: frame.Framework},
		frame.Frame{Function: "poll", File: "/srv/monitor/gauge.py", Line: 7, Kind: frame.User})
	run, poll := lifetime.FrameID(len(c.Frames)), lifetime.FrameID(len(c.Frames)+1)
	with.Stacks, with.Sites = slices.Clone(c.Stacks), slices.Clone(c.Sites)
	stack := func(f lifetime.FrameID, caller lifetime.StackID) lifetime.StackID {
		with.Stacks = append(with.Stacks, lifetime.Stack{Frame: f, Caller: caller})
		return lifetime.StackID(len(with.Stacks) - 1)
	}
	thread := stack(poll, stack(run, 0))
	sites := map[lifetime.StackID]lifetime.SiteID{}
	space := *s
	space.Purposes, space.Buffers, space.FreeSites = nil, nil, nil
	own, n := []bool{true}, 0
	const times = 4 // there is room for two events after each
	for i, b := range s.Buffers {
		b.Begin, b.End = b.Begin*times, b.End*times
		space.Buffers, own = append(space.Buffers, b), append(own, true)
		freed := lifetime.SiteID(0)
		if s.FreeSites != nil {
			freed = s.FreeSites[i]
		}
		space.FreeSites = append(space.FreeSites, freed)
		if b.Edge&lifetime.BeginUnseen != 0 || c.Sites[b.Site].Stack == 0 {
			continue
		}
		if n++; n%every != 0 {
			continue
		}
		user := c.Sites[b.Site].Stack
		for user != 0 && c.Frames[c.Stacks[user].Frame].Kind != frame.User {
			user = c.Stacks[user].Caller
		}
		switch {
		case !inside:
			user = 0
		case user == 0:
			continue
		}
		site, ok := sites[user]
		if !ok {
			site = lifetime.SiteID(len(with.Sites))
			sites[user] = site
			at := thread
			if inside {
				at = stack(poll, user)
			}
			with.Sites = append(with.Sites, lifetime.Site{Stack: at})
		}
		space.Buffers = append(space.Buffers, lifetime.Buffer{Begin: b.Begin + 1, End: b.Begin + 2, Addr: 1 << 60, Size: 4096, Requested: 4096, Site: site})
		space.FreeSites, own = append(space.FreeSites, site), append(own, false)
	}
	if s.FreeSites == nil {
		space.FreeSites = nil
	}
	space.Begin, space.End, space.BufNotes, space.Holders, space.ValueIDs, space.FreeRequests = s.Begin*times, s.End*times, nil, nil, nil, nil
	space.Marks = slices.Clone(s.Marks)
	for i := range space.Marks {
		space.Marks[i].Begin, space.Marks[i].End = space.Marks[i].Begin*times, space.Marks[i].End*times
	}
	space.SortEnds(nil)
	with.Spaces = []*lifetime.Space{&space}
	return &with, &space, own
}

// TestEdges: a recording that ends earlier, or begins later, says nothing else than the whole one. Sizes from before the recording do not
// tell parameters from states in all of them.
func TestEdges(t *testing.T) {
	cuts, bad := 0, 0
	for _, file := range evidence(t) {
		c, err := shared(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, s := range c.Spaces {
			if len(s.Buffers) == 0 {
				continue
			}
			whole := categoriesOf(c, s)
			for k := 1; k < 16; k += deep.Or(4, 1) {
				at := s.Buffers[len(s.Buffers)*k/16].Begin + 1
				for what, of := range map[string][2]int64{"ends": {s.Begin, at}, "begins": {at, s.End}} {
					part := selection.Slice(c, of[0], of[1])
					cut := part.Spaces[n]
					var known []purpose.Category
					for i := range s.Buffers {
						if b := &s.Buffers[i]; b.Begin < of[1] && (b.Edge&lifetime.EndOpen != 0 || b.End > of[0]) {
							known = append(known, whole[i])
						}
					}
					for i := range cut.Buffers { // only the free of what is older is recorded
						if b := &cut.Buffers[i]; b.Edge&lifetime.BeginUnseen != 0 && what == "begins" {
							b.Site, b.Edge = 0, b.Edge|lifetime.SiteFromFree
							if cut.FreeSites != nil && b.Edge&lifetime.EndOpen == 0 {
								b.Site = cut.FreeSites[i]
							}
						}
					}
					cuts++
					if share, most := differ(cut, known, categoriesOf(part, cut), true); share > .01 {
						bad++
						t.Logf("%s %s %s at %d of 16: %.2f %% of the bytes change, %s", file, s.ID(), what, k, 100*share, most)
					}
				}
			}
		}
	}
	if bad*35 > cuts {
		t.Errorf("%d of %d parts say something else", bad, cuts)
	}
}

// TestMarksOfProcess: marks at one device are about all devices of the process, but for failures.
func TestMarksOfProcess(t *testing.T) {
	for _, file := range evidence(t) {
		c, err := shared(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Spaces {
			bare := *s
			isOfProcess := func(m lifetime.Mark) bool { return m.Kind != lifetime.OOM }
			bare.Device, bare.Marks = "cuda:7", slices.DeleteFunc(slices.Clone(s.Marks), isOfProcess)
			two := *c
			two.Spaces = []*lifetime.Space{s, &bare}
			if share, most := differ(s, categoriesOf(c, s), categoriesOf(&two, &bare), false); share > 0 {
				t.Errorf("%s %s: %.2f %% of the bytes change, %s", file, s.ID(), 100*share, most)
			}
		}
	}
}
