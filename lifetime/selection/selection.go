// Package selection makes captures of captures: a part of the spaces, of the window or of the buffers ([Selection],
// [Slice]), groups of buffers in place of call sites ([GroupBy]), and an axis of events in place of time ([ByEvent]).
// It also chooses what a command shows of a capture: memory IDs ([Choose], [Largest]) and an instant ([Moment]).
//
// Its place in the pipeline: after the model and before every answer and picture, which need not know that they see a
// part.
package selection

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/outline"
)

// Selection selects a part of a capture. The zero value selects all of it.
type Selection struct {
	Space  string // pattern of memory IDs, with or without host, as in path.Match; but "*" also matches "/"
	Module string // compiled program: "jit_f(5)", or "jit_f" for all with that name

	From, To *Instant // of the window; nil = its begin or end

	// Of buffers.
	MinSize  int64 // occupied bytes
	Category string
	Function *regexp.Regexp // a function of the call stack, or the operation
	Name     *regexp.Regexp // what the recorder found: the name of the tensor, or what holds it

	By By // what buffers are summed up by; "" = ByLine
}

// Instant is a point on the axis of a space.
type Instant struct {
	T     int64
	Since bool // T counts from the begin of the capture's first window
}

// NothingError reports that a capture has no data that matches the request.
type NothingError struct {
	File string
	Why  string
}

// Error returns the file and the reason.
func (e *NothingError) Error() string { return e.File + ": " + e.Why }

// AllBuffers reports whether the selection keeps all buffers of its spaces for the
// whole window. Peak and end are then those of the capture.
func (s *Selection) AllBuffers() bool {
	return s.From == nil && s.To == nil && s.MinSize == 0 && s.Category == "" && s.Function == nil && s.Name == nil
}

// BySpace reports whether the selection is limited to some spaces.
func (s *Selection) BySpace() bool { return s.Space != "" || s.Module != "" }

// has reports whether a space is selected. Module only selects compiled programs.
func (s *Selection) has(space *lifetime.SpaceInfo) bool {
	if s.Module != "" && space.Axis != lifetime.ProgramOrder {
		return false
	}
	name, _, _ := strings.Cut(space.Module, "(")
	return (s.Module == "" || s.Module == space.Module || s.Module == name) &&
		(s.Space == "" || matches(s.Space, space.ID()) || space.Host != "" &&
			matches(s.Space, strings.TrimPrefix(space.ID(), space.Host+"/")))
}

// matches is path.Match, except that "*" also matches "/": memory IDs are not paths.
func matches(pattern, id string) bool {
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(id, "/", "\x00"))
	return ok
}

// names describes the selected spaces in the user's words.
func (s *Selection) names() string {
	var parts []string
	for _, p := range [][2]string{{"memory ID", s.Space}, {"program", s.Module}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+strconv.Quote(p[1]))
		}
	}
	return strings.Join(parts, " and ")
}

// Of returns the selected memory IDs and window of a capture, with all their buffers. It fails with a *NothingError if nothing
// is selected.
func (s *Selection) Of(c *lifetime.Capture) (*lifetime.Capture, error) {
	part := only(c, func(space *lifetime.Space) bool { return s.has(&space.SpaceInfo) })
	if err := empty(s, &c.Tables, c.Spaces, len(part.Spaces)); err != nil {
		return nil, err
	}
	return s.cut(part)
}

// Buffers returns what Of returned with the selected buffers, grouped. It fails like Of.
func (s *Selection) Buffers(of *lifetime.Capture) (*lifetime.Capture, error) {
	part, err := s.filter(of)
	if err != nil || s.By == "" {
		return part, err
	}
	return GroupBy(part, s.By)
}

// OfOutline returns the selected spaces of an outline. It requires AllBuffers and fails like Of.
func (s *Selection) OfOutline(o *outline.Outline) (*outline.Outline, error) {
	part := *o
	part.Spaces = slices.DeleteFunc(slices.Clone(o.Spaces), func(space *outline.Space) bool { return !s.has(&space.SpaceInfo) })
	return &part, empty(s, &o.Tables, o.Spaces, len(part.Spaces))
}

const maxIDs = 12

// empty returns the error for a selection that has n of these spaces; nil if it has any.
func empty[S interface{ ID() string }](s *Selection, t *lifetime.Tables, spaces []S, n int) error {
	var ids []string
	for _, space := range spaces {
		ids = append(ids, space.ID())
	}
	switch more := len(ids) - maxIDs; {
	case len(ids) == 0:
		return &NothingError{t.Name(), "holds no memory data: " + whyEmpty(t)}
	case n > 0:
		return nil
	case more > 0:
		ids = append(ids[:maxIDs], fmt.Sprintf("and %d more", more))
	}
	why := fmt.Sprintf("has no %s; its memory IDs: %s", s.names(), strings.Join(ids, ", "))
	if missing := loss.NoEvents(t.Losses); missing != "" && s.Module == "" {
		why += "; " + missing
	}
	return &NothingError{t.Name(), why}
}

// whyEmpty explains why a capture has no space, and what to do. Damage comes first, because it may be the cause.
func whyEmpty(t *lifetime.Tables) string {
	damage := ""
	if lost, _ := loss.Worst(t.Losses, loss.Damage); lost.Count > 0 {
		damage = lost.String() + "; "
	}
	if why := loss.NoEvents(t.Losses); why != "" {
		return damage + why
	}
	why := damage + "no history, no end state and no compiled program"
	if advice := t.Sources[0].Traits.Advice; advice != "" {
		why += "; " + advice
	}
	return why
}

