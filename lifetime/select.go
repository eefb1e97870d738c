package lifetime

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"

	"github.com/memlane/memlane/lifetime/loss"
)

// Selection says which part of a capture to look at. The zero value is all of it.
type Selection struct {
	Space       string // memory IDs, with or without their host, as path.Match has them; but "*" matches "/" too
	Module      string // one compiled program: "jit_f(5)", or "jit_f" for all of that name
	MemorySpace string // of compiled programs, as SpaceInfo.Memory: "space0"

	From, To *Instant // of the window; nil: its end

	// Of the buffers: the least occupied size, the category and the functions that
	// allocated them, or called those that did.
	MinSize  int64
	Category string
	Function *regexp.Regexp
}

// Instant is a point on the axis of a space.
type Instant struct {
	T     int64
	Since bool // T is nanoseconds since the first window of the capture begins
}

// NothingError says that a capture holds nothing of what was asked for.
type NothingError struct {
	File string
	Why  string
}

// Error returns the file and the reason.
func (e *NothingError) Error() string { return e.File + ": " + e.Why }

// WindowError says that From and To leave nothing of a capture.
type WindowError NothingError

// Error returns the file and the reason.
func (e *WindowError) Error() string { return (*NothingError)(e).Error() }

// AllBuffers reports whether the selection keeps all buffers of the spaces that it
// selects, for the whole window: their peak and end are then those of the capture.
func (s *Selection) AllBuffers() bool {
	return s.From == nil && s.To == nil && s.MinSize == 0 && s.Category == "" && s.Function == nil
}

// BySpace reports whether the selection names spaces.
func (s *Selection) BySpace() bool { return s.Space != "" || s.Module != "" || s.MemorySpace != "" }

// Has reports whether a space is selected. Module and MemorySpace select compiled
// programs.
func (s *Selection) Has(space *SpaceInfo) bool {
	if (s.Module != "" || s.MemorySpace != "") && space.Axis != ProgramOrder {
		return false
	}
	name, _, _ := strings.Cut(space.Module, "(")
	return (s.Module == "" || s.Module == space.Module || s.Module == name) &&
		(s.MemorySpace == "" || s.MemorySpace == space.Memory) &&
		(s.Space == "" || matches(s.Space, space.ID()) || space.Host != "" && matches(s.Space, strings.TrimPrefix(space.ID(), space.Host+"/")))
}

// matches is path.Match, but "*" matches a "/" too: memory IDs are no paths.
func matches(pattern, id string) bool {
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(id, "/", "\x00"))
	return ok
}

// names says which spaces are selected, as a person wrote it.
func (s *Selection) names() string {
	var parts []string
	for _, p := range []struct{ what, value string }{{"memory ID", s.Space}, {"program", s.Module}, {"memory space", strings.TrimPrefix(s.MemorySpace, MemorySpacePrefix)}} {
		if p.value != "" {
			parts = append(parts, p.what+" "+strconv.Quote(p.value))
		}
	}
	return strings.Join(parts, " and ")
}

// Of returns the selected part of a capture. The error is a *NothingError where
// nothing is selected, and a *WindowError where nothing lies between From and To.
func (s *Selection) Of(c *Capture) (*Capture, error) {
	part := c.Only(func(space *Space) bool { return s.Has(&space.SpaceInfo) })
	var all []*SpaceInfo
	for _, space := range c.Spaces {
		all = append(all, &space.SpaceInfo)
	}
	if err := s.empty(&c.Tables, all, len(part.Spaces)); err != nil {
		return nil, err
	}
	part, err := s.cut(part)
	if err != nil {
		return nil, err
	}
	return s.filter(part)
}

// OfOutline returns the selected spaces of an outline. The selection must have
// AllBuffers. The error is that of Of.
func (s *Selection) OfOutline(o *Outline) (*Outline, error) {
	part := *o
	part.Spaces = slices.DeleteFunc(slices.Clone(o.Spaces), func(space *SpaceOutline) bool { return !s.Has(&space.SpaceInfo) })
	var all []*SpaceInfo
	for _, space := range o.Spaces {
		all = append(all, &space.SpaceInfo)
	}
	return &part, s.empty(&o.Tables, all, len(part.Spaces))
}

// maxIDs is how many memory IDs an error lists.
const maxIDs = 12

// empty returns the error of a selection of n spaces.
func (s *Selection) empty(t *Tables, all []*SpaceInfo, n int) error {
	var ids []string
	for _, space := range all {
		ids = append(ids, space.ID())
	}
	switch more := len(ids) - maxIDs; {
	case len(ids) == 0:
		return &NothingError{t.Name(), "holds no memory data: " + t.whyEmpty()}
	case n > 0:
		return nil
	case more > 0:
		ids = append(ids[:maxIDs], fmt.Sprintf("and %d more", more))
	}
	why := fmt.Sprintf("has no %s; its memory IDs: %s", s.names(), strings.Join(ids, ", "))
	if missing := t.NoEvents(); missing != "" && s.Module == "" && s.MemorySpace == "" {
		why += "; " + missing
	}
	return &NothingError{t.Name(), why}
}

// whyEmpty says why a capture has no space at all, and what to do. Damage comes
// first: what else is missing may have been in it.
func (t *Tables) whyEmpty() string {
	damage := ""
	if lost, _ := loss.Worst(t.Losses, loss.Damage); lost.Count > 0 {
		damage = lost.String() + "; "
	}
	if why := t.NoEvents(); why != "" {
		return damage + why
	}
	why := damage + "no history, no state at the end and no compiled program"
	if advice := t.Sources[0].Traits.Advice; advice != "" {
		why += "; " + advice
	}
	return why
}

// NoEvents says why a profile has no memory events, and what to do; "" when it has.
func (t *Tables) NoEvents() string {
	for _, l := range t.Losses {
		switch l.Reason {
		case loss.NoMemoryEvents, loss.NoMemoryRecorded:
			return l.Reason.Doc()
		case loss.NotOfPyTorch:
			if l.First != "" {
				return l.Reason.Doc() + ": " + l.First
			}
			return l.Reason.Doc()
		}
	}
	return ""
}

// cut returns the part of a capture between From and To. Spaces of a capture share a
// clock.
func (s *Selection) cut(c *Capture) (*Capture, error) {
	if s.From == nil && s.To == nil {
		return c, nil
	}
	begin, end, any := int64(0), int64(0), false
	for _, space := range c.Spaces {
		if space.Axis == ProgramOrder {
			continue
		}
		if !any || space.Begin < begin {
			begin = space.Begin
		}
		end, any = max(end, space.End), true
	}
	if !any {
		return nil, &WindowError{c.Name(), "holds compiled programs alone, which have no window of time to cut"}
	}
	at := func(i *Instant, otherwise int64) int64 {
		switch {
		case i == nil:
			return otherwise
		case i.Since:
			return AddSat(begin, i.T)
		}
		return i.T
	}
	from, to := at(s.From, begin), at(s.To, end)
	if from >= to || from >= end || to <= begin {
		return nil, &WindowError{c.Name(), fmt.Sprintf("nothing was recorded in this window; the recording is %d to %d, %s long", begin, end-1, units.Span(end-begin, c.Spaces[0].Axis.Unit()))}
	}
	inside := c.Only(func(space *Space) bool { return space.Axis == ProgramOrder || space.Begin < to && space.End > from })
	return inside.Slice(func(*Space) int64 { return from }, func(*Space) int64 { return to }), nil
}

// filter returns the capture with the selected buffers.
func (s *Selection) filter(c *Capture) (*Capture, error) {
	if s.MinSize == 0 && s.Category == "" && s.Function == nil {
		return c, nil
	}
	allocated := c.Matching(s.Function)
	categories := map[string]bool{}
	n, all := 0, int64(0)
	part := c.Filter(func(space *Space, b *Buffer) bool {
		of := c.Category(&space.SpaceInfo, b.Kind, b.Site)
		categories[of] = true
		all++
		selected := b.Size >= s.MinSize && (s.Category == "" || of == s.Category) && allocated(b.Site)
		if selected {
			n++
		}
		return selected
	})
	if n == 0 && all > 0 {
		delete(categories, "")
		return nil, &NothingError{c.Name(), s.noBuffers(all, slices.Sorted(maps.Keys(categories)))}
	}
	return part, nil
}

// noBuffers says that none of all buffers is selected.
func (s *Selection) noBuffers(all int64, categories []string) string {
	var wanted []string
	if s.MinSize > 0 {
		wanted = append(wanted, "is at least "+units.Bytes(s.MinSize)+" large")
	}
	if s.Category != "" {
		wanted = append(wanted, fmt.Sprintf("has the category %q", s.Category))
	}
	if s.Function != nil {
		wanted = append(wanted, fmt.Sprintf("was allocated by %q", s.Function))
	}
	why := fmt.Sprintf("none of its %s %s", units.Several(all, "buffer"), strings.Join(wanted, " and "))
	switch {
	case s.Category == "":
		return why
	case len(categories) == 0:
		return why + "; no category is recorded"
	}
	return why + "; its categories: " + strings.Join(categories, ", ")
}

// Matching returns a function that reports whether a site was allocated by a function
// whose name matches, or by what it called; nil matches all. It looks at each site
// once.
func (t *Tables) Matching(function *regexp.Regexp) func(SiteID) bool {
	known := map[SiteID]bool{}
	return func(site SiteID) bool {
		if function == nil {
			return true
		}
		is, seen := known[site]
		if !seen {
			is = t.Sites[site].Op != "" && function.MatchString(t.Sites[site].Op)
			for f := range t.FramesOf(t.Sites[site].Stack) {
				is = is || function.MatchString(f.Function)
			}
			known[site] = is
		}
		return is
	}
}

// Category says what memory is for, as far as the producer does: the kind of buffers
// of a compiled program and of what no buffer stands for, else the region of the
// site.
func (t *Tables) Category(s *SpaceInfo, k Kind, site SiteID) string {
	if s.Axis == ProgramOrder || !k.OfBuffers() {
		return k.String()
	}
	return t.Sites[site].Region
}

// Name returns what to call the capture: its file, or the folder of its files.
func (t *Tables) Name() string {
	file := t.Sources[0].File
	if len(t.Sources) > 1 {
		return filepath.Dir(file)
	}
	return file
}