// cut returns the part of a capture between From and To. The spaces of a capture have the same clock.
func (s *Selection) cut(c *lifetime.Capture) (*lifetime.Capture, error) {
	if s.From == nil && s.To == nil {
		return c, nil
	}
	begin, end, any := int64(0), int64(0), false
	for _, space := range c.Spaces {
		if space.Axis == lifetime.ProgramOrder {
			continue
		}
		if !any || space.Begin < begin {
			begin = space.Begin
		}
		end, any = max(end, space.End), true
	}
	if !any {
		return nil, &NothingError{c.Name(), "has only compiled programs, which have no time to select"}
	}
	at := func(i *Instant, unset int64) int64 {
		switch {
		case i == nil:
			return unset
		case i.Since:
			return units.AddSat(begin, i.T)
		}
		return i.T
	}
	from, to := at(s.From, begin), at(s.To, end)
	if from >= to || from >= end || to <= begin {
		return nil,
			&NothingError{c.Name(),
				"nothing was recorded in this interval; the recording is " + units.Span(end-begin, c.Spaces[0].Axis.Unit()) + " long"}
	}
	inside := only(c, func(space *lifetime.Space) bool {
		return space.Axis == lifetime.ProgramOrder || space.Begin < to && space.End > from
	})
	return Slice(inside, from, to), nil
}

func (s *Selection) filter(c *lifetime.Capture) (*lifetime.Capture, error) {
	if s.MinSize == 0 && s.Category == "" && s.Function == nil && s.Name == nil {
		return c, nil
	}
	allocated, named := Matching(&c.Tables, s.Function), s.named(&c.Tables)
	categories := map[string]bool{}
	kept, all := 0, int64(0)
	part := filter(c, func(space *lifetime.Space, i int, b *lifetime.Buffer) bool {
		category := c.Category(&space.SpaceInfo, b.Kind, b.Site, space.PurposeOf(i))
		categories[category] = true
		all++
		selected := b.Size >= s.MinSize && (s.Category == "" || category == s.Category) && allocated(b.Site) && named(space, i)
		if selected {
			kept++
		}
		return selected
	})
	if kept == 0 && all > 0 {
		delete(categories, "")
		return nil, &NothingError{c.Name(), s.noBuffers(all, slices.Sorted(maps.Keys(categories)))}
	}
	return part, nil
}

// noBuffers explains that none of all buffers is selected.
func (s *Selection) noBuffers(all int64, categories []string) string {
	var conditions []string
	if s.MinSize > 0 {
		conditions = append(conditions, "is at least "+units.Bytes(s.MinSize)+" large")
	}
	if s.Category != "" {
		conditions = append(conditions, fmt.Sprintf("has the category %q", s.Category))
	}
	if s.Function != nil {
		conditions = append(conditions, fmt.Sprintf("was allocated by %q", s.Function))
	}
	if s.Name != nil {
		conditions = append(conditions, fmt.Sprintf("has a recorded name or holder that matches %q", s.Name))
	}
	why := fmt.Sprintf("none of its %s %s", units.Plural(all, "buffer"), strings.Join(conditions, " and "))
	switch {
	case s.Category == "":
		return why
	case len(categories) == 0:
		return why + "; no category is recorded"
	}
	return why + "; its categories: " + strings.Join(categories, ", ")
}

// named returns a function that reports whether Name matches the name of a buffer or what holds it. Without Name it
// matches all.
func (s *Selection) named(t *lifetime.Tables) func(space *lifetime.Space, buffer int) bool {
	return func(space *lifetime.Space, buffer int) bool {
		if s.Name == nil {
			return true
		}
		if b := &space.Buffers[buffer]; s.Name.MatchString(t.ArgumentOf(b.Kind, b.Site)) && t.ArgumentOf(b.Kind, b.Site) != "" {
			return true
		}
		h := t.HolderOf(space, buffer)
		return h != nil && (s.Name.MatchString(h.Label()) || s.Name.MatchString(h.By()) || s.Name.MatchString(h.Whole()))
	}
}

// Matching returns a function that reports whether function matches the operation of a
// site or any function on its call stack. A nil function matches every site. Operations, frames and
// stacks are asked once each: calls inside calls would otherwise take the square of their depth.
func Matching(t *lifetime.Tables, function *regexp.Regexp) func(lifetime.SiteID) bool {
	if function == nil {
		return func(lifetime.SiteID) bool { return true }
	}
	stacks := sync.OnceValue(func() []bool { return stacksMatching(t, function) })
	known := map[lifetime.SiteID]bool{}
	return func(site lifetime.SiteID) bool {
		is, seen := known[site]
		if !seen {
			s := &t.Sites[site]
			is = s.Op != "" && function.MatchString(s.Op) || stacks()[s.Stack]
			known[site] = is
		}
		return is
	}
}

func stacksMatching(t *lifetime.Tables, function *regexp.Regexp) []bool {
	frames := make([]bool, len(t.Frames))
	for i := range t.Frames {
		frames[i] = function.MatchString(t.Frames[i].Function)
	}
	stacks := make([]bool, len(t.Stacks))
	for i := 1; i < len(stacks); i++ { // a caller comes before the stacks that it calls
		s := &t.Stacks[i]
		stacks[i] = stacks[s.Caller] || frames[s.Frame]
	}
	return stacks
}

// NameOlder says how to record who allocated what a memory ID had before the recording.
func NameOlder(t *lifetime.Tables, s *lifetime.SpaceInfo) string {
	if names := t.Sources[s.Source].Traits.Names; names != "" && !strings.HasPrefix(s.Device, "cpu") {
		return "Record with " + names + " to see what was there before the recording."
	}
	return "Start the recording before the model is loaded to see what was there before."
}
